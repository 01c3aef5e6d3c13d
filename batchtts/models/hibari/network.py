"""The network of hibari: text encoders, durations, prosody, decoder and spectral head.

All tensors are channels-last. Everything is one packed stream [1, N, C] with gaps of zero rows
between sequences (see layout.py), so that a batch is as cheap as the sum of its sequences; only
for the attention sequences of like length stand side by side. The layer scale gamma is folded into
the linear layer before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as fn

from batchtts.models.hibari.layout import TAPS

BINS = 601
"""Frequencies of a spectral frame."""
PADDED_BINS = 608
"""Rows per spectral part in the head: a multiple of 32 is nearly twice as fast as 601."""
PARTS = (0, 2, 3, 1, 4)
"""The head's spectral parts in the order used here: log magnitudes of the harmonics, the noise and
the free part, then the angles of the harmonics and of the free part."""
PROSODY_DILATIONS = (1, 2, 4, 8, 1, 2)
DECODER_BLOCKS = 8
TEXT = 128
"""Channels of the decoder's text input; pitch and energy follow."""
HALO = TAPS // 2 * (1 + DECODER_BLOCKS)
"""Rows on each side that a decoded row depends on: seven-tap convolutions, dec_in included."""

Parameters = Mapping[str, Tensor]


class Linear:
    """x @ weight.T + bias in the number type of its weights, then GELU where asked for.

    On a CPU, bf16 weights and those with GELU behind them are laid out for oneDNN once, and GELU
    joins the product.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        dtype: torch.dtype = torch.float32,
        *,
        gelu: bool = False,
    ) -> None:
        self.weight = weight.to(dtype)
        self.bias = bias.to(dtype)
        self.gelu = gelu
        worth_it = weight.device.type == "cpu" and (gelu or dtype == torch.bfloat16)
        self.is_packed = worth_it and _can_pack(dtype)
        if self.is_packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        x = x.to(self.bias.dtype)
        if self.is_packed:
            after, algorithm = ("gelu", "none") if self.gelu else ("none", "")
            joined: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self.weight, self.bias, after, [], algorithm
            )
            return joined
        y = fn.linear(x, self.weight, self.bias)
        return fn.gelu(y) if self.gelu else y


def _can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch has the packed product, and this CPU the instructions for it.

    The operators are torch's own private ones, which its compiler uses: without them the plain
    product is slower, and equal.
    """
    needed = ("_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise")
    if not all(hasattr(torch.ops.mkldnn, name) for name in needed):
        return False
    return dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class Depthwise:
    """A convolution per channel over [B, T, C], T a multiple of the dilation.

    As a 2-D convolution on a channels-last view: Conv1d is ten times slower on the CPU, and so is
    a dilation. A dilated row sees every eighth row, say: as an image eight columns wide, that is a
    plain convolution down the columns.
    """

    def __init__(self, p: Parameters, name: str, dilation: int) -> None:
        self.weight = p[f"{name}.weight"].unsqueeze(2 if dilation == 1 else 3)
        self.bias = p[f"{name}.bias"]
        self.padding = tuple(size // 2 for size in self.weight.shape[2:])
        self.dilation = dilation

    def __call__(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]."""
        image = (
            x.unsqueeze(1) if self.dilation == 1 else x.view(len(x), -1, self.dilation, x.shape[-1])
        )
        y = fn.conv2d(
            image.permute(0, 3, 1, 2),
            self.weight,
            self.bias,
            padding=self.padding,
            groups=x.shape[-1],
        )
        return y.permute(0, 2, 3, 1).reshape(x.shape)


class Block:
    """ConvNeXt block: x + gamma * pw2(gelu(pw1(norm(depthwise(x))))), written over x."""

    def __init__(
        self, p: Parameters, name: str, dilation: int = 1, dtype: torch.dtype = torch.float32
    ) -> None:
        self.depthwise = Depthwise(p, f"{name}.dw", dilation)
        self.norm = Norm(p, f"{name}.norm")
        self.expand = _linear(p, f"{name}.pw1", dtype, gelu=True)
        gamma = p[f"{name}.gamma"]
        self.reduce = Linear(
            p[f"{name}.pw2.weight"] * gamma[:, None], p[f"{name}.pw2.bias"] * gamma, dtype
        )

    def __call__(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]."""
        return x.add_(self.reduce(self.expand(self.norm(self.depthwise(x)))))


class Norm:
    """LayerNorm over the channels.

    Its affine part stays with it: without one, torch's CPU kernel takes twice as long.
    """

    def __init__(self, p: Parameters, name: str) -> None:
        self.weight, self.bias = p[f"{name}.weight"], p[f"{name}.bias"]

    def __call__(self, x: Tensor) -> Tensor:
        """[..., C] -> [..., C]."""
        return fn.layer_norm(x, self.weight.shape, self.weight, self.bias)


def _linear(
    p: Parameters, name: str, dtype: torch.dtype = torch.float32, *, gelu: bool = False
) -> Linear:
    return Linear(p[f"{name}.weight"], p[f"{name}.bias"], dtype, gelu=gelu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A stream of ids on the device; see `layout.TextLayout`."""

    ids: Tensor
    gaps: Tensor
    shapes: Sequence[tuple[int, int]]
    masks: Sequence[Tensor | None]
    """[B, 1, 1, L] of each group, True on its keys; None where nothing is padded."""
    padded: Tensor
    places: Tensor


class TextEncoder:
    """A stream of ids -> rows: two blocks, then one transformer layer used `loops` times."""

    HEADS = 2

    def __init__(
        self, p: Parameters, name: str, loops: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self.embedding = p[f"{name}.emb.weight"]
        self.blocks = [Block(p, f"{name}.convs.{i}", dtype=dtype) for i in range(2)]
        self.loops = loops
        attention = f"{name}.attn.self_attn"
        self.norm1 = Norm(p, f"{name}.attn.norm1")
        self.qkv = Linear(p[f"{attention}.in_proj_weight"], p[f"{attention}.in_proj_bias"], dtype)
        self.out = _linear(p, f"{attention}.out_proj", dtype)
        self.norm2 = Norm(p, f"{name}.attn.norm2")
        self.expand = _linear(p, f"{name}.attn.linear1", dtype, gelu=True)
        self.reduce = _linear(p, f"{name}.attn.linear2", dtype)
        self.norm = Norm(p, f"{name}.norm")

    def __call__(self, text: Text) -> Tensor:
        """Encode: [N, C], zero in the gaps."""
        x = fn.embedding(text.ids, self.embedding).unsqueeze(0).index_fill_(1, text.gaps, 0)
        for block in self.blocks:
            x = block(x).index_fill_(1, text.gaps, 0)
        x = x[0]
        for _ in range(self.loops):
            x += self.out(self._attend(self.norm1(x), text))
            x += self.reduce(self.expand(self.norm2(x)))
        return self.norm(x).index_fill_(0, text.gaps, 0)

    def _attend(self, x: Tensor, text: Text) -> Tensor:
        width = x.shape[-1] // self.HEADS
        side_by_side = self.qkv(x).index_select(0, text.padded)
        attended = []
        sizes = [batch * length for batch, length in text.shapes]
        for group, shape, mask in zip(
            torch.split(side_by_side, sizes), text.shapes, text.masks, strict=True
        ):
            q, k, v = group.view(*shape, 3, self.HEADS, width).permute(2, 0, 3, 1, 4)
            y = fn.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            attended.append(y.transpose(1, 2).reshape(-1, x.shape[-1]))
        return torch.cat(attended).index_select(0, text.places)


class Network:
    """All modules of a voice; durations and pitch are fp32 whatever the number type."""

    def __init__(self, p: Parameters, dtype: torch.dtype) -> None:
        self.text = TextEncoder(p, "m.text", loops=4, dtype=dtype)
        self.prosody_text = TextEncoder(p, "pn.text", loops=6)
        self._duration = Linear(p["pn.dur.0.weight"].flatten(1), p["pn.dur.0.bias"], gelu=True)
        self._log_duration = Linear(p["pn.dur.2.weight"].squeeze(-1), p["pn.dur.2.bias"])
        self._to_prosody = Linear(p["pn.pro_in.weight"].squeeze(-1), p["pn.pro_in.bias"])
        self._prosody = [
            Block(p, f"pn.pro.{i}", dilation) for i, dilation in enumerate(PROSODY_DILATIONS)
        ]
        self._prosody_out = Linear(p["pn.pro_out.weight"].squeeze(-1), p["pn.pro_out.bias"])
        taps = p["m.dec_in.weight"]
        self._taps = taps[:, :TEXT].permute(2, 0, 1).flatten(0, 1)
        self._decoder_in = Linear(taps[:, TEXT:].flatten(1), p["m.dec_in.bias"])
        self._decoder = [Block(p, f"m.dec.{i}", dtype=dtype) for i in range(DECODER_BLOCKS)]
        self._decoder_norm = Norm(p, "m.dec_norm")
        self._head = Linear(*_padded_head(p), dtype=dtype)

    def durations(self, rows: Tensor, speed: Tensor) -> Tensor:
        """Frames of 25 ms per id, at least one.

        Args:
            rows: [N, 192] of the prosody's text encoder, zero in the gaps.
            speed: [N], 2.0 is twice as fast.

        Returns:
            [N] int64; what stands in the gaps is meaningless.
        """
        around = fn.pad(rows, (0, 0, 1, 1)).unfold(0, 3, 1).flatten(1)
        log = self._log_duration(self._duration(around)).squeeze(-1)
        return torch.clamp(torch.round((torch.exp(log) - 1) / speed), min=1).long()

    def to_prosody(self, rows: Tensor) -> Tensor:
        """Rows [n, 192] of the prosody's text encoder, one per id -> input of `prosody`."""
        return self._to_prosody(rows)

    def prosody(self, rows: Tensor, gaps: Tensor) -> Tensor:
        """Pitch and energy.

        Args:
            rows: [1, N, 192] at 40 Hz, zero in the gaps.
            gaps: rows to keep at zero.

        Returns:
            [N, 2, 2]: (pitch / 100 Hz, energy) x two frames of 12.5 ms.
        """
        x = rows
        for block in self._prosody:
            x = block(x).index_fill_(1, gaps, 0)
        return self._prosody_out(x)[0].view(-1, 2, 2)

    def to_decoder(self, rows: Tensor) -> Tensor:
        """Rows [n, 128] of the text encoder, one per id -> [n * 7, 256], what each adds to frames.

        The first convolution of the decoder is linear and its text input is constant over an id,
        so that its products are needed once per id and tap, not once per frame.
        """
        return fn.linear(rows, self._taps).view(len(rows) * TAPS, -1)

    def decode(self, products: Tensor, taps: Tensor, loudness: Tensor, gaps: Tensor) -> Tensor:
        """Decode a stream of frames.

        Args:
            products: what `to_decoder` made.
            taps: [N, 7] the products that each frame sums up.
            loudness: [N, 2] log pitch and energy, zero in the gaps.
            gaps: frames to keep at zero.

        Returns:
            [N, 256]
        """
        edge = TAPS // 2
        seen = fn.pad(loudness, (0, 0, edge, edge)).unfold(0, TAPS, 1).flatten(1)
        x = fn.embedding_bag(taps, products, mode="sum").add_(self._decoder_in(seen))
        x = x.index_fill_(0, gaps, 0).unsqueeze(0)
        for block in self._decoder:
            x = block(x).index_fill_(1, gaps, 0)
        return x[0]

    def spectrum(self, rows: Tensor) -> Tensor:
        """Decoded rows [N, 256] -> spectral parts [N, 5, 601] in fp32, in the order of PARTS."""
        parts = self._head(self._decoder_norm(rows)).float()
        return parts.view(-1, len(PARTS), PADDED_BINS)[..., :BINS]


def _padded_head(p: Parameters) -> tuple[Tensor, Tensor]:
    """Weight [5 * 608, 256] and bias of the head."""
    missing, order = PADDED_BINS - BINS, list(PARTS)
    weight = fn.pad(p["m.head.weight"].view(len(PARTS), BINS, -1)[order], (0, 0, 0, missing))
    bias = fn.pad(p["m.head.bias"].view(len(PARTS), BINS)[order], (0, missing))
    return weight.flatten(0, 1), bias.flatten()
