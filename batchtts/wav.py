"""The WAV file itself: the plain 44-byte header, and a reader of headers that trusts nothing."""

import struct
from dataclasses import dataclass
from pathlib import Path

MAX_DATA = 2**32 - 1 - 4096
"""Bytes of samples that the 32-bit sizes of a WAV can tell, with room for its other chunks."""

_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_CHUNK = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")


def header(sample_rate: int, num_bytes: int) -> bytes:
    """The 44 bytes before `num_bytes` of mono 16-bit samples."""
    return _HEADER.pack(
        *(b"RIFF", 36 + num_bytes, b"WAVE", b"fmt ", 16),
        *(1, 1, sample_rate, 2 * sample_rate, 2, 16),
        *(b"data", num_bytes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WavInfo:
    """What a WAV says of itself, checked against its size on disk."""

    tag: int
    """1 PCM, 3 float, 6 A-law, 7 mu-law."""
    channels: int
    sample_rate: int
    """Hz."""
    bits: int
    num_samples: int
    """Samples per channel."""


def read_header(path: Path) -> WavInfo | None:
    """Read a WAV's header; None where it is no WAV, or promises more or less than is there."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        start = file.read(12)
        if len(start) < 12 or start[:4] != b"RIFF" or start[8:] != b"WAVE":
            return None
        if int.from_bytes(start[4:8], "little") + 8 != size:
            return None
        form = None
        while len(chunk := file.read(_CHUNK.size)) == _CHUNK.size:
            name, length = _CHUNK.unpack(chunk)
            if name == b"fmt ":
                form = file.read(_FORMAT.size)
                length -= _FORMAT.size
            elif name == b"data":
                whole = file.tell() + length <= size
                return _info(form, length) if form and whole else None
            file.seek(length + length % 2, 1)
    return None


def _info(form: bytes, num_bytes: int) -> WavInfo | None:
    if len(form) < _FORMAT.size:
        return None
    tag, channels, sample_rate, _, align, bits = _FORMAT.unpack(form)
    if not align:
        return None
    return WavInfo(
        tag=tag,
        channels=channels,
        sample_rate=sample_rate,
        bits=bits,
        num_samples=num_bytes // align,
    )
