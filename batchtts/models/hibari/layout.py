"""Where everything lies: which sequences are encoded together, and the packed stream after that.

Pure index arithmetic in numpy: the durations come to the host once, and from then on every length
is known there, so a GPU never waits for it again.

A stream holds sequences end to end, each followed by a gap of zero rows that is at least as wide
as one convolution reaches. At 80 Hz the gap of three rows also holds the reflections that the
short-time Fourier transform wants at both ends (see signal.py).

The lengths of streams are multiples of a step: oneDNN prepares every product anew for a number of
rows that it has not seen lately, which took a quarter of the time while lengths were arbitrary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Indices = NDArray[np.int64]

TEXT_GAP = 2
"""Rows, one per id: five taps."""
TEXT_STEP = 16
PROSODY_GAP = 24
"""Rows at 40 Hz: seven taps, dilation eight."""
PROSODY_STEP = 32
"""Also a multiple of the largest dilation."""
FRAME_GAP = 3
"""Rows at 80 Hz: seven taps."""
FRAME_STEP = 32
TAPS = 7
GROUP_WASTE = 32
"""Padded ids that cost as much as one more call of the attention."""


def runs(lengths: Sequence[int], gap: int, limit: int) -> list[list[int]]:
    """Consecutive sequences for one stream: at most `limit` rows, gaps included, or a single one.

    Args:
        lengths: rows of each sequence.
        gap: rows behind each sequence.
        limit: most rows of a stream.
    """
    result: list[list[int]] = []
    total = 0
    for position, length in enumerate(lengths):
        if not result or total + length + gap > limit:
            result.append([])
            total = 0
        result[-1].append(position)
        total += length + gap
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Sequences of like length that attend in one call, padded to the longest."""

    shape: tuple[int, int]
    """Sequences, and rows of the longest."""
    mask: NDArray[np.bool_] | None
    """True on rows of a sequence, in this shape; None where nothing is padded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """A packed stream of ids, and its sequences side by side for the attention."""

    ids: NDArray[np.int64]
    """[N] of the stream, 0 in the gaps."""
    gaps: Indices
    """Rows that belong to no sequence."""
    starts: Indices
    """[S] first row of each sequence."""
    groups: list[Group]
    padded: Indices
    """[P] row of the stream of each place of all groups, end to end; a gap's where padded."""
    places: Indices
    """[N] place in `padded` of each row; meaningless in the gaps."""


def make_text_layout(sequences: Sequence[bytes]) -> TextLayout:
    """Lay ids end to end."""
    lengths = np.array([len(ids) for ids in sequences])
    starts = _starts(lengths, TEXT_GAP)
    ids = [np.frombuffer(sequence, np.uint8).astype(np.int64) for sequence in sequences]
    stream, gaps = _stream(ids, TEXT_GAP, TEXT_STEP, 0)
    groups, padded = [], []
    places = np.zeros(len(stream), np.int64)
    total = 0
    for members in text_groups(lengths.tolist()):
        longest = lengths[members[0]]
        inside = np.arange(longest) < lengths[members][:, None]
        rows = np.where(inside, starts[members][:, None] + np.arange(longest), gaps[0])
        places[rows[inside]] = total + np.flatnonzero(inside)
        groups.append(Group(shape=inside.shape, mask=None if inside.all() else inside))
        padded.append(rows.reshape(-1))
        total += inside.size
    return TextLayout(
        ids=stream,
        gaps=gaps,
        starts=starts,
        groups=groups,
        padded=np.concatenate(padded),
        places=places,
    )


def text_groups(lengths: Sequence[int]) -> list[list[int]]:
    """Positions of sequences of like length, longest first in each group."""
    groups: list[list[int]] = []
    longest = waste = 0
    for position in sorted(range(len(lengths)), key=lambda p: -lengths[p]):
        padding = longest - lengths[position]
        if not groups or waste + padding > GROUP_WASTE:
            groups.append([])
            longest, waste, padding = lengths[position], 0, 0
        waste += padding
        groups[-1].append(position)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The packed streams of one run of sequences, at 40 Hz (prosody) and at 80 Hz (frames)."""

    prosody_rows: Indices
    """[N40] row of the text table for each prosody row; the zero row in the gaps."""
    prosody_gaps: Indices
    """Rows of the prosody stream that belong to no sequence."""
    frame_taps: Indices
    """[N80, 7] product of the text table (row * 7 + tap) that each frame sums up."""
    frame_gaps: Indices
    """Frames that belong to no sequence."""
    frame_prosody: Indices
    """[N80] position in the flattened prosody stream (row * 2 + half) of each frame."""
    starts: Indices
    """[S] first frame of each sequence."""
    counts: Indices
    """[S] frames of each sequence."""


def make_layout(rows: Sequence[Indices], durations: Sequence[Indices], zero_row: int) -> Layout:
    """Lay sequences end to end.

    Args:
        rows: for each sequence, the rows of its ids in the text table.
        durations: for each sequence, the prosody rows of each of its ids.
        zero_row: a row of the text table that is all zeros.
    """
    ticks = np.array([int(d.sum()) for d in durations])
    counts = 2 * ticks
    starts, prosody_starts = _starts(counts, FRAME_GAP), _starts(ticks, PROSODY_GAP)
    spoken = [np.repeat(r, d) for r, d in zip(rows, durations, strict=True)]
    prosody_rows, prosody_gaps = _stream(spoken, PROSODY_GAP, PROSODY_STEP, zero_row)
    frames = [np.repeat(s, 2) for s in spoken]
    frame_rows, frame_gaps = _stream(frames, FRAME_GAP, FRAME_STEP, zero_row)
    halves = [2 * s + np.arange(n) for s, n in zip(prosody_starts, counts, strict=True)]
    frame_prosody, _ = _stream(halves, FRAME_GAP, FRAME_STEP, 0)
    return Layout(
        prosody_rows=prosody_rows,
        prosody_gaps=prosody_gaps,
        frame_taps=_taps(frame_rows, zero_row),
        frame_gaps=frame_gaps,
        frame_prosody=frame_prosody,
        starts=starts,
        counts=counts,
    )


def _taps(rows: Indices, zero_row: int) -> Indices:
    """[N, 7] for each frame, the products of the rows around it."""
    edge = TAPS // 2
    around = np.pad(rows, edge, constant_values=zero_row)
    return sliding_window_view(around, TAPS) * TAPS + np.arange(TAPS)


def _starts(counts: Indices, gap: int) -> Indices:
    """First row of each sequence when each is followed by a gap."""
    return np.concatenate([[0], np.cumsum(counts + gap)[:-1]]).astype(np.int64)


def _stream(pieces: Sequence[Indices], gap: int, step: int, filler: int) -> tuple[Indices, Indices]:
    """The pieces end to end, each followed by `gap` times `filler`, the last one by more.

    Returns:
        The rows, a multiple of `step`, and which of them are gaps.
    """
    behind = np.full(len(pieces), gap)
    behind[-1] += -sum(len(piece) + gap for piece in pieces) % step
    fillings = [np.full(count, filler, np.int64) for count in behind]
    rows = np.concatenate([part for pair in zip(pieces, fillings, strict=True) for part in pair])
    spans = np.ravel([[len(piece), count] for piece, count in zip(pieces, behind, strict=True)])
    is_gap = np.repeat(np.tile([False, True], len(pieces)), spans)
    return rows, np.flatnonzero(is_gap)
