"""What a VITS front end makes of a text; no torch here, front ends run without it."""

from dataclasses import dataclass

from batchtts.models.base import Features, Item, TooLongError

MAX_SIZE = 2000
"""Ids of one utterance, some 70 s; attention grows with the square of a sentence's ids."""

FIXED_SECONDS = 0.5
SECONDS_PER_ID = 0.022
"""Measured on an English Piper voice; other voices differ by a third, which order and checks bear."""


def precisions(device: str) -> tuple[str, ...]:
    """Precisions that are safe on this device; only the decoder is ever below fp32.

    Durations are rounded up to whole frames: text and durations in less than fp32 would change
    the length of an utterance with its neighbours. Against fp32 bf16 leaves 40 dB, and is twice
    as fast on a CPU that has it (AMX), but many times slower on one that has not.
    """
    return ("tf32", "fp32", "bf16") if device.startswith("cuda") else ("fp32", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The data of `Features`: one text as sentences of ids."""

    sentences: tuple[tuple[int, ...], ...]
    """Symbol ids, blanks included; each sentence is spoken by itself, then joined."""
    length_scale: float
    """Duration factor; 2.0 is half as fast."""
    noise_scale: float
    """Spread of the sound."""
    noise_w: float
    """Spread of the durations."""
    speaker: int = 0
    """Row of the speaker table; unused by voices of one speaker."""
    pause: float = 0.0
    """Seconds of silence between two sentences."""


def make_features(item: Item, speech: Speech, notes: dict[str, object]) -> Features:
    """Wrap it for the core.

    Raises:
        TooLongError: more ids than `MAX_SIZE`.
    """
    size = sum(map(len, speech.sentences))
    if size > MAX_SIZE:
        raise TooLongError(MAX_SIZE, size)
    return Features(
        size=size, seconds=expected_seconds(speech), seed=item.seed, data=speech, notes=notes
    )


def expected_seconds(speech: Speech) -> float:
    """Seconds of audio to expect."""
    return sum(
        speech.length_scale * (FIXED_SECONDS + SECONDS_PER_ID * len(ids)) + speech.pause
        for ids in speech.sentences
    )


def dummy_features(size: int, num_symbols: int) -> Features:
    """Features of this size, for warm-up and the probe."""
    sentence = tuple(place % num_symbols for place in range(size))
    speech = Speech(sentences=(sentence,), length_scale=1.0, noise_scale=0.667, noise_w=0.8)
    return Features(size=size, seconds=expected_seconds(speech), seed=0, data=speech)
