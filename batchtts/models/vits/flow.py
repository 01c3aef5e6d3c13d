"""Prior -> latent vectors: residual couplings of WaveNet blocks, in reverse."""

from typing import NamedTuple

import torch

from batchtts.models.vits.rows import Rows
from batchtts.models.vits.weights import Linear, RowConv, Weights


class Block(NamedTuple):
    """One coupling: the first half of the channels shifts the second."""

    pre: Linear
    layers: list[tuple[RowConv, Linear]]
    """Convolution into gate and signal, then residual and skip."""
    cond: Linear | None
    """Speaker -> gate and signal of all layers."""
    post: Linear


class Flow:
    """All couplings; `gap` zero rows between items keep them apart."""

    def __init__(self, weights: Weights) -> None:
        numbers = weights.numbers("flow.flows.{}.pre.weight", 0, 2)
        self.blocks = [_load_block(weights, f"flow.flows.{number}") for number in reversed(numbers)]
        self.gap = max(conv.kernel // 2 for conv, _ in self.blocks[0].layers)

    def __call__(self, z: torch.Tensor, speaker: torch.Tensor | None, rows: Rows) -> torch.Tensor:
        """[count, channels] -> the same; gaps are zero before and after.

        `speaker` is [num_items, speaker width].
        """
        for block in self.blocks:
            first, second = z.flip(1).chunk(2, 1)
            shift = block.post(_wavenet(block, block.pre(first), speaker, rows))
            z = rows.clear(torch.cat([first, second - shift], 1))
        return z


def _wavenet(
    block: Block, x: torch.Tensor, speaker: torch.Tensor | None, rows: Rows
) -> torch.Tensor:
    """[count, hidden] -> the same."""
    hidden = x.shape[1]
    conds: tuple[torch.Tensor | None, ...] = (None,) * len(block.layers)
    if block.cond is not None and speaker is not None:
        conds = block.cond(speaker).chunk(len(block.layers), 1)
    out: torch.Tensor | None = None
    for (conv, residual_skip), cond in zip(block.layers, conds, strict=True):
        both = conv(rows.clear(x))
        if cond is not None:
            both += cond[rows.owner]
        y = residual_skip(both[:, :hidden].tanh() * both[:, hidden:].sigmoid())
        skip = y[:, -hidden:]
        out = skip if out is None else out + skip
        if y.shape[1] > hidden:  # the last layer has no residual
            x = x + y[:, :hidden]
    assert out is not None
    return out


def _load_block(weights: Weights, name: str) -> Block:
    numbers = weights.numbers(f"{name}.enc.in_layers.{{}}.weight")
    has_cond = f"{name}.enc.cond_layer.weight" in weights
    return Block(
        pre=weights.linear(f"{name}.pre"),
        layers=[
            (
                weights.row_conv(f"{name}.enc.in_layers.{number}"),
                weights.linear(f"{name}.enc.res_skip_layers.{number}"),
            )
            for number in numbers
        ],
        cond=weights.linear(f"{name}.enc.cond_layer") if has_cond else None,
        post=weights.linear(f"{name}.post"),
    )
