"""Is this audio plausible? Cheap and always on: what a listener would notice at once.

Each reason is a fixed word of `WEIGHTS`, so that records can be counted by it. The limits are wide:
a false alarm costs a retry and a listener's time, and a hundred thousand rows raise many.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batchtts.audio import Samples, as_float

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from batchtts.models.base import Finish, Waveform

WEIGHTS = {
    "no audio": 100.0,
    "non-finite audio": 100.0,
    "silence": 100.0,
    "stopped at the limit": 20.0,
    "too long": 10.0,
    "too short": 10.0,
    "cut off": 5.0,
    "inner silence": 5.0,
    "trailing silence": 3.0,
    "leading silence": 3.0,
    "clipped": 3.0,
    "too quiet": 3.0,
    "DC offset": 2.0,
}
"""Reason -> how bad it is; the attempt with the least of it is kept."""

FATAL = ("no audio", "non-finite audio", "silence")
"""Never worth a file."""

FRAME_MS = 10
SILENT_PEAK = 10 ** (-60 / 20)
QUIET_DB = -45.0
"""dBFS of the loudest frame."""
SILENCE_DB = 45.0
"""A frame this far under the loudest is silence."""
LEADING_SECONDS = 1.0
TRAILING_SECONDS = 1.5
INNER_SECONDS = 1.5
"""Longest silence inside; plus the longest pause that was asked for."""
EDGE_SECONDS = 0.5
"""Silence at an edge counts for the duration up to this."""
DC_LEVEL = 0.02
CLIPPED_SHARE = 0.001
"""Share of samples over full scale, or in flat tops."""
CUT_MS = 2
CUT_DB = 15.0
"""The last milliseconds of a cut utterance are not this far under the loudest frame."""

LEARNING = 30
"""Utterances before a window judges by what it has seen."""
MEMORY = 512
"""Utterances that a window remembers."""
SLACK_SECONDS = 0.3
"""Added to both durations: a short utterance may be off by more, as a share of it."""
FIRST_FACTOR = 3.0
"""Actual against expected duration may differ by this while the window still learns."""
LEAST_FACTOR = 1.35
"""... and by this at least, however regular a voice is."""
SIGMAS = 6.0
SEEN_FACTOR = 1.5
"""A window knows lengths up to this factor beyond those that it has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the checks say of a waveform."""

    reasons: tuple[str, ...] = ()
    """What is wrong, the worst first; empty when nothing is."""
    score: float = 0.0
    """To choose between attempts: 0 is perfect, less is worse."""
    peak_dbfs: float = -120.0
    rms_dbfs: float = -120.0

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.reasons

    @property
    def fatal(self) -> bool:
        """No file may be made of it."""
        return any(reason in FATAL for reason in self.reasons)

    @property
    def reason(self) -> str:
        """What is wrong in one line; empty when nothing is."""
        return ", ".join(self.reasons)


class DurationWindow:
    """How long a voice's utterances are against what was expected: a robust running fit.

    Holds the last pairs of expected and actual seconds. A line through them (median of slopes,
    median of offsets) is the voice's tempo; the spread around it (MAD) is the tolerance. A share
    of bad audio well under a half moves neither. Lengths that it has not seen are judged as
    widely as by a new window: work comes longest first, and a line reaches only so far.
    Adding from several threads is safe: at worst a pair is lost.
    """

    def __init__(self) -> None:
        self._pairs = np.zeros((MEMORY, 2), np.float32)
        self._count = 0
        self._offset, self._slope = 0.0, 1.0
        self._reach = math.log(FIRST_FACTOR)
        self._seen = (0.0, math.inf)

    def deviation(self, actual: float, expected: float) -> float:
        """How far a duration is off, in units of what is allowed: beyond -1 or 1 is implausible.

        Args:
            actual: Seconds of audio.
            expected: Seconds that the front end expected.
        """
        shortest, longest = self._seen
        known = shortest / SEEN_FACTOR <= expected <= longest * SEEN_FACTOR
        fitted = max(0.0, self._offset + self._slope * expected) if known else expected
        reach = self._reach if known else math.log(FIRST_FACTOR)
        return math.log((actual + SLACK_SECONDS) / (fitted + SLACK_SECONDS)) / reach

    def add(self, actual: float, expected: float) -> None:
        """Learn from an utterance; both in seconds."""
        self._pairs[self._count % MEMORY] = expected, actual
        self._count += 1
        if self._count >= LEARNING and (self._count < 2 * LEARNING or self._count % 16 == 0):
            self._fit(self._pairs[: min(self._count, MEMORY)])

    def _fit(self, pairs: "Waveform") -> None:
        """Fit the line; `pairs` is [count, 2], expected and actual seconds."""
        expected, actual = pairs[np.argsort(pairs[:, 0], kind="stable")].T
        self._seen = float(expected[0]), float(expected[-1])
        half = expected.size // 2
        run = expected[-half:] - expected[:half]
        rise = actual[-half:] - actual[:half]
        far = run > 0.25 * run.max()
        if run.max() > SLACK_SECONDS:  # else all are as good as equal, and any slope fits
            self._slope = float(np.median(rise[far] / run[far]))
        self._offset = float(np.median(actual - self._slope * expected))
        fitted = np.maximum(0.0, self._offset + self._slope * expected)
        off = np.abs(np.log((actual + SLACK_SECONDS) / (fitted + SLACK_SECONDS)))
        self._reach = max(SIGMAS * 1.4826 * float(np.median(off)), math.log(LEAST_FACTOR))


def check(
    wave: Samples,
    sample_rate: int,
    expected_seconds: float,
    window: DurationWindow | None = None,
    *,
    finish: "Finish" = "ok",
    longest_pause: float = 0.0,
) -> Verdict:
    """Judge the waveform of an utterance, before it is trimmed or levelled.

    Args:
        wave: Mono [num_samples], float32 in [-1, 1] or int16.
        sample_rate: Hz.
        expected_seconds: What the front end expected.
        window: Of this voice; it learns from what is otherwise good. None: no look at the duration.
        finish: How the model says that the synthesis ended.
        longest_pause: Seconds of the longest pause that was put in.
    """
    if wave.size == 0:
        return _verdict(["no audio"], 0.0, 0.0, 0.0)
    wave = as_float(wave)
    frames = _frames(wave, sample_rate)
    power = np.einsum("ij,ij->i", frames, frames) / frames.shape[1]
    peak = float(max(wave.max(), -wave.min()))
    rms = math.sqrt(float(power.mean()))
    if not math.isfinite(rms + peak):
        return _verdict(["non-finite audio"], 0.0, 0.0, 0.0)
    if peak < SILENT_PEAK:
        return _verdict(["silence"], 0.0, peak, rms)
    loud = np.flatnonzero(power > power.max() * 10 ** (-SILENCE_DB / 10))
    reasons = _level_reasons(wave, peak, float(power.max()))
    reasons += _silence_reasons(loud, power.size, max(INNER_SECONDS, longest_pause + 1.0))
    if _ends_abruptly(wave, sample_rate, float(power.max())):
        reasons.append("cut off")
    if finish == "limit":
        reasons.append("stopped at the limit")
    deviation = 0.0
    if window is not None:
        seconds = _spoken_frames(loud, power.size) * frames.shape[1] / sample_rate
        deviation = window.deviation(seconds, expected_seconds)
        if not reasons:
            window.add(seconds, expected_seconds)
        if abs(deviation) > 1:
            reasons.append("too long" if deviation > 0 else "too short")
    return _verdict(reasons, deviation, peak, rms)


def _verdict(reasons: list[str], deviation: float, peak: float, rms: float) -> Verdict:
    ranked = tuple(reason for reason in WEIGHTS if reason in reasons)
    score = -sum(WEIGHTS[reason] for reason in ranked) - abs(deviation)
    return Verdict(
        reasons=ranked, score=round(score, 3), peak_dbfs=_decibels(peak), rms_dbfs=_decibels(rms)
    )


def _decibels(level: float) -> float:
    """DBFS to a tenth, -120 at least."""
    return round(20 * math.log10(max(level, 1e-6)), 1)


def _frames(wave: "Waveform", sample_rate: int) -> "Waveform":
    """Whole frames of `FRAME_MS`, [num_frames, frame]; one frame where there is not even one."""
    hop = min(max(1, sample_rate * FRAME_MS // 1000), wave.size)
    count = wave.size // hop
    return wave[: count * hop].reshape(count, hop)


def _level_reasons(wave: "Waveform", peak: float, loudest: float) -> list[str]:
    """Too quiet, off centre, or cut at the top; `loudest` is the power of the loudest frame."""
    reasons = []
    if 10 * math.log10(loudest) < QUIET_DB:
        reasons.append("too quiet")
    if abs(float(wave.mean())) > DC_LEVEL:
        reasons.append("DC offset")
    tops = np.flatnonzero(np.abs(wave) >= 0.98 * peak)
    tops = tops[(tops > 0) & (tops < wave.size - 1)]
    value = wave[tops]
    flat = np.count_nonzero((value == wave[tops - 1]) & (value == wave[tops + 1]))
    over = np.count_nonzero(np.abs(wave) > 1.0) if peak > 1 else 0
    if max(flat, over) > CLIPPED_SHARE * wave.size:
        reasons.append("clipped")
    return reasons


def _spoken_frames(loud: "NDArray[np.intp]", num_frames: int) -> int:
    """Frames of the utterance; of the silence at its edges only what speech brings along."""
    edge = EDGE_SECONDS * 1000 // FRAME_MS
    before, after = loud[0], num_frames - 1 - loud[-1]
    return int(loud[-1] + 1 - loud[0] + min(before, edge) + min(after, edge))


def _silence_reasons(loud: "NDArray[np.intp]", num_frames: int, longest_inside: float) -> list[str]:
    """Stretches of silence where none belongs; `loud` are the frames that are not silent."""
    per_second = 1000 / FRAME_MS
    reasons = []
    if loud[0] > LEADING_SECONDS * per_second:
        reasons.append("leading silence")
    if num_frames - 1 - loud[-1] > TRAILING_SECONDS * per_second:
        reasons.append("trailing silence")
    if np.diff(loud).max(initial=0) > longest_inside * per_second:
        reasons.append("inner silence")
    return reasons


def _ends_abruptly(wave: "Waveform", sample_rate: int, loudest: float) -> bool:
    """Whether the last samples are as loud as speech; `loudest` is the loudest frame's power."""
    last = wave[-max(1, sample_rate * CUT_MS // 1000) :]
    return float(last @ last) / last.size > loudest * 10 ** (-CUT_DB / 10)
