"""How far one waveform is from another to the ear: the mean distance of their log-mel spectra."""

import numpy as np
from numpy.typing import NDArray

FRAME = 1024
HOP = 256
BANDS = 80
FLOOR = 1e-5


def log_mel_distance(
    one: NDArray[np.float32], other: NDArray[np.float32], sample_rate: int
) -> float:
    """Mean absolute difference of natural logarithms, over what both have."""
    num = min(len(one), len(other))
    difference = log_mel(one[:num], sample_rate) - log_mel(other[:num], sample_rate)
    return float(np.mean(np.abs(difference)))


def log_mel(wave: NDArray[np.float32], sample_rate: int) -> NDArray[np.float64]:
    """[num_frames, bands], natural logarithm."""
    padded = np.pad(wave.astype(float), (0, max(0, FRAME - len(wave))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP]
    spectrum = np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1))
    return np.log(np.maximum(spectrum @ _filters(sample_rate), FLOOR))


def _filters(sample_rate: int) -> NDArray[np.float64]:
    """Triangles, evenly spaced in mel, [FRAME / 2 + 1, bands]."""
    top = 2595 * np.log10(1 + sample_rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(FRAME, 1 / sample_rate)[:, None]
    rise = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.clip(np.minimum(rise, fall), 0, None)
