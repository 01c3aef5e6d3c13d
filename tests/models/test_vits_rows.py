"""Items end to end with zeros between, and nothing lost on the way in or out."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.models.vits.network import cap_frames
from batchtts.models.vits.rows import make_rows
from batchtts.models.vits.text import group_by_area

CPU = torch.device("cpu")
LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@settings(deadline=None, max_examples=40)
@given(lengths=LENGTHS, gap=st.integers(0, 6))
def test_every_item_stands_whole_in_the_row(lengths: list[int], gap: int) -> None:
    rows = make_rows(lengths, gap, CPU)
    vectors = torch.arange(1.0, 1 + sum(lengths))[:, None]
    row = rows.spread(vectors)
    parts = [row[a : a + n] for a, n in zip(rows.starts, rows.lengths, strict=True)]
    assert torch.equal(torch.cat(parts), vectors)
    assert len(row) == rows.count == sum(lengths) + gap * (len(lengths) - 1)
    assert int((row == 0).sum()) == gap * (len(lengths) - 1)


@settings(deadline=None, max_examples=40)
@given(lengths=LENGTHS, gap=st.integers(0, 6))
def test_clear_zeroes_the_gaps_and_only_them(lengths: list[int], gap: int) -> None:
    rows = make_rows(lengths, gap, CPU)
    x = rows.clear(torch.ones(rows.count, 2))
    assert torch.equal(x[rows.inside], torch.ones(sum(lengths), 2))
    assert float(x.sum()) == 2 * sum(lengths)


@settings(deadline=None, max_examples=40)
@given(lengths=LENGTHS, gap=st.integers(0, 6))
def test_each_vector_knows_its_item(lengths: list[int], gap: int) -> None:
    rows = make_rows(lengths, gap, CPU)
    expected = np.repeat(np.arange(len(lengths)), lengths)
    assert np.array_equal(rows.owner[rows.inside].numpy(), expected)


@settings(deadline=None, max_examples=40)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12), area=st.integers(0, 4000))
def test_groups_are_all_items_in_order_and_bounded(lengths: list[int], area: int) -> None:
    groups = group_by_area(np.array(lengths), area)
    assert [i for g in groups for i in range(g.start, g.stop)] == list(range(len(lengths)))
    for group in groups:
        size = group.stop - group.start
        assert size == 1 or size * max(lengths[group]) ** 2 <= area


@settings(deadline=None, max_examples=40)
@given(
    items=st.lists(st.lists(st.integers(1, 2000), min_size=1, max_size=9), min_size=1, max_size=5),
    scale=st.sampled_from([0.25, 1.0, 2.0]),
)
def test_durations_are_bounded_per_id_and_per_sentence(
    items: list[list[int]], scale: float
) -> None:
    lengths = np.array([len(item) for item in items])
    frames = np.array([n for item in items for n in item])
    kept, is_cut = cap_frames(frames, lengths, np.full(len(items), scale))
    start = 0
    for item, cut in zip(items, is_cut, strict=True):
        mine = kept[start : start + len(item)]
        start += len(item)
        slowness = max(1.0, scale)
        assert mine.min() >= 0
        assert mine[0] >= 1
        assert mine.max() <= 500 * slowness
        assert mine.sum() <= (500 + 25 * len(item)) * slowness
        assert cut == (mine.sum() < sum(item))
        if not cut:
            assert mine.tolist() == item
