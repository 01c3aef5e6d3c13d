"""Ids -> mean and log deviation of the prior, one vector per id: a transformer in a row."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from batchtts.models.transfer import upload
from batchtts.models.vits.rows import Rows
from batchtts.models.vits.weights import Linear, RowConv, Weights


class Norm(NamedTuple):
    """A layer norm over channels."""

    gamma: torch.Tensor
    """[channels]"""
    beta: torch.Tensor
    """[channels]"""
    eps: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[count, channels] -> the same."""
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)


def load_norm(weights: Weights, layer: str) -> Norm:
    """The layer norm of this name."""
    return Norm(
        weights.tensor(f"{layer}.gamma"), weights.tensor(f"{layer}.beta"), weights.geometry.eps
    )


class Layer(NamedTuple):
    """One layer of the transformer."""

    qkv: Linear
    """Query (already divided by the root of the head's width), key and value in one product."""
    relative_key: torch.Tensor
    """[2 * window + 1, head width]; shared by the heads."""
    relative_value: torch.Tensor
    """[2 * window + 1, head width]"""
    out: Linear
    norm_1: Norm
    conv_1: RowConv
    conv_2: RowConv
    norm_2: Norm


class Group(NamedTuple):
    """Items whose attention is computed at once, padded to one length."""

    vector: torch.Tensor
    """The vector of the row at each place, int64 [items, longest]; padding repeats the last."""
    is_inside: torch.Tensor
    """[items, longest], False where an item is padded."""
    place: torch.Tensor
    """The places that are no padding, counted through the items, int64 [sum of lengths]."""


def make_groups(rows: Rows, area: int) -> list[Group]:
    """Group the items of a batch; see `group_by_area`."""
    groups = []
    for group in group_by_area(rows.lengths, area):
        starts, lengths = rows.starts[group, None], rows.lengths[group, None]
        place = np.arange(lengths.max())
        is_inside = place < lengths
        device = rows.inside.device
        groups.append(
            Group(
                vector=upload(starts + np.minimum(place, lengths - 1), device),
                is_inside=upload(is_inside, device),
                place=upload(np.flatnonzero(is_inside), device),
            )
        )
    return groups


def group_by_area(lengths: NDArray[np.int64], area: int) -> list[slice]:
    """Cut the items into runs whose padded attention, items x longest^2, stays within `area`."""
    groups: list[slice] = []
    first, longest = 0, 0
    for number, length in enumerate(lengths):
        longest = max(longest, int(length))
        if number > first and (number + 1 - first) * longest**2 > area:
            groups.append(slice(first, number))
            first, longest = number, int(length)
    return [*groups, slice(first, len(lengths))]


class TextEncoder:
    """The encoder of the text; `gap` zero rows between items keep them apart."""

    def __init__(self, weights: Weights) -> None:
        self.embedding = weights.tensor("enc_p.emb.weight")
        """[num_symbols, hidden]"""
        self.hidden = self.embedding.shape[1]
        self.layers = [
            _load_layer(weights, number)
            for number in weights.numbers("enc_p.encoder.attn_layers.{}.conv_q.weight")
        ]
        self.project = weights.linear("enc_p.proj")
        self.gap = max(layer.conv_1.kernel // 2 for layer in self.layers)

    def __call__(
        self, ids: torch.Tensor, rows: Rows, groups: list[Group]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode ids [sum of lengths] laid out as `rows`; both answers are [count, ...].

        Returns:
            hidden [count, hidden] for the durations, and stats [count, 2 * channels] of the prior.
        """
        x = rows.spread(self.embedding[ids] * self.hidden**0.5)
        for layer in self.layers:
            attended = _attend(layer, layer.qkv(x), rows, groups)
            x = rows.clear(layer.norm_1(x + layer.out(attended)))
            y = rows.clear(layer.conv_1(x).relu_())
            x = layer.norm_2(x + layer.conv_2(y))
        return x, self.project(x)


def _load_layer(weights: Weights, number: int) -> Layer:
    attention = f"enc_p.encoder.attn_layers.{number}"
    feed_forward = f"enc_p.encoder.ffn_layers.{number}"
    query, key, value = (weights.linear(f"{attention}.conv_{name}") for name in "qkv")
    relative_key = weights.tensor(f"{attention}.emb_rel_k")[0]
    scale = relative_key.shape[1] ** -0.5
    assert query.bias is not None
    assert key.bias is not None
    assert value.bias is not None
    return Layer(
        qkv=Linear(
            torch.cat([query.weight * scale, key.weight, value.weight]),
            torch.cat([query.bias * scale, key.bias, value.bias]),
        ),
        relative_key=relative_key,
        relative_value=weights.tensor(f"{attention}.emb_rel_v")[0],
        out=weights.linear(f"{attention}.conv_o"),
        norm_1=load_norm(weights, f"enc_p.encoder.norm_layers_1.{number}"),
        conv_1=weights.row_conv(f"{feed_forward}.conv_1"),
        conv_2=weights.row_conv(f"{feed_forward}.conv_2"),
        norm_2=load_norm(weights, f"enc_p.encoder.norm_layers_2.{number}"),
    )


def _attend(layer: Layer, qkv: torch.Tensor, rows: Rows, groups: list[Group]) -> torch.Tensor:
    """Attention within each item; qkv [count, 3 * hidden] -> [count, hidden], zeros in the gaps."""
    width = layer.relative_key.shape[1]
    attended = []
    for group in groups:
        heads = qkv[group.vector].view(*group.vector.shape, 3, -1, width).permute(2, 0, 3, 1, 4)
        padded = _attend_padded(layer, heads, group.is_inside)
        attended.append(padded.transpose(1, 2).flatten(2).flatten(0, 1)[group.place])
    return rows.spread(torch.cat(attended))


def _attend_padded(layer: Layer, heads: torch.Tensor, is_inside: torch.Tensor) -> torch.Tensor:
    """Attention with learned vectors for near distances, of items padded to one length.

    Args:
        layer: one layer.
        heads: query, key and value [3, items, heads, longest, head width].
        is_inside: [items, longest], False where an item is padded.

    Returns:
        [items, heads, longest, head width]; padding holds garbage.
    """
    query, key, value = heads
    items, num_heads, longest, _ = query.shape
    distances = len(layer.relative_key)
    window = distances // 2
    # The scores stand in a buffer that is wider by the window on both sides, so that the near
    # distances of all rows are one skewed view of it.
    buffer = query.new_zeros(items, num_heads, longest, longest + 2 * window)
    wide = buffer.stride(2)
    near_strides = (*buffer.stride()[:2], wide + 1, 1)
    near = buffer.as_strided((items, num_heads, longest, distances), near_strides)
    scores = buffer[..., window : window + longest]
    near.copy_(query @ layer.relative_key.T)
    scores += query @ key.transpose(2, 3)
    share = scores.masked_fill(~is_inside[:, None, None, :], -torch.inf).softmax(-1)
    buffer.zero_()
    scores.copy_(share)
    return torch.matmul(share, value) + torch.matmul(near, layer.relative_value)
