"""The last stages of a worker: waveforms of segments -> one checked file and its record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchtts import audio, checks, output
from batchtts.config import Config
from batchtts.data import Record, Utterance
from batchtts.models.base import Audio
from batchtts.plan import record_of
from batchtts.prepare import Segment


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
class Assembly:
    """The segments of one utterance as they come back, in whatever order."""

    segments: list[Segment]
    """All of them, by number."""
    attempt: int = 1
    """Counted up each time the utterance is spoken again."""
    _audios: dict[int, Audio] = field(default_factory=dict)
    _best: Take | None = None

    def add(self, segment: Segment, spoken: Audio) -> bool:
        """Take a segment's audio; True when the utterance is complete."""
        self._audios[segment.number] = spoken
        return len(self._audios) == len(self.segments)

    def take(self, sample_rate: int, window: checks.DurationWindow) -> Take:
        """Join the complete utterance and judge it."""
        parts = [self._audios[number] for number in range(len(self.segments))]
        pauses = [segment.pause_ms for segment in self.segments]
        wave = audio.join([part.wave for part in parts], pauses, sample_rate)
        finish = "limit" if any(part.finish == "limit" for part in parts) else parts[0].finish
        expected = sum(segment.features.seconds for segment in self.segments)
        notes: dict[str, Any] = {}
        for segment, part in zip(self.segments, parts, strict=True):
            _merge(notes, segment.features.notes)
            _merge(notes, part.info)
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


def _merge(notes: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Numbers add up over the segments, words stand side by side."""
    for name, value in more.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            notes[name] = notes.get(name, 0) + value
        elif name in notes and notes[name] != value:
            notes[name] = f"{notes[name]} {value}"
        else:
            notes[name] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every record of a worker has in common."""

    folder: Path
    """The output folder."""
    config: Config
    source: str
    """Name of the input."""
    device: str
    models: Mapping[str, str]
    """Voice -> name and fingerprint of its weights."""

    def ended(self, utterance: Utterance, *, status: str, reason: str) -> Record:
        """The record of an utterance that has no file."""
        return self._record(utterance, status=status, reason=reason)

    def write(self, take: Take, attempts: int) -> Record:
        """Finish the sound, write the file, make the record.

        Raises:
            StorageError: the file cannot be written.
        """
        utterance, verdict = take.first.utterance, take.verdict
        if verdict.fatal or (not verdict.ok and self.config.checks.on_suspect == "fail"):
            return self._record(
                utterance, status="failed", reason=verdict.reason, attempts=attempts
            )
        wave, sample_rate = audio.finish(take.wave, take.sample_rate, self.config.output)
        path = self.folder / utterance.file
        written = output.write(path, wave, sample_rate, self.config.output, utterance.index)
        return self._record(
            utterance,
            status="ok",
            file=utterance.file,
            duration=round(written.duration, 4),
            sample_rate=written.sample_rate,
            seed=take.first.seed,
            attempts=attempts,
            checks=_facts(take, written),
        )

    def _record(self, utterance: Utterance, **result: object) -> Record:
        return record_of(
            utterance,
            self.source,
            model=self.models.get(utterance.voice, ""),
            device=self.device,
            finished_at=now(),
            **result,
        )


def _facts(take: Take, written: output.Written) -> dict[str, Any]:
    """What the record's checks say of a file."""
    facts = {
        "verdict": "ok" if take.verdict.ok else f"suspect:{take.verdict.reason}",
        "bytes": written.bytes,
        "crc32": written.crc32,
        "peak_dbfs": take.verdict.peak_dbfs,
        "rms_dbfs": take.verdict.rms_dbfs,
        **take.notes,
    }
    if written.clipped:
        facts["clipped"] = written.clipped
    if take.first.precision:
        facts["retried"] = take.first.precision
    return facts


def now() -> str:
    """The time in UTC, ISO 8601 with a Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
