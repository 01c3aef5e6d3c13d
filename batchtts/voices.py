"""The voices of a run: found by name, described once, nothing loaded."""

from collections.abc import Callable
from functools import cache

from batchtts import models
from batchtts.config import Config
from batchtts.data import Row, Utterance
from batchtts.errors import InputError, VoiceError
from batchtts.plan import Voice


@cache
def voice(name: str) -> Voice:
    """A voice under its full name "adapter:name".

    Raises:
        VoiceError: there is none; the message lists those there are.
    """
    family, short = models.split(name)
    return Voice(name=f"{family}:{short}", info=models.adapter(family).voice(short))


def expected_seconds(utterance: Utterance) -> float:
    """Seconds of audio that an utterance should last, by its voice's pace."""
    info = voice(utterance.voice).info
    return len(utterance.text) * info.seconds_per_char / utterance.speed


def voice_finder(source: str, config: Config) -> Callable[[Row], Voice]:
    """Describes the voice of a row; a row that names none has the config's."""

    def find(row: Row) -> Voice:
        try:
            return voice(row.voice or config.voice)
        except VoiceError as error:
            if row.voice is None:
                raise
            message = f"{source}:{row.line}: {error}"
            raise InputError(message) from error

    return find
