"""Hidden vectors -> log of the frames of each id: the stochastic duration predictor, in reverse."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812

from batchtts.models.vits.rows import Rows
from batchtts.models.vits.text import Norm, load_norm
from batchtts.models.vits.weights import Linear, Weights

_MIN_BIN = 1e-3
_MIN_DERIVATIVE = 1e-3


class Depthwise(NamedTuple):
    """A dilated convolution of each channel by itself."""

    taps: torch.Tensor
    """[kernel, channels]"""
    bias: torch.Tensor
    """[channels]"""
    dilation: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[count, channels] -> the same."""
        count, reach = len(x), self.dilation * (len(self.taps) // 2)
        padded = F.pad(x, (0, 0, reach, reach))
        out = self.bias.expand_as(x)
        for number, tap in enumerate(self.taps):
            start = number * self.dilation
            out = torch.addcmul(out, padded[start : start + count], tap)
        return out


class DilatedStack(NamedTuple):
    """Layers of depthwise and pointwise convolutions with residuals."""

    layers: list[tuple[Depthwise, Norm, Linear, Norm]]

    def __call__(self, x: torch.Tensor, rows: Rows) -> torch.Tensor:
        """[count, channels] -> the same."""
        for depthwise, norm_1, pointwise, norm_2 in self.layers:
            y = F.gelu(norm_1(depthwise(rows.clear(x))))
            x = x + F.gelu(norm_2(pointwise(y)))
        return x


class Coupling(NamedTuple):
    """A flow that bends one of two numbers by a spline that depends on the other."""

    pre: Linear
    stack: DilatedStack
    project: Linear


class DurationPredictor:
    """Draws durations; `gap` zero rows between items keep them apart."""

    def __init__(self, weights: Weights) -> None:
        self.pre = weights.linear("dp.pre")
        self.cond = weights.linear("dp.cond") if "dp.cond.weight" in weights else None
        self.stack = _load_stack(weights, "dp.convs")
        self.project = weights.linear("dp.proj")
        # dp.flows: 0 is affine, then come a coupling and a swap by turns; the first coupling is
        # used in training only.
        self.couplings = [
            Coupling(
                weights.linear(f"dp.flows.{number}.pre"),
                _load_stack(weights, f"dp.flows.{number}.convs"),
                weights.linear(f"dp.flows.{number}.proj"),
            )
            for number in reversed(weights.numbers("dp.flows.{}.pre.weight", 3, 2))
        ]
        self.mean = weights.tensor("dp.flows.0.m").flatten()
        self.scale = weights.tensor("dp.flows.0.scale").flatten()
        self.tail = weights.geometry.tail
        self.gap = max(layer[0].dilation for layer in self.stack.layers)

    def __call__(
        self, hidden: torch.Tensor, speaker: torch.Tensor | None, noise: torch.Tensor, rows: Rows
    ) -> torch.Tensor:
        """Log durations [count] in frames; gaps hold garbage.

        Args:
            hidden: [count, hidden] of the text encoder.
            speaker: [count, speaker width], the speaker of each row.
            noise: [count, 2], already scaled.
            rows: how the items are laid out.
        """
        x = self.pre(hidden)
        if self.cond is not None and speaker is not None:
            x = x + self.cond(speaker)
        condition = self.project(self.stack(x, rows))
        first, second = noise.unbind(1)
        for coupling in self.couplings:
            first, second = second, first
            x = coupling.stack(coupling.pre(first[:, None]) + condition, rows)
            bend = coupling.project(x)
            second = inverse_spline(second, bend, condition.shape[1], self.tail)
        return (second - self.mean[0]) * self.scale[0]


def _load_stack(weights: Weights, name: str) -> DilatedStack:
    layers = []
    for number in weights.numbers(f"{name}.convs_sep.{{}}.weight"):
        taps = weights.tensor(f"{name}.convs_sep.{number}.weight")[:, 0].T.contiguous()
        bias = weights.tensor(f"{name}.convs_sep.{number}.bias")
        depthwise = Depthwise(taps, bias, len(taps) ** number)
        norms = (load_norm(weights, f"{name}.norms_{k}.{number}") for k in (1, 2))
        pointwise = weights.linear(f"{name}.convs_1x1.{number}")
        layers.append((depthwise, next(norms), pointwise, next(norms)))
    return DilatedStack(layers)


def inverse_spline(y: torch.Tensor, bend: torch.Tensor, channels: int, tail: float) -> torch.Tensor:
    """Invert a monotonic rational-quadratic spline on [-tail, tail]; beyond it nothing changes.

    Args:
        y: [count].
        bend: raw widths, heights and inner derivatives of the bins, [count, 3 * bins - 1].
        channels: width of the layer that made them: their scale in training.
        tail: half the width of the spline.

    Returns:
        x [count] with spline(x) = y.
    """
    bins = (bend.shape[1] + 1) // 3
    widths, heights, derivatives = bend.tensor_split([bins, 2 * bins], dim=1)
    left, width = _bins(widths / math.sqrt(channels), tail)
    bottom, height = _bins(heights / math.sqrt(channels), tail)
    slopes = F.pad(_MIN_DERIVATIVE + F.softplus(derivatives), (1, 1), value=1.0)

    inside = y.clamp(-tail, tail)[:, None]
    bin_index = (inside >= bottom).sum(1, keepdim=True).clamp_min(1) - 1  # a NaN is in no bin
    left, width, bottom, height = (x.gather(1, bin_index) for x in (left, width, bottom, height))
    slope, next_slope = slopes.gather(1, bin_index), slopes.gather(1, bin_index + 1)

    rise = inside - bottom
    steepness = height / width
    excess = rise * (slope + next_slope - 2 * steepness)
    a = height * (steepness - slope) + excess
    b = height * slope - excess
    c = -steepness * rise
    root = 2 * c / (-b - (b * b - 4 * a * c).clamp_min(0).sqrt())
    x = (root * width + left).squeeze(1)
    return torch.where(y.abs() <= tail, x, y)


def _bins(raw: torch.Tensor, tail: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Lower edges and sizes of the bins, both [count, bins], from raw sizes."""
    bins = raw.shape[1]
    sizes = _MIN_BIN + (1 - _MIN_BIN * bins) * raw.softmax(1)
    edges = F.pad(sizes.cumsum(1), (1, 0)) * (2 * tail) - tail
    edges[:, -1] = tail
    return edges[:, :-1], edges[:, 1:] - edges[:, :-1]
