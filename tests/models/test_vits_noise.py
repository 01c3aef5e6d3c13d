"""Noise depends on seed, stream and place, and on nothing else."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.models.vits.noise import make_keys, normal

CPU = torch.device("cpu")
SEED = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 1000))


def noise(seed: tuple[int, int], stream: int, count: int, channels: int = 4) -> torch.Tensor:
    key = make_keys([seed], stream, CPU)
    return normal(key.expand(count), torch.arange(count), channels)


@settings(deadline=None)
@given(first=SEED, second=SEED, count=st.integers(1, 9))
def test_neighbours_and_order_change_nothing(
    first: tuple[int, int], second: tuple[int, int], count: int
) -> None:
    keys = make_keys([second, first], 0, CPU).repeat_interleave(count)
    both = normal(keys, torch.arange(count).repeat(2), 4)
    torch.testing.assert_close(both[count:], noise(first, 0, count), rtol=0, atol=1e-6)
    torch.testing.assert_close(both[:count], noise(second, 0, count), rtol=0, atol=1e-6)


def test_seeds_parts_and_streams_are_independent() -> None:
    streams = [
        noise(seed, stream, 2000).flatten()
        for seed in ((0, 0), (1, 0), (0, 1), (2**63 - 1, 0))
        for stream in (0, 1)
    ]
    correlation = torch.corrcoef(torch.stack(streams)) - torch.eye(len(streams))
    assert float(correlation.abs().max()) < 5 / math.sqrt(8000)


def test_it_is_standard_normal() -> None:
    x = noise((7, 0), 0, 50_000, 8).flatten().double()
    assert bool(x.isfinite().all())
    assert abs(float(x.mean())) < 0.01
    assert abs(float(x.var()) - 1) < 0.01
    assert abs(float((x**4).mean()) - 3) < 0.05
    assert abs(float((x.abs() > 1.96).double().mean()) - 0.05) < 0.002
    along = torch.corrcoef(torch.stack([x[:-1], x[1:]]))[0, 1]
    assert abs(float(along)) < 0.01
