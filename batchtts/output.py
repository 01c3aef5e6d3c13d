"""Waveform -> file: encode, write under a temporary name, rename. A name means a whole file."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from batchtts import storage, wav
from batchtts.audio import Finisher, Joiner, Samples
from batchtts.codec import blocks, check_size, encode, open_encoder, quantize
from batchtts.errors import AudioError
from batchtts.formats import extension, output_rate, resolve
from batchtts.names import collision_key, file_for, safe_file
from batchtts.storage import remove_leftovers

if TYPE_CHECKING:
    from batchtts.config import OutputConfig
    from batchtts.data import Record

__all__ = [  # with what stands in formats, names and storage: all that writing a file needs
    "Written",
    "collision_key",
    "describe",
    "extension",
    "file_for",
    "holds",
    "is_whole",
    "open_stream",
    "output_rate",
    "remove_leftovers",
    "resolve",
    "safe_file",
    "write",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that is there."""

    bytes: int
    crc32: str
    """Of the file's bytes, 8 hexadecimal digits."""
    num_samples: int
    sample_rate: int
    """Hz."""
    clipped: int = 0
    """Samples beyond full scale, cut to it."""

    @property
    def duration(self) -> float:
        """Seconds of audio."""
        return self.num_samples / self.sample_rate


def write(
    path: Path, wave: Samples, sample_rate: int, output: "OutputConfig", lease: int
) -> Written:
    """Write a finished waveform, replacing what was there; the folder is made when missing.

    Args:
        path: The file; its temporary name stands beside it.
        wave: Mono [num_samples], float32 in [-1, 1] or int16.
        sample_rate: Hz of the waveform and of the file.
        output: Resolved output settings.
        lease: Makes the temporary name this writer's own.

    Raises:
        AudioError: no samples, one that is not finite, or too many for the format; nothing is
            written.
        StorageError: the folder cannot be written.
    """
    samples, clipped = quantize(wave, output)
    if samples.size == 0:
        message = f"no audio for {path.name}"
        raise AudioError(message)
    check_size(path.name, samples.size, output)
    parts = encode(samples, sample_rate, output)
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    storage.replace(path, parts, lease)
    return Written(
        bytes=sum(len(part) for part in parts),
        crc32=f"{crc:08x}",
        num_samples=samples.size,
        sample_rate=sample_rate,
        clipped=clipped,
    )


def open_stream(path: Path, sample_rate: int, output: "OutputConfig", lease: int) -> "Stream":
    """Begin the file of an utterance too long to hold; see `write` for the arguments.

    `sample_rate` is the segments' own.

    Raises:
        StorageError: the folder cannot be written.
    """
    return Stream(path, sample_rate, output, lease)


class Stream:
    """An audio file that grows by segments in bounded memory: joined, finished, encoded, written.

    A context manager: left by an exception, or without `close`, it leaves no file behind.
    """

    def __init__(self, path: Path, sample_rate: int, output: "OutputConfig", lease: int) -> None:
        self._path, self._output = path, output
        self._temp = storage.temporary(path, lease)
        self._joiner = Joiner(sample_rate)
        self._finisher = Finisher(sample_rate, output)
        self._num_samples = self._clipped = 0
        try:
            self._sink = _Sink(os.fdopen(storage.create(self._temp), "w+b", buffering=0))
        except OSError as error:
            raise storage.storage_error(path.parent, error) from error
        self._encoder = open_encoder(self._sink, self._finisher.sample_rate, output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._sink.file.closed:
            self._encoder.close()
            self._sink.file.close()
            storage.discard(self._temp)

    def append(self, wave: Samples, pause_ms: int = 0) -> None:
        """Add a segment, mono [num_samples], and the pause after it.

        Raises:
            AudioError: as for `write`.
            StorageError: the disk is full, say.
        """
        self._encode(self._finisher.add(self._joiner.add(wave, pause_ms)))

    def close(self) -> Written:
        """Put the file in place.

        Raises:
            AudioError: as for `write`.
            StorageError: the disk is full, say.
        """
        self._encode(self._finisher.end(self._joiner.end()))
        if self._num_samples == 0:
            message = f"no audio for {self._path.name}"
            raise AudioError(message)
        self._encoder.close()
        try:
            self._sink.check()
            num_bytes, crc = self._sink.measure()
            self._sink.file.close()
            self._temp.replace(self._path)
        except OSError as error:
            raise storage.storage_error(self._path.parent, error) from error
        return Written(
            bytes=num_bytes,
            crc32=f"{crc:08x}",
            num_samples=self._num_samples,
            sample_rate=self._finisher.sample_rate,
            clipped=self._clipped,
        )

    def _encode(self, wave: Samples) -> None:
        samples, clipped = quantize(wave, self._output)
        self._num_samples += samples.size
        self._clipped += clipped
        check_size(self._path.name, self._num_samples, self._output)
        for block in blocks(samples):
            self._encoder.write(block)
        try:
            self._sink.check()
        except OSError as error:
            raise storage.storage_error(self._path.parent, error) from error


class _Sink:
    """A binary file for libsndfile, whose callbacks cannot raise: the error is kept for `check`."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._error: OSError | None = None
        self.seek, self.tell, self.read = file.seek, file.tell, file.read

    def write(self, data: bytes) -> int:
        try:
            storage.write_all(self.file.fileno(), data)
        except OSError as error:
            self._error = error
        return len(data)

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def measure(self) -> tuple[int, int]:
        """Bytes and CRC-32 of the whole file."""
        crc = 0
        self.file.seek(0)
        while data := self.file.read(1 << 20):
            crc = zlib.crc32(data, crc)
        return self.file.tell(), crc


def is_whole(path: Path, record: "Record") -> bool:
    """Whether the file of a record is there, has its size, and says what the record says.

    Cheap, for resuming: the samples are not read.
    """
    return holds(path, record.duration, record.sample_rate, record.checks.get("bytes"))


def holds(path: Path, duration: float, sample_rate: int, num_bytes: int | None) -> bool:
    """Whether a file is audio of this duration (seconds), sample_rate (Hz) and size (bytes)."""
    try:
        size = path.stat().st_size
        if size == 0 or (num_bytes is not None and size != num_bytes):
            return False
        channels, rate, num_samples = describe(path)
    except (OSError, ValueError):
        return False
    # A record's duration is rounded to a tenth of a millisecond; MP3 counts whole frames.
    slack = 0.1 if path.suffix == ".mp3" else 0.001
    return (
        channels == 1
        and rate == sample_rate
        and num_samples > 0
        and abs(num_samples / rate - duration) <= slack
    )


def describe(path: Path) -> tuple[int, int, int]:
    """Channels, Hz and samples per channel, as the header says.

    Raises:
        ValueError: it is no audio file, or it is cut.
    """
    if path.suffix == ".wav":
        info = wav.read_header(path)
        if info is None:
            raise ValueError(path)
        return info.channels, info.sample_rate, info.num_samples
    import soundfile

    try:
        info = soundfile.info(path)
    except soundfile.LibsndfileError as error:
        raise ValueError(path) from error
    return info.channels, info.samplerate, info.frames
