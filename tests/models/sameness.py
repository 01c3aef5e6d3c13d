"""A batch sounds like a single: the promise that every VITS must keep."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from batchtts.models.base import Audio, Features


class Speaker(Protocol):
    """The part of a model that is used here."""

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]: ...
    def synthesize_in_chunks(self, features: Features) -> Audio: ...


def worst_difference(model: Speaker, batch: Sequence[Features]) -> float:
    """Largest difference of any sample: batch, reversed, in pairs and in chunks against alone."""
    alone = [model.synthesize([features])[0].wave for features in batch]
    pairs = [audio for k in range(0, len(batch), 2) for audio in model.synthesize(batch[k : k + 2])]
    ways = [
        model.synthesize(batch),
        model.synthesize(batch[::-1])[::-1],
        pairs,
        [model.synthesize_in_chunks(features) for features in batch],
    ]
    worst = 0.0
    for way in ways:
        assert [len(audio.wave) for audio in way] == [len(wave) for wave in alone]
        worst = max(worst, *(difference(a.wave, b) for a, b in zip(way, alone, strict=True)))
    return worst


def difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Largest difference of two waveforms of one length."""
    assert a.shape == b.shape
    return float(np.abs(a.astype(np.float64) - b).max())
