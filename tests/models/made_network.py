"""The training side of VITS, for voices with random weights.

Names and the places of weight norm are those of Piper's training code, so that the exporter folds
and renames what it folds and renames in real voices. The arithmetic is written in the plainest
way, with padding and masks, as a second opinion on batchtts' own.
"""

import warnings

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tests.models.made_decoder import Decoder, Kind, conv


def normed(layer: nn.Conv1d) -> nn.Conv1d:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Piper was trained with the older weight norm
        done: nn.Conv1d = nn.utils.weight_norm(layer)
    return done


class Norm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(1 + 0.1 * torch.randn(channels))
        self.beta = nn.Parameter(0.1 * torch.randn(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = F.layer_norm(x.transpose(1, 2), self.gamma.shape, self.gamma, self.beta, 1e-5)
        return y.transpose(1, 2)


class Attention(nn.Module):
    window = 4

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.conv_q, self.conv_k, self.conv_v, self.conv_o = (
            conv(hidden, hidden, 1) for _ in range(4)
        )
        self.width = hidden // 2
        distances = 2 * self.window + 1
        self.emb_rel_k = nn.Parameter(torch.randn(1, distances, self.width) * self.width**-0.5)
        self.emb_rel_v = nn.Parameter(torch.randn(1, distances, self.width) * self.width**-0.5)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.reshape(y.shape[0], 2, self.width, -1).transpose(2, 3)

        query = heads(self.conv_q(x)) * self.width**-0.5
        key, value = heads(self.conv_k(x)), heads(self.conv_v(x))
        place = torch.arange(x.shape[2])
        distance = place[None] - place[:, None] + self.window
        near = ((distance >= 0) & (distance <= 2 * self.window)).float()[..., None]
        index = distance.clamp(0, 2 * self.window).flatten()
        near_key, near_value = (
            table.index_select(1, index).reshape(*distance.shape, self.width) * near
            for table in (self.emb_rel_k, self.emb_rel_v)
        )
        scores = query @ key.transpose(2, 3) + torch.einsum("bhid,ijd->bhij", query, near_key)
        scores = scores.masked_fill((mask[:, :, None] * mask[..., None]) == 0, -1e4)
        share = scores.softmax(-1)
        out = share @ value + torch.einsum("bhij,ijd->bhid", share, near_value)
        joined: Tensor = self.conv_o(out.transpose(2, 3).flatten(1, 2))
        return joined


class FeedForward(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.conv_1, self.conv_2 = conv(hidden, 2 * hidden, 3), conv(2 * hidden, hidden, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.conv_2(self.conv_1(x * mask).relu() * mask)
        return out * mask


class Encoder(nn.Module):
    def __init__(self, hidden: int, layers: int = 2) -> None:
        super().__init__()
        self.attn_layers = nn.ModuleList(Attention(hidden) for _ in range(layers))
        self.ffn_layers = nn.ModuleList(FeedForward(hidden) for _ in range(layers))
        self.norm_layers_1 = nn.ModuleList(Norm(hidden) for _ in range(layers))
        self.norm_layers_2 = nn.ModuleList(Norm(hidden) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x * mask
        for attention, norm_1, feed, norm_2 in zip(
            self.attn_layers, self.norm_layers_1, self.ffn_layers, self.norm_layers_2, strict=True
        ):
            x = norm_1(x + attention(x, mask))
            x = norm_2(x + feed(x, mask))
        return x * mask


class TextEncoder(nn.Module):
    def __init__(self, kind: Kind, symbols: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(symbols, kind.hidden)
        self.encoder = Encoder(kind.hidden)
        self.proj = conv(kind.hidden, 2 * kind.inter, 1)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.emb(ids).transpose(1, 2) * self.emb.embedding_dim**0.5
        x = self.encoder(x, mask)
        mean, log_deviation = (self.proj(x) * mask).chunk(2, 1)
        return x, mean, log_deviation


class Stack(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.convs_sep = nn.ModuleList(
            conv(hidden, hidden, 3, 3**i, groups=hidden) for i in range(3)
        )
        self.convs_1x1 = nn.ModuleList(conv(hidden, hidden, 1) for _ in range(3))
        self.norms_1 = nn.ModuleList(Norm(hidden) for _ in range(3))
        self.norms_2 = nn.ModuleList(Norm(hidden) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for deep, norm_1, flat, norm_2 in zip(
            self.convs_sep, self.norms_1, self.convs_1x1, self.norms_2, strict=True
        ):
            x = x + F.gelu(norm_2(flat(F.gelu(norm_1(deep(x * mask))))))
        return x * mask


class Affine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m, self.logs = nn.Parameter(torch.randn(2, 1)), nn.Parameter(0.3 * torch.randn(2, 1))

    def forward(self, z: Tensor, mask: Tensor, condition: Tensor) -> Tensor:
        del condition
        return (z - self.m) * torch.exp(-self.logs) * mask


class Coupling(nn.Module):
    bins = 10

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.pre, self.convs = conv(1, hidden, 1), Stack(hidden)
        self.proj = conv(hidden, 3 * self.bins - 1, 1)

    def forward(self, z: Tensor, mask: Tensor, condition: Tensor) -> Tensor:
        first, second = z.chunk(2, 1)
        bend = self.proj(self.convs(self.pre(first) + condition, mask)) * mask
        bent = self.invert(second[:, 0], bend.transpose(1, 2), condition.shape[1])
        return torch.cat([first, bent[:, None]], 1) * mask

    def invert(self, y: Tensor, bend: Tensor, channels: int) -> Tensor:
        widths, heights = (
            1e-3 + (1 - 1e-3 * self.bins) * part.div(channels**0.5).softmax(-1)
            for part in (bend[..., : self.bins], bend[..., self.bins : 2 * self.bins])
        )
        lefts, bottoms = (
            F.pad(10 * part.cumsum(-1) - 5, (1, 0), value=-5.0) for part in (widths, heights)
        )
        slopes = F.pad(1e-3 + F.softplus(bend[..., 2 * self.bins :]), (1, 1), value=1.0)
        inside = y.clamp(-5, 5)[..., None]
        chosen = ((inside >= bottoms).sum(-1, keepdim=True) - 1).clamp(0, self.bins - 1)
        left, bottom, slope = (part.gather(-1, chosen) for part in (lefts, bottoms, slopes))
        right, top, after = (part.gather(-1, chosen + 1) for part in (lefts, bottoms, slopes))
        steep = (top - bottom) / (right - left)
        rise = inside - bottom
        bulge = rise * (slope + after - 2 * steep)
        a = (top - bottom) * (steep - slope) + bulge
        b = (top - bottom) * slope - bulge
        root = -2 * steep * rise / (-b - (b * b + 4 * a * steep * rise).clamp_min(0).sqrt())
        return torch.where(y.abs() <= 5, (root * (right - left) + left)[..., 0], y)


class Durations(nn.Module):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.pre, self.convs = conv(kind.hidden, kind.hidden, 1), Stack(kind.hidden)
        self.proj = conv(kind.hidden, kind.hidden, 1)
        flows: list[nn.Module] = [Affine()]
        for _ in range(4):
            flows += [Coupling(kind.hidden), nn.Identity()]
        self.flows = nn.ModuleList(flows)
        if kind.speakers > 1:
            self.cond = conv(kind.gin, kind.hidden, 1)

    def forward(self, x: Tensor, mask: Tensor, g: Tensor | None, noise_w: Tensor) -> Tensor:
        x = self.pre(x)
        if g is not None:
            x = x + self.cond(g)
        x = self.proj(self.convs(x, mask)) * mask
        z = torch.randn_like(x[:, :2]) * noise_w
        for number in (7, 5, 3, 0):
            z = self.flows[number](z.flip(1), mask, x)
        return z[:, :1]


class WaveNet(nn.Module):
    def __init__(self, hidden: int, gin: int, layers: int = 2) -> None:
        super().__init__()
        self.in_layers = nn.ModuleList(normed(conv(hidden, 2 * hidden, 5)) for _ in range(layers))
        sizes = [2 * hidden] * (layers - 1) + [hidden]
        self.res_skip_layers = nn.ModuleList(normed(conv(hidden, size, 1)) for size in sizes)
        self.hidden = hidden
        if gin:
            self.cond_layer = normed(conv(gin, 2 * hidden * layers, 1))

    def forward(self, x: Tensor, mask: Tensor, g: Tensor | None) -> Tensor:
        out = torch.zeros_like(x)
        conds = None if g is None else self.cond_layer(g)
        for number, (inner, residual) in enumerate(
            zip(self.in_layers, self.res_skip_layers, strict=True)
        ):
            both = inner(x)
            if conds is not None:
                both = both + conds[:, number * 2 * self.hidden : (number + 1) * 2 * self.hidden]
            y = residual(both[:, : self.hidden].tanh() * both[:, self.hidden :].sigmoid())
            if number < len(self.in_layers) - 1:
                x = (x + y[:, : self.hidden]) * mask
                y = y[:, self.hidden :]
            out = out + y
        return out * mask


class FlowBlock(nn.Module):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        half = kind.inter // 2
        self.pre, self.post = conv(half, kind.hidden, 1), conv(kind.hidden, half, 1)
        self.enc = WaveNet(kind.hidden, kind.gin if kind.speakers > 1 else 0)

    def forward(self, z: Tensor, mask: Tensor, g: Tensor | None) -> Tensor:
        first, second = z.flip(1).chunk(2, 1)
        shift = self.post(self.enc(self.pre(first) * mask, mask, g)) * mask
        return torch.cat([first, (second - shift) * mask], 1)


class Flow(nn.Module):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        flows: list[nn.Module] = []
        for _ in range(4):
            flows += [FlowBlock(kind), nn.Identity()]
        self.flows = nn.ModuleList(flows)

    def forward(self, z: Tensor, mask: Tensor, g: Tensor | None) -> Tensor:
        for number in (6, 4, 2, 0):
            z = self.flows[number](z, mask, g)
        return z


class Voice(nn.Module):
    """The whole network with the signature of Piper's export."""

    def __init__(self, kind: Kind, symbols: int) -> None:
        super().__init__()
        self.enc_p, self.dp, self.flow = TextEncoder(kind, symbols), Durations(kind), Flow(kind)
        self.dec = Decoder(kind)
        if kind.speakers > 1:
            self.emb_g = nn.Embedding(kind.speakers, kind.gin)

    def forward(
        self, ids: Tensor, lengths: Tensor, scales: Tensor, sid: Tensor | None = None
    ) -> Tensor:
        noise_scale, length_scale, noise_w = scales[0], scales[1], scales[2]
        mask = (torch.arange(ids.shape[1])[None] < lengths[:, None])[:, None].float()
        g = None if sid is None else self.emb_g(sid)[..., None]
        x, mean, log_deviation = self.enc_p(ids, mask)
        frames = (self.dp(x, mask, g, noise_w).exp() * mask * length_scale).ceil()[:, 0]
        ends = frames.cumsum(1)
        sums = ends[:, -1].clamp_min(1).long()
        place = torch.arange(sums.max())
        path = (place[None, :, None] < ends[:, None]) & (
            place[None, :, None] >= (ends - frames)[:, None]
        )
        spread = path.float().transpose(1, 2)
        mean, log_deviation = mean @ spread, log_deviation @ spread
        z = mean + torch.randn_like(mean) * log_deviation.exp() * noise_scale
        frame_mask = (place[None] < sums[:, None])[:, None].float()
        sound: Tensor = self.dec(self.flow(z * frame_mask, frame_mask, g) * frame_mask, g)
        return sound
