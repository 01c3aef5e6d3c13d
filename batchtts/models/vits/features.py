"""What a VITS front end makes of a text; no torch here, front ends run without it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from batchtts.errors import VoiceError
from batchtts.models.base import Features, Item, TooLongError

MAX_SIZE = 2000
"""Ids of one utterance, some 70 s; attention grows with the square of a sentence's ids."""

_FIXED_SECONDS = 0.5
"""Of each sentence: what does not grow with its ids."""


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


def make_features(
    item: Item, speech: Speech, seconds_per_id: float, notes: Mapping[str, object]
) -> Features:
    """Lay the item's speed and options over the voice's own speech, and wrap it for the core.

    Raises:
        TooLongError: more ids than `MAX_SIZE`.
        VoiceError: an option has a wrong value.
    """
    size = sum(map(len, speech.sentences))
    if size > MAX_SIZE:
        raise TooLongError(MAX_SIZE, size)
    options = item.options
    chosen = replace(
        speech,
        length_scale=_number(options, "length_scale", speech.length_scale) / item.speed,
        noise_scale=_number(options, "noise_scale", speech.noise_scale),
        noise_w=_number(options, "noise_w", speech.noise_w),
        pause=_number(options, "sentence_silence", speech.pause),
    )
    seconds = sum(
        chosen.length_scale * (_FIXED_SECONDS + seconds_per_id * len(ids))
        for ids in chosen.sentences
    )
    pauses = chosen.pause * (len(chosen.sentences) - 1)
    return Features(
        size=size, seconds=seconds + pauses, seed=item.seed, data=chosen, notes=dict(notes)
    )


def _number(options: Mapping[str, Any], name: str, default: float) -> float:
    """An option that must be a number from 0 to 10."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10:
        message = f"options: {name}: {value!r} is not a number from 0 to 10"
        raise VoiceError(message)
    return float(value)


def dummy_features(size: int, num_symbols: int) -> Features:
    """Features of this size, for warm-up and the probe."""
    sentence = tuple(place % num_symbols for place in range(size))
    speech = Speech(sentences=(sentence,), length_scale=1.0, noise_scale=0.667, noise_w=0.8)
    return make_features(Item(text="", voice=""), speech, seconds_per_id=0.03, notes={})
