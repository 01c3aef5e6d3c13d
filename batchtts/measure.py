"""What is in an audio file, without knowing what it should say: format, levels, audible faults."""

import zlib
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchtts import checks
from batchtts.models.base import Waveform

FLOOR_DBFS = -50.0
"""What is quieter is a pause, not a sound."""
FRAME_MS = 20
EDGE_MS = 10
ABRUPT_DB = {"start": 15.0, "end": 30.0}
"""An edge less far under the loud parts was cut through a sound. Stricter than the check within a
run: here a false alarm costs a look, not another synthesis. A plosive may begin at once; nothing
that is whole ends so."""
STEADY_DB = 3.0
"""Speech rises and falls by 10 dB and more; what varies less is a hum, a buzz or noise."""
SHORTEST_SPEECH = 0.3
"""Seconds from which steadiness and repeats mean anything."""
REPEAT_SECONDS = 0.3
"""The same sound, sample for sample, over this time is no coincidence."""
REPEAT_LIKENESS = 0.97
"""Correlation from which two stretches are the same recording."""
REPEAT_RATE = 8000
"""Hz: enough to recognise a stretch by."""
REPEAT_LONGEST = 120.0
"""Seconds of a file that are searched for repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One file, measured."""

    crc32: str
    """Of the file's bytes, 8 hexadecimal digits."""
    bytes: int
    sample_rate: int = 0
    """Hz, as the header says."""
    num_samples: int = 0
    channels: int = 0
    peak_dbfs: float = -120.0
    rms_dbfs: float = -120.0
    faults: tuple[str, ...] = ()
    """Audible faults: the kind, and after a colon what was measured."""
    error: str = ""
    """Why it cannot be opened; then only the bytes are known."""

    @property
    def duration(self) -> float:
        """Seconds of audio."""
        return self.num_samples / self.sample_rate if self.sample_rate else 0.0

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


def crc_of(data: bytes) -> str:
    """The CRC-32 of a file's bytes as the manifest has it."""
    return f"{zlib.crc32(data):08x}"


def measure(data: bytes) -> Measured:
    """Measure the bytes of an audio file."""
    import soundfile

    crc32 = crc_of(data)
    try:
        samples, sample_rate = soundfile.read(BytesIO(data), dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, ValueError) as error:
        return Measured(crc32=crc32, bytes=len(data), error=str(error))
    wave: Waveform = samples.mean(axis=1)
    finite = np.nan_to_num(wave)
    return Measured(
        crc32=crc32,
        bytes=len(data),
        sample_rate=sample_rate,
        num_samples=len(wave),
        channels=samples.shape[1],
        peak_dbfs=round(_decibels(float(np.abs(finite).max(initial=0))), 1),
        rms_dbfs=round(_decibels(_rms(finite)), 1),
        faults=tuple(faults(wave, sample_rate)),
    )


def faults(wave: Waveform, sample_rate: int) -> list[str]:
    """What a listener would hear is wrong in mono [num_samples], whatever it should say."""
    found = list(checks.check(wave, sample_rate, 0.0).reasons)
    if any(reason in checks.FATAL for reason in found):
        return found
    found = [reason for reason in found if reason != "cut off"]  # as "abrupt end" below
    levels = _levels(wave, sample_rate)
    loud = float(np.percentile(levels, 95))
    if len(wave) >= SHORTEST_SPEECH * sample_rate:
        spread = float(np.std(levels[levels > FLOOR_DBFS])) if loud > FLOOR_DBFS else 0.0
        if spread < STEADY_DB:
            return [*found, f"steady: the level varies by {spread:.1f} dB only, no speech"]
        lag = repeat_of(wave, sample_rate)
        if lag:
            found.append(f"repeated: the same sound again after {lag:.2f} s")
    edge = max(1, EDGE_MS * sample_rate // 1000)
    for name, part in (("start", wave[:edge]), ("end", wave[-edge:])):
        below = loud - _decibels(_rms(part))
        if below < ABRUPT_DB[name]:
            found.append(f"abrupt {name}: as loud as {below:.0f} dB under the speech")
    return found


def repeat_of(wave: Waveform, sample_rate: int) -> float:
    """Seconds after which a stretch of the waveform comes again, sample for sample; 0 for never.

    Speech is never the same twice; a copy is a loop of the model or of a buffer.
    """
    import soxr

    wave = wave[: int(REPEAT_LONGEST * sample_rate)]
    coarse = soxr.resample(wave, sample_rate, REPEAT_RATE)
    sharp = np.diff(coarse, prepend=np.float32(0))  # evens out the spectrum
    size = 1 << (2 * len(sharp) - 1).bit_length()
    spectrum = np.fft.rfft(sharp, size)
    likeness = np.fft.irfft(np.abs(spectrum) ** 2, size)[: len(sharp)]
    stretch = int(REPEAT_SECONDS * REPEAT_RATE)
    likeness[: stretch // 2] = 0
    for _ in range(4):
        lag = int(likeness.argmax())
        if likeness[lag] > 0 and _copies(sharp, lag, stretch):
            return lag / REPEAT_RATE
        likeness[max(0, lag - 80) : lag + 80] = 0
    return 0.0


def _copies(wave: NDArray[Any], lag: int, stretch: int) -> bool:
    """Whether some stretch that is loud enough is the same `lag` samples later."""
    first, later = wave[:-lag], wave[lag:]
    if len(first) < stretch:
        return False
    sums = [
        np.diff(np.cumsum(product, dtype=np.float64)[:: stretch // 3])
        for product in (first * later, first * first, later * later)
    ]
    if len(sums[0]) < 3:
        return False
    both, one, other = (np.convolve(part, np.ones(3), "valid") for part in sums)
    loud = np.minimum(one, other) > 0.05 * stretch * np.mean(wave**2)
    alike = both > REPEAT_LIKENESS * np.sqrt(one * other)
    return bool(np.any(alike & loud))


def _levels(wave: Waveform, sample_rate: int) -> NDArray[np.float64]:
    """Level of each frame in dBFS, [num_frames]; the last frame may be short."""
    size = max(1, FRAME_MS * sample_rate // 1000)
    frames = np.pad(wave, (0, -len(wave) % size)).reshape(-1, size)
    power = np.square(frames, dtype=np.float64).mean(axis=1)
    decibels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-12))
    return decibels


def _rms(wave: Waveform) -> float:
    return float(np.sqrt(np.mean(np.square(wave, dtype=np.float64)))) if len(wave) else 0.0


def _decibels(amplitude: float) -> float:
    return float(20 * np.log10(max(amplitude, 1e-6)))
