"""Waveform -> waveform: trim, join, resample, loudness, peak, fades, pads. No files, no torch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from batchtts.formats import ceiling, output_rate
from batchtts.levels import gain_for, limit

if TYPE_CHECKING:
    from batchtts.config import OutputConfig
    from batchtts.models.base import Waveform

Samples = NDArray[Any]
"""Mono [num_samples]: float32 in [-1, 1], or int16 as it came from the device."""

FULL_SCALE = 32_767
"""int16 value of 1.0, both ways, so that int16 -> float32 -> int16 changes nothing."""

SILENCE_DB = -45.0
"""A frame this far under the loudest one is silence."""

SILENCE_FLOOR = 10 ** (-75 / 20)
"""A frame under this level is silence whatever the rest is."""

TRIM_MARGIN_MS = 50
"""Kept around speech when trimming: soft onsets and decays."""

SEAM_MARGIN_MS = 30
"""Kept around speech at a seam, however short the pause."""

SEAM_FADE_MS = 5
"""Fades at the edges of a seam."""

LEVEL_SECONDS = 60
"""A stream's gain is that of its first minute: a voice does not change its level later on."""


def as_float(wave: Samples) -> "Waveform":
    """Float32 in [-1, 1] of int16 or float32; the argument itself where nothing changes."""
    if wave.dtype == np.int16:
        return wave * np.float32(1 / FULL_SCALE)
    return wave.astype(np.float32, copy=False)


