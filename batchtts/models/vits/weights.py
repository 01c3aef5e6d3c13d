"""Weights of a VITS by the names of its training code, and what their shapes say."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from batchtts.errors import VoiceError

_MAX_WINDOWS = 16_384

Tensors = Mapping[str, NDArray[np.float32]]
"""Weights by name: enc_p.*, dp.*, flow.*, dec.*, emb_g.weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """What the shapes of the weights do not say."""

    strides: tuple[int, ...]
    """Upsampling factor of each decoder stage."""
    dilations: tuple[tuple[int, ...], ...]
    """Dilations of each residual block of a stage, one per convolution (pair)."""
    slope: float = 0.1
    """Leaky ReLU of the decoder; the last one is always 0.01."""
    tail: float = 5.0
    """Where the spline of the duration predictor goes over into a straight line."""
    eps: float = 1e-5
    """Of the layer norms."""

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


class Linear(NamedTuple):
    """A layer applied to every vector of a row."""

    weight: torch.Tensor
    """[out, in]"""
    bias: torch.Tensor | None
    """[out]"""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[count, in] -> [count, out]."""
        return F.linear(x, self.weight, self.bias)


class RowConv(NamedTuple):
    """A convolution along a row, as one matrix product over overlapping windows.

    Measured on CPUs: one 2-D product runs at the speed of sgemm and needs no kernel per length,
    where a convolution is compiled anew for each new length.
    """

    weight: torch.Tensor
    """[out, kernel * in]"""
    bias: torch.Tensor | None
    """[out]"""
    kernel: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[count, in] -> [count, out]; zeros are seen beyond the ends."""
        count, channels = x.shape
        padded = F.pad(x, (0, 0, (self.kernel - 1) // 2, self.kernel // 2))
        windows = padded.as_strided((count, self.kernel * channels), (channels, 1))
        # The product copies the windows, so a long row goes through in pieces.
        pieces = windows.tensor_split(-(-count // _MAX_WINDOWS))
        return torch.cat([F.linear(piece, self.weight, self.bias) for piece in pieces])


@dataclass(frozen=True)
class Weights:
    """Hands the weights out in the form that each kind of layer wants, on the device."""

    tensors: Tensors
    geometry: Geometry
    device: torch.device
    decoder_dtype: torch.dtype = torch.float32
    """Of the decoder's convolutions, nine tenths of the work; all else is float32."""
    shared: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors already on the device."""

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def tensor(self, name: str) -> torch.Tensor:
        """A weight as it is, float32.

        Raises:
            VoiceError: the voice does not have it.
        """
        if name not in self:
            message = f"not the weights of a VITS that batchtts knows: {name} is missing"
            raise VoiceError(message)
        if name not in self.shared:
            whole = np.require(self.tensors[name], requirements=["C", "W"])
            self.shared[name] = torch.from_numpy(whole).to(self.device)
        return self.shared[name]

    def bias(self, layer: str) -> torch.Tensor | None:
        """The bias of a layer, None where it has none."""
        name = f"{layer}.bias"
        return self.tensor(name) if name in self else None

    def linear(self, layer: str) -> Linear:
        """A convolution of kernel 1, weight [out, in, 1]."""
        return Linear(self.tensor(f"{layer}.weight").squeeze(-1), self.bias(layer))

    def row_conv(self, layer: str) -> RowConv:
        """A convolution without dilation, weight [out, in, kernel]."""
        weight = self.tensor(f"{layer}.weight")
        flat = weight.permute(0, 2, 1).reshape(len(weight), -1).contiguous()
        return RowConv(flat, self.bias(layer), weight.shape[2])

    def numbers(self, pattern: str, start: int = 0, step: int = 1) -> list[int]:
        """The numbers of the layers there are: "flow.flows.{}.pre.weight" gives 0, 2, 4, 6, say."""
        number = start
        while pattern.format(number) in self:
            number += step
        return list(range(start, number, step))


def check_tables(tensors: Tensors, num_symbols: int, num_speakers: int) -> None:
    """An id beyond its table would poison a GPU: refuse the voice instead.

    Raises:
        VoiceError: the voice's small files name more than its weights know.
    """
    wanted = {"symbols": ("enc_p.emb.weight", num_symbols)}
    if num_speakers > 1:
        wanted["speakers"] = ("emb_g.weight", num_speakers)
    for what, (name, number) in wanted.items():
        known = len(tensors.get(name, ()))
        if known < number:
            message = f"the voice names {number} {what}, its weights know {known}"
            raise VoiceError(message)
