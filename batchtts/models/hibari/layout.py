"""Where everything lies: which sequences are encoded together, and the packed stream after that.

Pure index arithmetic in numpy: the durations come to the host once, and from then on every length
is known there, so a GPU never waits for it again.

A stream holds sequences end to end, each followed by a gap of zero rows that is at least as wide
as one convolution reaches. At 80 Hz the gap of three rows also holds the reflections that the
short-time Fourier transform wants at both ends (see signal.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Indices = NDArray[np.int64]

PROSODY_GAP = 24
"""Rows at 40 Hz: seven taps, dilation eight."""
PROSODY_STEP = 8
"""The prosody stream's length is a multiple of the largest dilation."""
FRAME_GAP = 3
"""Rows at 80 Hz: seven taps."""
TAPS = 7
GROUP_WASTE = 32
"""Padded ids that cost as much as one more call of the text encoders."""


def text_groups(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Positions of sequences to encode together, longest first, padded to the first of each group.

    Args:
        lengths: ids of each sequence.
        limit: most padded ids in a group of several.
    """
    groups: list[list[int]] = []
    longest = waste = 0
    for position in sorted(range(len(lengths)), key=lambda p: -lengths[p]):
        padding = longest - lengths[position]
        full = groups and (len(groups[-1]) + 1) * longest > limit
        if not groups or full or waste + padding > GROUP_WASTE:
            groups.append([])
            longest, waste, padding = lengths[position], 0, 0
        waste += padding
        groups[-1].append(position)
    return groups


def runs(frames: Sequence[int], limit: int) -> list[list[int]]:
    """Consecutive sequences to decode together: at most `limit` frames, or a single sequence."""
    result: list[list[int]] = []
    total = 0
    for position, count in enumerate(frames):
        if not result or total + count > limit:
            result.append([])
            total = 0
        result[-1].append(position)
        total += count
    return result


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
    prosody_rows = _with_gaps(spoken, PROSODY_GAP, zero_row)
    missing = -len(prosody_rows) % PROSODY_STEP
    rest = np.arange(missing) + len(prosody_rows)
    frame_rows = _with_gaps([np.repeat(s, 2) for s in spoken], FRAME_GAP, zero_row)
    prosody = [(2 * s + np.arange(n)) for s, n in zip(prosody_starts, counts, strict=True)]
    return Layout(
        prosody_rows=np.pad(prosody_rows, (0, missing), constant_values=zero_row),
        prosody_gaps=np.concatenate([_gaps(prosody_starts + ticks, PROSODY_GAP), rest]),
        frame_taps=_taps(frame_rows, zero_row),
        frame_gaps=_gaps(starts + counts, FRAME_GAP),
        frame_prosody=_with_gaps(prosody, FRAME_GAP, 0),
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


def _gaps(ends: Indices, gap: int) -> Indices:
    """All rows of the gaps that begin at `ends`."""
    return (ends[:, None] + np.arange(gap)).reshape(-1)


def _with_gaps(pieces: Sequence[Indices], gap: int, filler: int) -> Indices:
    """The pieces end to end, each followed by `gap` times `filler`."""
    filling = np.full(gap, filler, np.int64)
    return np.concatenate([part for piece in pieces for part in (piece, filling)])
