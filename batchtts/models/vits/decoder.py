"""Latent vectors -> samples: a HiFi-GAN that walks over the row in tiles of fixed size.

A decoder that is fed a padded batch bends the last samples of short items: biases turn the padding
into something other than zero. Here the gaps between items are zeroed after every convolution, so
each item ends as it does alone. Tiles bound the memory, and their few fixed sizes spare the
compilation of kernels for every new length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from batchtts.models.transfer import upload
from batchtts.models.vits.rows import Rows
from batchtts.models.vits.weights import Weights

_LAST_SLOPE = 0.01
"""Leaky ReLU before the last convolution, as in training."""


class Conv(NamedTuple):
    """A convolution without padding, as a 2-D one over [1, channels, 1, count], channels last.

    Measured on CPUs: about twice as fast as conv1d, which has no channels-last kernels.
    """

    weight: torch.Tensor
    """[out, in, 1, kernel]"""
    bias: torch.Tensor | None
    dilation: int

    @property
    def reach(self) -> int:
        """Vectors that it loses at each end."""
        return self.dilation * (self.weight.shape[3] - 1) // 2

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[count, in] -> [count - 2 * reach, out]."""
        image = x[None, None].permute(0, 3, 1, 2)
        image = F.conv2d(image, self.weight, self.bias, dilation=(1, self.dilation))
        return image.permute(0, 2, 3, 1)[0, 0]


class Block(NamedTuple):
    """A residual block: each unit is a chain of convolutions whose end is added to its start."""

    units: list[list[Conv]]

    @property
    def reach(self) -> int:
        """Vectors that it loses at each end."""
        return sum(conv.reach for unit in self.units for conv in unit)


