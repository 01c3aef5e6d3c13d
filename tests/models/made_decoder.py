"""The training side of the decoder, HiFi-GAN, and what kinds of voices there are."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What distinguishes Piper's qualities, at a fraction of their width."""

    hidden: int = 16
    inter: int = 16
    resblock: int = 2
    strides: tuple[int, ...] = (8, 8, 4)
    kernels: tuple[int, ...] = (3, 5, 7)
    dilations: tuple[tuple[int, ...], ...] = ((1, 2), (2, 6), (3, 12))
    channels: int = 32
    speakers: int = 1
    gin: int = 8
    sample_rate: int = 22050


def conv(inside: int, outside: int, kernel: int, dilation: int = 1, **options: Any) -> nn.Conv1d:
    pad = dilation * (kernel - 1) // 2
    return nn.Conv1d(inside, outside, kernel, padding=pad, dilation=dilation, **options)


class ResBlock1(nn.Module):
    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(conv(channels, channels, kernel, d) for d in dilations)
        self.convs2 = nn.ModuleList(conv(channels, channels, kernel) for _ in dilations)

    def forward(self, x: Tensor) -> Tensor:
        for conv_1, conv_2 in zip(self.convs1, self.convs2, strict=True):
            x = x + conv_2(F.leaky_relu(conv_1(F.leaky_relu(x, 0.1)), 0.1))
        return x


class ResBlock2(nn.Module):
    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(conv(channels, channels, kernel, d) for d in dilations)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.convs:
            x = x + layer(F.leaky_relu(x, 0.1))
        return x


class Decoder(nn.Module):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.conv_pre = conv(kind.inter, kind.channels, 7)
        block = ResBlock1 if kind.resblock == 1 else ResBlock2
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        channels = kind.channels
        for stride in kind.strides:
            self.ups.append(
                nn.ConvTranspose1d(channels, channels // 2, 2 * stride, stride, stride // 2)
            )
            channels //= 2
            for kernel, dilations in zip(kind.kernels, kind.dilations, strict=True):
                self.resblocks.append(block(channels, kernel, dilations))
        self.conv_post = conv(channels, 1, 7, bias=False)
        self.width = len(kind.kernels)
        if kind.speakers > 1:
            self.cond = conv(kind.gin, kind.channels, 1)

    def forward(self, z: Tensor, g: Tensor | None) -> Tensor:
        x = self.conv_pre(z)
        if g is not None:
            x = x + self.cond(g)
        for number, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            blocks = [self.resblocks[number * self.width + k](x) for k in range(self.width)]
            x = torch.stack(blocks).mean(0)
        sound: Tensor = self.conv_post(F.leaky_relu(x)).tanh()
        return sound
