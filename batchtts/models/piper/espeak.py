"""espeak-ng, as built into piper-tts (GPL-3.0-or-later): the only module that imports it.

The C library has one voice at a time and leaks a little each time it is set, so one lock guards
it and the voice is set only when it changes.
"""

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from batchtts.errors import MissingExtraError, VoiceError

if TYPE_CHECKING:
    from types import ModuleType

Clause = tuple[str, str, bool]
"""IPA with "(lang)" flags, the mark that ends the clause or nothing, and: does a sentence end?"""

_lock = threading.Lock()
_current = ""
"""The voice that is set."""


@functools.cache
def _bridge() -> "ModuleType":
    try:
        import piper
        from piper import espeakbridge
    except ImportError as error:
        raise MissingExtraError("Piper voices that read by espeak-ng", "piper") from error
    espeakbridge.initialize(str(Path(piper.__file__).parent / "espeak-ng-data"))
    return espeakbridge


@functools.cache
def _diacritizer() -> Callable[[str], str]:
    from piper.tashkeel import TashkeelDiacritizer

    return functools.partial(TashkeelDiacritizer(), taskeen_threshold=0.8)


def read(voice: str, text: str) -> list[Clause]:
    """Read a text aloud on paper.

    Raises:
        MissingExtraError: piper-tts is not installed.
        VoiceError: espeak-ng has no such voice.
    """
    global _current  # noqa: PLW0603  it mirrors the state of a C library, which is global too
    with _lock:
        bridge = _bridge()
        if voice == "ar":
            text = _diacritizer()(text)  # Arabic is written without most vowels
        if voice != _current:
            try:
                bridge.set_voice(voice)
            except RuntimeError as error:
                message = f"espeak-ng has no voice {voice!r}, which the voice's .json asks for"
                raise VoiceError(message) from error
            _current = voice
        clauses: list[Clause] = bridge.get_phonemes(text)
    return clauses


@functools.cache
def is_silent(voice: str, character: str) -> bool:
    """Whether espeak-ng drops this character without a sound."""
    return not any(phonemes for phonemes, _, _ in read(voice, character))
