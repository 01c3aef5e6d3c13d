"""Groups, runs and packed streams: every row where it belongs, whatever the lengths."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.models.hibari.layout import (
    FRAME_GAP,
    FRAME_STEP,
    GROUP_WASTE,
    PROSODY_GAP,
    PROSODY_STEP,
    TAPS,
    TEXT_STEP,
    make_layout,
    make_text_layout,
    runs,
    text_groups,
)

lengths = st.lists(st.integers(3, 400), min_size=1, max_size=40)


@settings(deadline=None)
@given(lengths)
def test_groups_hold_every_sequence_once_and_waste_little(counts: list[int]) -> None:
    groups = text_groups(counts)
    assert sorted(i for group in groups for i in group) == list(range(len(counts)))
    for group in groups:
        longest = max(counts[i] for i in group)
        assert counts[group[0]] == longest
        assert sum(longest - counts[i] for i in group) <= GROUP_WASTE


@settings(deadline=None)
@given(st.lists(st.binary(min_size=3, max_size=40), min_size=1, max_size=12))
def test_ids_find_their_place_in_the_attention_and_back(sequences: list[bytes]) -> None:
    layout = make_text_layout(sequences)
    assert len(layout.ids) % TEXT_STEP == 0
    assert len(layout.padded) == sum(b * length for b, length in (g.shape for g in layout.groups))
    owner = np.full(len(layout.ids), -1)
    for number, (sequence, start) in enumerate(zip(sequences, layout.starts, strict=True)):
        own = np.arange(start, start + len(sequence))
        assert bytes(layout.ids[own].astype(np.uint8)) == sequence
        assert list(layout.padded[layout.places[own]]) == list(own)
        owner[own] = number
    assert set(np.flatnonzero(owner < 0)) == set(layout.gaps)
    groups = np.split(
        layout.padded, np.cumsum([b * n for b, n in (g.shape for g in layout.groups)])
    )
    for group, places in zip(layout.groups, groups, strict=False):
        for row, rows in enumerate(owner[places].reshape(group.shape)):
            seen = rows if group.mask is None else rows[group.mask[row]]
            assert len(set(seen)) == 1
            assert len(seen) == len(sequences[seen[0]])


@settings(deadline=None)
@given(lengths, st.integers(0, 9), st.integers(100, 1000))
def test_runs_keep_the_order_and_the_limit(counts: list[int], gap: int, limit: int) -> None:
    found = runs(counts, gap, limit)
    assert [i for run in found for i in run] == list(range(len(counts)))
    assert all(len(run) == 1 or sum(counts[i] + gap for i in run) <= limit for run in found)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 5), min_size=3, max_size=12), min_size=1, max_size=6))
def test_a_stream_shows_each_id_for_its_duration(durations: list[list[int]]) -> None:
    sizes = np.cumsum([1, *map(len, durations)])
    rows = [np.arange(a, b) for a, b in pairwise(sizes)]
    layout = make_layout(rows, [np.array(d) for d in durations], zero_row=0)
    frame_rows = layout.frame_taps[:, TAPS // 2] // TAPS
    for own, ticks, start, count in zip(rows, durations, layout.starts, layout.counts, strict=True):
        assert count == 2 * sum(ticks)
        assert list(frame_rows[start : start + count]) == list(np.repeat(own, 2 * np.array(ticks)))
        assert not frame_rows[start + count : start + count + FRAME_GAP].any()
        halves = layout.frame_prosody[start : start + count]
        spoken = layout.prosody_rows[halves // 2]
        assert list(spoken) == list(frame_rows[start : start + count])
        assert list(halves % 2) == [0, 1] * sum(ticks)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=12), min_size=1, max_size=6))
def test_gaps_are_zero_rows_and_wide_enough(durations: list[list[int]]) -> None:
    rows = [np.arange(1, 1 + len(d)) for d in durations]
    layout = make_layout(rows, [np.array(d) for d in durations], zero_row=0)
    assert len(layout.prosody_rows) % PROSODY_STEP == 0
    assert set(np.flatnonzero(layout.prosody_rows == 0)) == set(layout.prosody_gaps)
    frame_rows = layout.frame_taps[:, TAPS // 2] // TAPS
    assert set(np.flatnonzero(frame_rows == 0)) == set(layout.frame_gaps)
    assert len(frame_rows) % FRAME_STEP == 0
    assert 0 <= len(layout.frame_gaps) - FRAME_GAP * len(durations) < FRAME_STEP
    assert len(layout.prosody_gaps) >= PROSODY_GAP * len(durations)
