"""What the front end hands to the model: the ids of each sentence of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from batchtts.models.base import Features

MAX_SIZE = 4096
"""Ids of a text: four minutes of audio, ten times the reference's longest sentence."""
MAX_PHONEMES = 400
"""Ids of a dummy's sentence; the reference splits longer ones where it can."""
MIN_IDS = 3
"""Ids of the shortest sentence: one phoneme between two boundaries."""
SECONDS_PER_SENTENCE = 0.58
SECONDS_PER_ID = 0.0532
"""Fitted on 138 texts: within 13 percent of the truth for each of them."""
DUMMY_PATTERN = bytes([50, 83, 54, 156, 31, 16, 81, 156, 86, 123, 3, 16, 65, 102, 62, 16])
"""The ids of a phrase, repeated to any length for warm-up and probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The data of `Features`: sentences spoken one by one and joined without a pause."""

    sentences: tuple[bytes, ...]
    """Phoneme ids of each sentence, one byte an id, with the boundary id 0 at both ends."""
    speed: float
    """2.0 is twice as fast."""


def make_features(
    sentences: Sequence[bytes], speed: float, seed: int, dropped: int = 0
) -> Features:
    """Features of a text whose sentences have these ids; `dropped` counts unknown symbols."""
    size = sum(map(len, sentences))
    seconds = (SECONDS_PER_SENTENCE * len(sentences) + SECONDS_PER_ID * size) / speed
    return Features(
        size=size,
        seconds=seconds,
        seed=seed,
        data=Spoken(sentences=tuple(sentences), speed=speed),
        notes={"dropped_symbols": dropped} if dropped else {},
    )


def make_dummy(size: int) -> Features:
    """Features of exactly this size that sound like speech.

    Raises:
        ValueError: no sentence is that short.
    """
    if size < MIN_IDS:
        message = f"a sentence has at least {MIN_IDS} ids, not {size}"
        raise ValueError(message)
    count = -(-size // MAX_PHONEMES)
    lengths = [size // count + (i < size % count) for i in range(count)]
    pattern = DUMMY_PATTERN * (MAX_PHONEMES // len(DUMMY_PATTERN))
    return make_features([bytes([0, *pattern[: n - 2], 0]) for n in lengths], speed=1.0, seed=0)
