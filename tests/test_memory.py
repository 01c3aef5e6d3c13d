"""The memory model: what it finds in measured points, and that it is never below them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts.batching import fits
from batchtts.data import BatchLimit, MemoryFit
from batchtts.memory import Point, fit_points, most_items


def point(items: int, size: int, peak: float) -> Point:
    return Point(
        stage="memory",
        items=items,
        longest=size,
        cost=items * size,
        squares=items * size**2,
        seconds=1.0,
        audio_seconds=items * 2.0,
        peak=int(peak),
        reserved=int(peak),
    )


def of(fit: MemoryFit, one: Point) -> float:
    return fit.base + fit.linear * one.cost + fit.quadratic * one.squares


@given(
    st.lists(
        st.builds(point, st.integers(1, 256), st.integers(1, 2000), st.floats(1e6, 1e11)),
        min_size=1,
        max_size=12,
    )
)
def test_no_measured_peak_is_above_the_model_and_no_coefficient_below_zero(
    points: list[Point],
) -> None:
    fit = fit_points(points, budget=1e12)
    assert min(fit.base, fit.linear, fit.quadratic) >= 0
    assert all(of(fit, one) >= one.peak * (1 - 1e-9) for one in points)


def test_three_points_give_three_coefficients() -> None:
    def peak(items: int, size: int) -> float:
        return 5e8 + items * (2e4 * size + 30 * size**2)

    sizes = [(1, 1000), (2, 1000), (1, 500)]
    fit = fit_points([point(n, size, peak(n, size)) for n, size in sizes], budget=1e12)
    assert fit.base == pytest.approx(5e8, rel=1e-6)
    assert fit.linear == pytest.approx(2e4, rel=1e-6)
    assert fit.quadratic == pytest.approx(30, rel=1e-6)


def test_a_batch_that_ran_out_of_memory_is_only_a_lower_bound() -> None:
    good = [point(n, 100, 1e8 + n * 1e7) for n in (1, 2, 4)]
    failed = replace(point(64, 100, 3e8), oom=True)
    with_failure = fit_points([*good, failed], budget=1e9)
    without = fit_points(good, budget=1e9)
    assert with_failure == without
    tight = replace(point(8, 100, 3e8), oom=True)
    assert of(fit_points([*good, tight], budget=1e9), tight) >= 3e8


@given(
    st.integers(1, 500),
    st.builds(
        BatchLimit,
        max_items=st.integers(1, 300),
        max_cost=st.none() | st.integers(1, 50_000),
        memory=st.none()
        | st.builds(
            MemoryFit,
            base=st.integers(0, 1000).map(float),
            linear=st.integers(0, 20).map(float),
            quadratic=st.integers(0, 3).map(float),
            budget=st.integers(0, 10**6).map(float),
        ),
    ),
    st.booleans(),
)
def test_most_items_is_the_last_that_fits(size: int, limit: BatchLimit, ragged: bool) -> None:
    most = most_items(size, limit)
    assert most == 0 or fits([size] * most, limit, ragged)
    assert not fits([size] * (most + 1), limit, ragged)
