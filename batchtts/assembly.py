"""The segments of an utterance as they come back from the device, joined and judged.

An utterance of minutes goes stretch by stretch: the next segments are spoken when the last ones
are in the file, so that a book needs no more memory than a page.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchtts import audio, checks
from batchtts.models.base import Audio
from batchtts.output import Stream
from batchtts.prepare import Segment

LONG_SECONDS = 180.0
"""Expected audio from which an utterance goes stretch by stretch."""
STRETCH_SECONDS = 60.0
"""Expected audio of a stretch."""


@dataclass(slots=True)
class Take:
    """One attempt at an utterance, joined and judged."""

    wave: NDArray[Any]
    """[num_samples] as the model gave it, or float32 where segments were joined."""
    sample_rate: int
    """Hz."""
    verdict: checks.Verdict
    notes: Mapping[str, Any]
    """What front end and model had to say, for the record."""
    first: Segment
    """Its first segment: tells utterance, seed and precision."""

    @property
    def is_finite(self) -> bool:
        """Whether no sample is NaN or infinite."""
        return self.wave.dtype.kind == "i" or bool(np.isfinite(self.wave).all())


@dataclass(slots=True)
class Past:
    """What is known of the stretches of a long utterance that are in its file."""

    stream: Stream
    """The file, growing."""
    seed: int
    """Of its first segment."""
    reasons: dict[str, None] = field(default_factory=dict)
    """What was wrong, each once."""
    notes: dict[str, Any] = field(default_factory=dict)
    precision: str = ""
    attempts: int = 1
    """Most attempts at one stretch."""
    peak_dbfs: float = -120.0
    power: float = 0.0
    """Mean square of the samples x their number."""
    num_samples: int = 0

    def add(self, take: Take, attempts: int) -> None:
        """Count one more stretch."""
        verdict = take.verdict
        self.reasons.update(dict.fromkeys(verdict.reasons))
        merge(self.notes, take.notes)
        self.precision = self.precision or take.first.precision
        self.attempts = max(self.attempts, attempts)
        self.peak_dbfs = max(self.peak_dbfs, verdict.peak_dbfs)
        self.power += 10 ** (verdict.rms_dbfs / 10) * take.wave.size
        self.num_samples += take.wave.size

    @property
    def rms_dbfs(self) -> float:
        """Level of all of it."""
        mean = self.power / max(1, self.num_samples)
        return round(10 * float(np.log10(mean)), 1) if mean > 0 else -120.0


class Assembly:
    """One utterance on its way from the device to its file."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._waiting = deque(_stretches(segments))
        self.segments = self._waiting.popleft()
        """The stretch that is being spoken."""
        self.is_long = bool(self._waiting)
        """It goes stretch by stretch."""
        self.past: Past | None = None
        """Of a long one that has begun."""
        self.attempt = 1
        """Counted up each time the stretch is spoken again."""
        self._audios: dict[int, Audio] = {}
        self._best: Take | None = None

    def add(self, segment: Segment, spoken: Audio) -> bool:
        """Take a segment's audio; True when the stretch is complete."""
        self._audios[segment.number] = spoken
        return len(self._audios) == len(self.segments)

    @property
    def has_more(self) -> bool:
        """There are stretches after this one."""
        return bool(self._waiting)

    def discard(self) -> None:
        """Leave no unfinished file behind."""
        if self.past:
            self.past.stream.__exit__()

    def next(self) -> list[Segment]:
        """Begin the next stretch; returns its segments, none at the end."""
        self.segments = self._waiting.popleft() if self._waiting else []
        self.attempt, self._audios, self._best = 1, {}, None
        return self.segments

    def take(self, sample_rate: int, window: checks.DurationWindow) -> Take:
        """Join the complete stretch and judge it."""
        parts = [self._audios[segment.number] for segment in self.segments]
        pauses = [segment.pause_ms for segment in self.segments]
        wave = audio.join([part.wave for part in parts], pauses, sample_rate)
        finish = "limit" if any(part.finish == "limit" for part in parts) else parts[0].finish
        expected = sum(segment.features.seconds for segment in self.segments)
        # What joining put in and cut off is no fault of the voice's timing.
        expected += (wave.size - sum(part.wave.size for part in parts)) / sample_rate
        notes: dict[str, Any] = {}
        for segment, part in zip(self.segments, parts, strict=True):
            merge(notes, segment.features.notes)
            merge(notes, part.info)
        return Take(
            wave=wave,
            sample_rate=sample_rate,
            verdict=checks.check(
                wave,
                sample_rate,
                expected,
                window,
                finish=finish,
                longest_pause=max(pauses) / 1000,
            ),
            notes=notes,
            first=self.segments[0],
        )

    def again(self, take: Take, precision: str) -> list[Segment]:
        """Keep a suspect take, if it is the best so far, and begin another attempt.

        Returns the segments to speak, with other seeds, and with this precision unless it is "".
        """
        self._best = self.best(take)
        self.segments = [segment.again(self.attempt, precision) for segment in self.segments]
        self.attempt += 1
        self._audios = {}
        return self.segments

    def best(self, take: Take) -> Take:
        """This take or an earlier one, whichever scores higher."""
        if self._best is not None and self._best.verdict.score >= take.verdict.score:
            return self._best
        return take


def merge(notes: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Numbers add up over the segments, words stand side by side."""
    for name, value in more.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            notes[name] = notes.get(name, 0) + value
        elif name in notes and notes[name] != value:
            notes[name] = f"{notes[name]} {value}"
        else:
            notes[name] = value


def _stretches(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """All at once where they are few, else in stretches of about the same length."""
    if sum(segment.features.seconds for segment in segments) <= LONG_SECONDS:
        yield list(segments)
        return
    stretch: list[Segment] = []
    seconds = 0.0
    for segment in segments:
        stretch.append(segment)
        seconds += segment.features.seconds
        if seconds >= STRETCH_SECONDS:
            yield stretch
            stretch, seconds = [], 0.0
    if stretch:
        yield stretch