def speech_bounds(wave: Samples, sample_rate: int) -> tuple[int, int]:
    """First sample of speech and the one after its last; (0, 0) where all is silence."""
    hop = max(1, sample_rate // 200)
    count = -(-wave.size // hop)
    padded = np.zeros(count * hop, np.float32)
    padded[: wave.size] = as_float(wave)
    frames = padded.reshape(count, hop)
    rms = np.sqrt(np.einsum("ij,ij->i", frames, frames) / hop)
    loudest = rms.max(initial=0.0)
    loud = np.flatnonzero(rms > max(loudest * 10 ** (SILENCE_DB / 20), SILENCE_FLOOR))
    if loud.size == 0:
        return 0, 0
    return int(loud[0]) * hop, min(int(loud[-1] + 1) * hop, wave.size)


def join(waves: Sequence[Samples], pauses_ms: Sequence[int], sample_rate: int) -> Samples:
    """Join segments; the pause after each is the whole silence between its speech and the next.

    Args:
        waves: Segments, mono [num_samples], float32 or int16.
        pauses_ms: Silence after each segment; the last one counts for nothing.
        sample_rate: Hz of all of them.

    Returns:
        Float32 [num_samples]; a single segment comes back untouched.
    """
    joiner = Joiner(sample_rate)
    pieces = [joiner.add(w, pause) for w, pause in zip(waves, pauses_ms, strict=True)]
    pieces.append(joiner.end())
    whole = [piece for piece in pieces if piece.size]
    return whole[0] if len(whole) == 1 else np.concatenate([np.zeros(0, np.float32), *whole])


class Joiner:
    """Joins segments as they come, holding one; `join` for texts too long to hold."""

    def __init__(self, sample_rate: int) -> None:
        self._sample_rate = sample_rate
        self._held: Samples = np.zeros(0, np.float32)
        self._pause = 0

    def add(self, wave: Samples, pause_ms: int) -> Samples:
        """Take a segment and the pause after it; returns what is ready, [num_samples]."""
        pause = self._sample_rate * pause_ms // 1000
        if wave.size == 0 or self._held.size == 0:
            # An empty segment leaves the longer of two pauses.
            self._pause = max(self._pause, pause) if self._held.size else pause
            self._held = wave if wave.size else self._held
            return np.zeros(0, np.float32)
        keep = max(self._pause // 2, self._sample_rate * SEAM_MARGIN_MS // 1000)
        left, right = as_float(self._held), as_float(wave)
        _, stop = speech_bounds(left, self._sample_rate)
        start, _ = speech_bounds(right, self._sample_rate)
        tail, lead = min(left.size - stop, keep), min(start, keep)
        fade = self._sample_rate * SEAM_FADE_MS // 1000
        ready = _fade(left[: stop + tail], 0, fade)
        gap = np.zeros(max(0, self._pause - tail - lead), np.float32)
        self._held = _fade(right[start - lead :], fade, 0)
        self._pause = pause
        return np.concatenate([ready, gap])

    def end(self) -> Samples:
        """What is left, [num_samples]; the whole of a single segment, untouched."""
        held, self._held = self._held, np.zeros(0, np.float32)
        return held


def needs_float(output: "OutputConfig") -> bool:
    """Whether int16 samples from the device would lose something on the way to the file."""
    return (
        output.sample_rate is not None
        or output.loudness is not None
        or output.true_peak is not None
        or output.fade_ms > 0
        or output.encoding not in (None, "pcm_16")
        or output.format not in ("wav", "flac")
    )


def finish(wave: Samples, sample_rate: int, output: "OutputConfig") -> tuple[Samples, int]:
    """Bring a whole utterance into the form of the output.

    Trim, resample, loudness, peak, fades, pads: in this order, so that silence does not count for
    loudness, and what resampling overshoots is caught by the peak limit.

    Args:
        wave: Mono [num_samples], float32 or int16.
        sample_rate: Hz of the waveform.
        output: Resolved output settings.

    Returns:
        Waveform and sample_rate of the file; the argument itself where nothing is asked for.
    """
    finisher = Finisher(sample_rate, output)
    return finisher.end(wave), finisher.sample_rate


class Finisher:
    """Finishes an utterance as its pieces come; bounded memory for the longest."""

    def __init__(self, sample_rate: int, output: "OutputConfig") -> None:
        self.sample_rate = output_rate(output, sample_rate)
        """Hz of what comes out."""
        self._rate_in = sample_rate
        self._output = output
        self._pieces: list[Samples] = []
        self._gain: float | None = None
        self._resampler: Any = None

    def add(self, wave: Samples) -> Samples:
        """Take the next piece; returns what is ready, [num_samples]. Cuts fall between pieces."""
        self._pieces.append(wave)
        if sum(piece.size for piece in self._pieces[:-1]) < LEVEL_SECONDS * self._rate_in:
            return np.zeros(0, np.float32)
        ready = np.concatenate([as_float(piece) for piece in self._pieces[:-1]])
        self._pieces = [wave]
        return self._through(ready, last=False)

    def end(self, wave: Samples | None = None) -> Samples:
        """Take the last piece, if there is one more; returns all that is left, [num_samples]."""
        pieces = self._pieces if wave is None else [*self._pieces, wave]
        self._pieces = []
        if not pieces:
            return np.zeros(0, np.float32)
        whole = pieces[0] if len(pieces) == 1 else np.concatenate([as_float(p) for p in pieces])
        return self._through(whole, last=True)

    def _through(self, wave: Samples, last: bool) -> Samples:
        """All steps for one stretch; the edges of the utterance are the first's and the last's."""
        output, first, top = self._output, self._gain is None, ceiling(self._output)
        if output.trim_silence:
            wave = _trim(wave, self._rate_in, first, last)
        if self.sample_rate != self._rate_in:
            wave = self._resample(as_float(wave), last)
        if first:
            self._gain = 1.0
            if output.loudness is not None:
                self._gain = gain_for(as_float(wave), self.sample_rate, output.loudness, top)
        if self._gain is not None and self._gain != 1.0:
            wave = as_float(wave) * np.float32(self._gain)
        if top is not None:
            wave = limit(as_float(wave), self.sample_rate, top)
        fade = self._num_samples(output.fade_ms)
        wave = _fade(wave, fade if first else 0, fade if last else 0)
        before = self._num_samples(output.pad_start_ms) if first else 0
        after = self._num_samples(output.pad_end_ms) if last else 0
        return np.pad(wave, (before, after)) if before or after else wave

    def _num_samples(self, ms: int) -> int:
        return self.sample_rate * ms // 1000

    def _resample(self, wave: "Waveform", last: bool) -> "Waveform":
        import soxr

        if self._resampler is None:
            self._resampler = soxr.ResampleStream(self._rate_in, self.sample_rate, 1)
        resampled: Waveform = self._resampler.resample_chunk(wave, last=last)
        return resampled


def _trim(wave: Samples, sample_rate: int, start: bool, end: bool) -> Samples:
    """Cut silence off the edges that are asked for, a margin stays; silence alone is left as is."""
    first, stop = speech_bounds(wave, sample_rate)
    if stop == 0:
        return wave
    margin = sample_rate * TRIM_MARGIN_MS // 1000
    return wave[max(0, first - margin) if start else 0 : stop + margin if end else None]


def _fade(wave: Samples, fade_in: int, fade_out: int) -> Samples:
    """Raise the first samples from silence and lower the last ones to it; counts in samples."""
    fade_in, fade_out = min(fade_in, wave.size), min(fade_out, wave.size)
    if not fade_in and not fade_out:
        return wave
    wave = as_float(wave).copy()
    wave[:fade_in] *= _ramp(fade_in)
    wave[wave.size - fade_out :] *= _ramp(fade_out)[::-1]
    return wave


def _ramp(count: int) -> "Waveform":
    """Half a cosine from 0 to 1, [count]."""
    return (0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / max(count, 1))).astype(np.float32)
