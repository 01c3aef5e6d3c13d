"""Samples -> the bytes of a format, by libsndfile or, for plain 16-bit WAV, by hand."""

from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from batchtts import wav
from batchtts.audio import FULL_SCALE, Samples
from batchtts.errors import AudioError
from batchtts.formats import FORMATS, subtype

if TYPE_CHECKING:
    from soundfile import SoundFile

    from batchtts.config import OutputConfig

BLOCK = 65_536
"""Samples given to libsndfile at once: its Vorbis encoder overflows the stack on long ones."""

SAMPLE_BYTES = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4, "ULAW": 1, "ALAW": 1}
"""Bytes of a sample in a WAV."""


def encode(samples: Samples, sample_rate: int, output: "OutputConfig") -> list[bytes | memoryview]:
    """The bytes of a whole file, in parts; `samples` come from `quantize`."""
    if output.format == "wav" and subtype(output) == "PCM_16" and not output.tags:
        # Three times as fast as libsndfile for the files that nearly every run writes.
        body = samples.data.cast("B")
        return [wav.header(sample_rate, len(body)), body]
    buffer = BytesIO()
    with open_encoder(buffer, sample_rate, output) as encoder:
        for block in blocks(samples):
            encoder.write(block)
    return [buffer.getbuffer()]


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


def check_size(name: str, num_samples: int, output: "OutputConfig") -> None:
    """Refuse what a WAV's 32-bit sizes cannot tell.

    Raises:
        AudioError: names the sizes and the way out.
    """
    num_bytes = num_samples * SAMPLE_BYTES.get(subtype(output), 0)
    if output.format == "wav" and num_bytes > wav.MAX_DATA:
        message = (
            f"{name} would have {num_bytes:,} bytes of audio, a WAV holds {wav.MAX_DATA:,}; "
            "split the text, or set output.format to flac or opus"
        )
        raise AudioError(message)


def open_encoder(file: object, sample_rate: int, output: "OutputConfig") -> "SoundFile":
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