class Stage(NamedTuple):
    """Upsampling, then residual blocks side by side, whose outputs are summed."""

    up: Conv
    """Kernel 2, `stride` times the channels: what a transposed convolution does, measured faster.

    It loses one vector before it interleaves the channels.
    """
    stride: int
    blocks: list[Block]

    @property
    def channels(self) -> int:
        """Channels after the upsampling."""
        return len(self.up.weight) // self.stride

    @property
    def halo(self) -> int:
        """Vectors that the blocks lose at each end."""
        return max(block.reach for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Tile:
    """A stretch of the row with what the decoder sees around it."""

    latent: torch.Tensor
    """[frames + 2 * front, channels]"""
    outside: NDArray[np.int64]
    """Frames of `latent` that belong to no item, in order."""
    outside_there: torch.Tensor
    """The same on the device."""
    owner: torch.Tensor
    """Item of each frame, int64 [frames + 2 * front]."""
    frames: int

    def clear(self, x: torch.Tensor, first: int, rate: int) -> torch.Tensor:
        """Zero what belongs to no item in x [count, channels], in place.

        `first` is the place of x[0], counted from the tile's first vector at `rate` a frame.
        """
        begin, end = first // rate, -(-(first + len(x)) // rate)
        low, high = np.searchsorted(self.outside, [begin, end])
        if low < high:
            frames = self.outside_there[low:high, None]
            index = frames * rate + torch.arange(-first, rate - first, device=x.device)
            # The first and the last frame may reach beyond x.
            x.index_fill_(0, index.clamp_(0, len(x) - 1).flatten(), 0.0)
        return x


class Decoder:
    """The decoder; `gap` zero frames between items keep them apart."""

    def __init__(self, weights: Weights) -> None:
        geometry = weights.geometry
        self.slope = geometry.slope
        self.dtype = weights.decoder_dtype
        self.pre = _load_conv(weights, "dec.conv_pre", 1)
        has_cond = "dec.cond.weight" in weights
        self.cond = weights.linear("dec.cond") if has_cond else None
        num_blocks = len(weights.numbers("dec.resblocks.{}.convs.0.weight")) or len(
            weights.numbers("dec.resblocks.{}.convs1.0.weight")
        )
        width = num_blocks // len(geometry.strides)
        self.stages = [
            Stage(
                # The blocks are averaged: the 1 / width is put into the next layer's weights.
                up=_load_up(weights, number, stride, 1.0 / width if number else 1.0),
                stride=stride,
                blocks=[
                    _load_block(weights, number * width + k, dilations)
                    for k, dilations in enumerate(geometry.dilations)
                ],
            )
            for number, stride in enumerate(geometry.strides)
        ]
        self.post = _load_conv(weights, "dec.conv_post", 1, 1.0 / width)
        self.rates = list(accumulate(geometry.strides, int.__mul__))
        """Vectors per frame after each stage."""
        self.hop = self.rates[-1]
        """Samples per frame."""
        self.front = self._front()
        self.gap = max(
            self.pre.reach,
            *(
                -(-conv.reach // rate)
                for stage, rate in zip(self.stages, self.rates, strict=True)
                for block in stage.blocks
                for unit in block.units
                for conv in unit
            ),
        )

    def _front(self) -> int:
        """Frames that a tile needs on both sides."""
        need = self.post.reach
        for stage in reversed(self.stages):
            need = -(-(need + stage.halo + stage.stride // 2) // stage.stride)
        return need + self.pre.reach

    def tiles(self, z: torch.Tensor, rows: Rows, tile: int, step: int) -> Iterator[Tile]:
        """Cut z [count, channels] into tiles of `tile` frames, the last a multiple of `step`."""
        whole, rest = divmod(rows.count, tile)
        sizes = [tile] * whole + ([-(-rest // step) * step] if rest else [])
        padding = sum(sizes) - rows.count + self.front
        z = F.pad(z, (0, 0, self.front, padding)).to(self.dtype)
        owner = F.pad(rows.owner, (self.front, padding))
        is_outside = np.ones(len(z), dtype=np.bool_)
        for start, length in zip(rows.starts + self.front, rows.lengths, strict=True):
            is_outside[start : start + length] = False
        first = 0
        for size in sizes:
            part = slice(first, first + size + 2 * self.front)
            outside = np.flatnonzero(is_outside[part])
            yield Tile(z[part], outside, upload(outside, z.device), owner[part], size)
            first += size

    def __call__(self, tile: Tile, speaker: torch.Tensor | None) -> torch.Tensor:
        """Samples of a tile, float32 [frames * hop]; `speaker` is [num_items, speaker width]."""
        first, rate = self.pre.reach, 1
        x = self.pre(tile.latent)
        if self.cond is not None and speaker is not None:
            owner = tile.owner[first : first + len(x)]
            x = x + self.cond(speaker).to(self.dtype)[owner]
        x = tile.clear(x, first, rate)
        for stage in self.stages:
            x = stage.up(F.leaky_relu_(x, self.slope)).reshape(-1, stage.channels)
            first, rate = (first + 1) * stage.stride - stage.stride // 2, rate * stage.stride
            x = tile.clear(x, first, rate)
            x = self._residual(stage, x, tile, first, rate)
            first += stage.halo
        x = self.post(F.leaky_relu_(x, _LAST_SLOPE))
        first += self.post.reach
        start = self.front * rate - first
        return x[start : start + tile.frames * rate, 0].float().tanh()

    def _residual(
        self, stage: Stage, x: torch.Tensor, tile: Tile, first: int, rate: int
    ) -> torch.Tensor:
        """Sum of the stage's blocks, [count - 2 * halo, channels]."""
        shared = F.leaky_relu(x, self.slope)
        total: torch.Tensor | None = None
        for block in stage.blocks:
            margin = stage.halo - block.reach
            y, active, place = _crop(x, margin), _crop(shared, margin), first + margin
            for number, unit in enumerate(block.units):
                if number:
                    active = F.leaky_relu(y, self.slope)
                for position, conv in enumerate(unit):
                    if position:
                        active = F.leaky_relu_(active, self.slope)
                    place += conv.reach
                    active = tile.clear(conv(active), place, rate)
                y = active.add_(_crop(y, sum(conv.reach for conv in unit)))
            total = y if total is None else total.add_(y)
        assert total is not None
        return total


def _crop(x: torch.Tensor, margin: int) -> torch.Tensor:
    """x [count, channels] without `margin` vectors at each end."""
    return x[margin : len(x) - margin]


def _load_conv(weights: Weights, layer: str, dilation: int, scale: float = 1.0) -> Conv:
    weight = (weights.tensor(f"{layer}.weight") * scale)[:, :, None]
    return _conv(weights, weight, weights.bias(layer), dilation)


def _load_block(weights: Weights, number: int, dilations: tuple[int, ...]) -> Block:
    name = f"dec.resblocks.{number}"
    if f"{name}.convs.0.weight" in weights:
        layers = [[(f"{name}.convs.{k}", dilation)] for k, dilation in enumerate(dilations)]
    else:
        layers = [
            [(f"{name}.convs1.{k}", dilation), (f"{name}.convs2.{k}", 1)]
            for k, dilation in enumerate(dilations)
        ]
    return Block([[_load_conv(weights, *layer) for layer in unit] for unit in layers])


def _load_up(weights: Weights, number: int, stride: int, scale: float) -> Conv:
    """The transposed convolution [in, out, 2 * stride] as one of kernel 2.

    Sample p of block t sees the vectors t - 1 and t by the taps p + stride and p.
    """
    weight = weights.tensor(f"dec.ups.{number}.weight") * scale
    now, before = weight[..., :stride], weight[..., stride:]
    taps = torch.stack([before, now]).permute(3, 2, 1, 0)  # [stride, out, in, 2]
    bias = weights.bias(f"dec.ups.{number}")
    bias = None if bias is None else bias.repeat(stride)
    return _conv(weights, taps.flatten(0, 1)[:, :, None], bias, 1)


def _conv(weights: Weights, weight: torch.Tensor, bias: torch.Tensor | None, dilation: int) -> Conv:
    dtype = weights.decoder_dtype
    return Conv(
        weight.to(dtype).contiguous(memory_format=torch.channels_last),
        None if bias is None else bias.to(dtype),
        dilation,
    )
