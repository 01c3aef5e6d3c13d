"""The last stage of a worker: takes -> finished sound -> one file and its record."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchtts import audio, output
from batchtts.assembly import Assembly, Past, Take
from batchtts.audiocache import AudioCache
from batchtts.config import Config
from batchtts.data import Record, Utterance
from batchtts.errors import AudioError
from batchtts.places import Place
from batchtts.plan import record_of
from batchtts.times import now


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every record of a worker has in common."""

    place: Place
    config: Config
    source: str
    """Name of the input."""
    device: str
    models: Mapping[str, str]
    """Voice -> name and fingerprint of its weights."""
    cache: AudioCache | None = None
    """Keeps what was spoken for other runs."""
    writer: int = field(default_factory=lambda: secrets.randbits(32))
    """Of its temporary files: a worker that was taken for dead may still write the same file."""

    def ended(self, utterance: Utterance, *, status: str, reason: str) -> Record:
        """The record of an utterance that has no file."""
        return self._record(utterance, status=status, reason=reason)

    def write(self, take: Take, attempts: int) -> Record:
        """Finish the sound, write the file, make the record.

        Raises:
            StorageError: the file cannot be written.
        """
        utterance, verdict = take.first.utterance, take.verdict
        if self._is_bad(take):
            return self._failed(utterance, verdict.reason, attempts)
        try:
            wave, sample_rate = audio.finish(take.wave, take.sample_rate, self.config.output)
            path = self.place.folder / utterance.file
            written = output.write(path, wave, sample_rate, self.config.output, self.writer)
        except AudioError as error:
            return self._failed(utterance, str(error), attempts)
        facts = {
            "verdict": "ok" if verdict.ok else f"suspect:{verdict.reason}",
            "bytes": written.bytes,
            "crc32": written.crc32,
            "peak_dbfs": verdict.peak_dbfs,
            "rms_dbfs": verdict.rms_dbfs,
            **take.notes,
        }
        return self._ok(utterance, written, facts, take.first.seed, attempts, take.first.precision)

    def extend(self, take: Take, assembly: Assembly) -> Record | None:
        """Add a stretch to the file of a long utterance.

        Returns:
            None while there are more stretches; the record when it was the last one, or one so bad
            that the utterance fails.

        Raises:
            StorageError: the file cannot be written.
        """
        utterance = take.first.utterance
        if self._is_bad(take):
            assembly.discard()
            reason = f"{take.verdict.reason} (from segment {take.first.number + 1})"
            return self._failed(utterance, reason, assembly.attempt)
        try:
            past = assembly.past
            if past is None:
                path, config = self.place.folder / utterance.file, self.config.output
                stream = output.open_stream(path, take.sample_rate, config, self.writer)
                past = assembly.past = Past(stream, take.first.seed)
            past.stream.append(take.wave, assembly.segments[-1].pause_ms)
            past.add(take, assembly.attempt)
            if assembly.has_more:
                return None
            written = past.stream.close()
        except AudioError as error:
            assembly.discard()
            return self._failed(utterance, str(error), assembly.attempt)
        facts = {
            "verdict": f"suspect:{', '.join(past.reasons)}" if past.reasons else "ok",
            "bytes": written.bytes,
            "crc32": written.crc32,
            "peak_dbfs": past.peak_dbfs,
            "rms_dbfs": past.rms_dbfs,
            **past.notes,
        }
        return self._ok(utterance, written, facts, past.seed, past.attempts, past.precision)

    def _is_bad(self, take: Take) -> bool:
        suspect = not take.verdict.ok and self.config.checks.on_suspect == "fail"
        return take.verdict.fatal or suspect

    def _failed(self, utterance: Utterance, reason: str, attempts: int) -> Record:
        return self._record(utterance, status="failed", reason=reason, attempts=attempts)

    def _ok(
        self,
        utterance: Utterance,
        written: output.Written,
        facts: dict[str, Any],
        seed: int,
        attempts: int,
        precision: str,
    ) -> Record:
        if written.clipped:
            facts["clipped"] = written.clipped
        if precision:
            facts["retried"] = precision
        record = self._record(
            utterance,
            status="ok",
            file=utterance.file,
            duration=round(written.duration, 4),
            sample_rate=written.sample_rate,
            seed=seed,
            attempts=attempts,
            checks=facts,
        )
        if self.cache:
            self.cache.keep(record, self.place.folder / utterance.file)
        self.place.put(utterance.file)
        return record

    def _record(self, utterance: Utterance, **result: object) -> Record:
        return record_of(
            utterance,
            self.source,
            model=self.models.get(utterance.voice, ""),
            device=self.device,
            finished_at=now(),
            **result,
        )
