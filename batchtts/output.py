"""Waveform -> file: encode, write under a temporary name, rename. A name means a whole file."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from batchtts import storage, wav
from batchtts.audio import FULL_SCALE, Samples
from batchtts.errors import AudioError
from batchtts.formats import FORMATS, extension, output_rate, resolve, subtype
from batchtts.names import collision_key, file_for, safe_file
from batchtts.storage import remove_leftovers

if TYPE_CHECKING:
    from soundfile import SoundFile

    from batchtts.config import OutputConfig
    from batchtts.data import Record

__all__ = [  # with what stands in formats, names and storage: all that writing a file needs
    "Written",
    "collision_key",
    "extension",
    "file_for",
    "is_whole",
    "output_rate",
    "remove_leftovers",
    "resolve",
    "safe_file",
    "write",
]

BLOCK = 65_536
"""Samples given to libsndfile at once: its Vorbis encoder overflows the stack on long ones."""

SAMPLE_BYTES = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4, "ULAW": 1, "ALAW": 1}
"""Bytes of a sample in a WAV."""


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
    check_size(path, samples.size, output)
    if output.format == "wav" and subtype(output) == "PCM_16" and not output.tags:
        # Three times as fast as libsndfile for the files that nearly every run writes.
        body = samples.data.cast("B")
        parts = [memoryview(wav.header(sample_rate, len(body))), body]
    else:
        parts = [_encode(samples, sample_rate, output)]
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


def quantize(wave: Samples, output: "OutputConfig") -> tuple[Samples, int]:
    """Samples as the encoder takes them, and how many were cut to full scale.

    Returns:
        int16 [num_samples] for 16-bit and telephone encodings, else float32 in [-1, 1].

    Raises:
        AudioError: a sample is NaN or infinite.
    """
    if wave.dtype == np.int16:
        return np.ascontiguousarray(wave, "<i2"), 0
    if not np.isfinite(wave.max(initial=0.0) - wave.min(initial=0.0)):
        message = "non-finite audio"
        raise AudioError(message)
    if subtype(output) not in ("PCM_16", "ULAW", "ALAW"):
        return np.clip(wave, -1.0, 1.0), int(np.count_nonzero(np.abs(wave) > 1.0))
    scaled = wave * np.float32(FULL_SCALE)
    np.rint(scaled, out=scaled)
    clipped = 0
    if scaled.max(initial=0.0) > 32_767 or scaled.min(initial=0.0) < -32_768:
        clipped = int(np.count_nonzero((scaled > 32_767) | (scaled < -32_768)))
        np.clip(scaled, -32_768, 32_767, out=scaled)
    return scaled.astype("<i2"), clipped


def check_size(path: Path, num_samples: int, output: "OutputConfig") -> None:
    """Refuse what a WAV's 32-bit sizes cannot tell.

    Raises:
        AudioError: names the sizes and the way out.
    """
    num_bytes = num_samples * SAMPLE_BYTES.get(subtype(output), 0)
    if output.format == "wav" and num_bytes > wav.MAX_DATA:
        message = (
            f"{path.name} would have {num_bytes:,} bytes of audio, a WAV holds {wav.MAX_DATA:,}; "
            "split the text, or set output.format to flac or opus"
        )
        raise AudioError(message)


def open_encoder(file: IO[bytes], sample_rate: int, output: "OutputConfig") -> "SoundFile":
    """A libsndfile encoder into a binary file object, tags already set."""
    import soundfile

    encoder = soundfile.SoundFile(
        file,
        "w",
        samplerate=sample_rate,
        channels=1,
        format=FORMATS[output.format].container,
        subtype=subtype(output),
    )
    for name, value in output.tags.items():
        setattr(encoder, name, value)
    return encoder


def blocks(samples: Samples) -> Iterator[Samples]:
    """Pieces that libsndfile can be given at once."""
    return (samples[at : at + BLOCK] for at in range(0, samples.size, BLOCK))


def _encode(samples: Samples, sample_rate: int, output: "OutputConfig") -> memoryview:
    """The bytes of a whole file."""
    buffer = BytesIO()
    with open_encoder(buffer, sample_rate, output) as encoder:
        for block in blocks(samples):
            encoder.write(block)
    return buffer.getbuffer()


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
        channels, rate, num_samples = _describe(path)
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


def _describe(path: Path) -> tuple[int, int, int]:
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
