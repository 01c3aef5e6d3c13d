"""Normal noise as a function of (seed, stream, position): no state, no order, no neighbours.

A generator per item would have to be run one after the other on the CPU and its numbers copied to
the device; a counter that is hashed makes the noise of a whole batch at once where it is needed,
and the same on every device.
"""

from collections.abc import Sequence

import torch

_WORD = 1 << 64
_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_TWO_PI = 6.283185307179586


def _signed(value: int) -> int:
    """The int64 with the same bits as this unsigned 64-bit number."""
    value %= _WORD
    return value - _WORD if value >= _WORD // 2 else value


def _shifted(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift int64 to the right and fill with zeros; torch's own shift repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """The finaliser of splitmix64: every bit of the answer depends on every bit of x."""
    x = (x ^ _shifted(x, 30)) * _signed(_MULTIPLIERS[0])
    x = (x ^ _shifted(x, 27)) * _signed(_MULTIPLIERS[1])
    return x ^ _shifted(x, 31)


def make_keys(seeds: Sequence[tuple[int, int]], stream: int, device: torch.device) -> torch.Tensor:
    """One key per item, int64 [num_items], from its (seed, number within its utterance)."""
    seed, part = torch.tensor(seeds, dtype=torch.int64, device=device).unbind(1)
    return _mixed(_mixed(seed + _signed(_STEP)) + part * 16 + stream)


def normal(keys: torch.Tensor, position: torch.Tensor, channels: int) -> torch.Tensor:
    """Standard normal float32 [num_vectors, channels], channels even.

    `keys` [num_vectors] is the key of each vector's item, `position` [num_vectors] its place in it.
    """
    pairs = channels // 2
    pair = torch.arange(pairs, device=keys.device)
    counter = (position * pairs)[:, None] + pair + 1
    bits = _mixed(keys[:, None] + counter * _signed(_STEP))
    # 24 bits fill the mantissa of a float32; the half keeps the logarithm away from zero.
    radius = ((_shifted(bits, 40).float() + 0.5) * 2.0**-24).log_().mul_(-2.0).sqrt_()
    angle = (bits & 0xFFFFFF).float() * (_TWO_PI * 2.0**-24)
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
