"""How loud a waveform is, and the gain that makes it as loud as asked for."""

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from batchtts.models.base import Waveform

MAX_GAIN_DB = 20.0
"""A voice that needs more is hiss; what stays too quiet is for the checks to say."""

SHORTEST = 0.4
"""Seconds: the block of BS.1770; a shorter waveform has no integrated loudness of its own."""

LOOKAHEAD_MS = 8
"""The limiter's gain falls and rises over this time: short enough to go unheard, no click."""


def loudness_of(wave: "Waveform", sample_rate: int) -> float:
    """Integrated loudness in LUFS (ITU-R BS.1770) of mono [num_samples]; -inf for silence.

    A waveform under 400 ms is measured as one block and counted at its own length.
    """
    from loudness import integrated_loudness

    if wave.size == 0 or not np.any(wave):
        return -math.inf
    block = math.ceil(SHORTEST * sample_rate)
    if wave.size >= block:
        return float(integrated_loudness(wave, sample_rate))
    padded = np.concatenate([wave, np.zeros(block - wave.size, np.float32)])
    return float(integrated_loudness(padded, sample_rate)) + 10 * math.log10(block / wave.size)


def gain_for(
    wave: "Waveform", sample_rate: int, target: float, ceiling: float | None = None
) -> float:
    """The factor that brings a waveform to `target` LUFS, bounded; 1 for silence.

    Where the limiter has to work under `ceiling` (dBTP), what it takes away is given back once.
    """
    measured = loudness_of(wave, sample_rate)
    if not math.isfinite(measured):
        return 1.0
    gain = min(target - measured, MAX_GAIN_DB)
    if ceiling is not None:
        loud = wave * np.float32(10 ** (gain / 20))
        limited = limit(loud, sample_rate, ceiling)
        if limited is not loud:
            lost = loudness_of(loud, sample_rate) - loudness_of(limited, sample_rate)
            gain += min(1.5 * lost, 3.0)
    return float(10 ** (gain / 20))


def true_peak(wave: "Waveform", sample_rate: int) -> float:
    """Highest absolute value of the waveform at four times its sample_rate."""
    return float(_block_peaks(wave, sample_rate, wave.size).max(initial=0.0))


def limit(wave: "Waveform", sample_rate: int, ceiling: float) -> "Waveform":
    """Hold the true peak of mono [num_samples] under `ceiling` dBTP.

    Only the surroundings of a peak get quieter, so the loudness stays. Each millisecond has the
    gain that its own peak needs; the lowest of the neighbourhood, smoothed, is what is applied.
    """
    top = 10 ** (ceiling / 20)
    if np.abs(wave).max(initial=0.0) <= top / 2:  # no peak between samples is 6 dB over them
        return wave
    hop = max(1, sample_rate // 1000)
    peaks = _block_peaks(wave, sample_rate, hop)
    if peaks.max(initial=0.0) <= top:
        return wave
    # A hair below the ceiling: the moving gain itself shifts the peaks between the samples.
    needed = np.minimum(1.0, 0.99 * top / np.maximum(peaks, 1e-9))
    # The lowest reaches one block further than the smoothing: no interpolated gain is too high.
    reach = LOOKAHEAD_MS + 1
    around = np.pad(needed, reach + LOOKAHEAD_MS, constant_values=1.0)
    lowest = np.lib.stride_tricks.sliding_window_view(around, 2 * reach + 1).min(axis=1)
    window = np.hanning(2 * LOOKAHEAD_MS + 3)[1:-1]
    smooth = np.convolve(lowest, window / window.sum(), "valid")
    centres = (np.arange(smooth.size) + 0.5) * hop
    return wave * np.interp(np.arange(wave.size), centres, smooth).astype(np.float32)


def _block_peaks(wave: "Waveform", sample_rate: int, hop: int) -> "Waveform":
    """Highest absolute value between the samples too, per block of `hop` samples."""
    import soxr

    if wave.size == 0:
        return np.zeros(0, np.float32)
    fine = np.abs(soxr.resample(wave, sample_rate, 4 * sample_rate))
    blocks = -(-wave.size // hop)
    fine = np.pad(fine, (0, max(0, blocks * 4 * hop - fine.size)))[: blocks * 4 * hop]
    peaks: Waveform = fine.reshape(blocks, 4 * hop).max(axis=1)
    return peaks
