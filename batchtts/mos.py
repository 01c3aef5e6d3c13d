"""How good does it sound? DNSMOS P.835, a network that guesses what listeners would say.

It was made to judge noise suppression: it finds noise, buzz and broken audio, but a clean voice
with the wrong intonation pleases it. The weights are taken out of the `speechmos` wheel without
importing it, because it needs packages that it does not declare.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from batchtts.errors import MissingExtraError
from batchtts.models.base import Waveform

SAMPLE_RATE = 16_000
"""Hz that the network hears."""
WINDOW = 144_160
"""Samples that it hears at once: 9.01 seconds."""
HOP = SAMPLE_RATE
"""Samples from one window to the next."""
MOST_WINDOWS = 4
"""Windows of one file, 0.4 s of a CPU core each: a longer file is judged by some spread over it."""
CALIBRATION = {
    "signal": (-0.08397278, 1.22083953, 0.0052439),
    "background": (-0.13166888, 1.60915514, -0.39604546),
    "overall": (-0.06766283, 1.11546468, 0.04602535),
}
"""Published polynomials from the network's outputs to opinion scores, highest power first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MosScore:
    """Mean opinion scores from 1 (bad) to 5 (excellent)."""

    signal: float
    """The voice itself."""
    background: float
    """How little noise lies behind it."""
    overall: float

    def as_dict(self) -> dict[str, float]:
        """Rounded to what means anything."""
        return {name: round(value, 2) for name, value in asdict(self).items()}


class Judge:
    """The network, loaded."""

    def __init__(self) -> None:
        """Load the weights.

        Raises:
            MissingExtraError: onnxruntime or the wheel with the weights is not installed.
        """
        feature = "scoring how audio sounds"
        spec = find_spec("speechmos")
        if spec is None or spec.origin is None:
            raise MissingExtraError(feature, "qc")
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError(feature, "qc") from error
        path = Path(spec.origin).parent / "dnsmos_models" / "sig_bak_ovr.onnx"
        self._session: Any = onnxruntime.InferenceSession(
            str(path), providers=["CPUExecutionProvider"]
        )

    def rate(self, wave: Waveform) -> MosScore:
        """Score a waveform, float32 [num_samples] at SAMPLE_RATE Hz, not empty."""
        (raw,) = self._session.run(None, {"input_1": _windows(wave)})
        means = {
            name: float(np.polyval(polynomial, raw[:, column]).mean())
            for column, (name, polynomial) in enumerate(CALIBRATION.items())
        }
        return MosScore(**means)


def score(paths: Sequence[Path]) -> list[MosScore]:
    """Score audio files, in their order.

    Raises:
        MissingExtraError: the extra `qc` is not installed.
    """
    import soundfile

    judge = Judge()
    scores = []
    for path in paths:
        wave, sample_rate = soundfile.read(path, dtype="float32", always_2d=True)
        scores.append(judge.rate(at_16k(wave.mean(axis=1), sample_rate)))
    return scores


def at_16k(wave: Waveform, sample_rate: int) -> Waveform:
    """Resample a waveform to SAMPLE_RATE."""
    import soxr

    resampled: Waveform = soxr.resample(wave, sample_rate, SAMPLE_RATE)
    return resampled


def _windows(wave: Waveform) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Cut into [num_windows, WINDOW]; what is shorter is repeated until it fills one."""
    wave = np.tile(wave, -(-WINDOW // len(wave)))[: max(WINDOW, len(wave))]
    starts = np.arange(0, len(wave) - WINDOW + 1, HOP)
    if len(starts) > MOST_WINDOWS:
        starts = starts[np.linspace(0, len(starts) - 1, MOST_WINDOWS).astype(int)]
    return np.stack([wave[start : start + WINDOW] for start in starts]).astype(np.float32)
