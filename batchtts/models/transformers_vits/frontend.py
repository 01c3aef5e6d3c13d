"""Text -> ids, one for each character, as the checkpoint's tokenizer does it but losing nothing."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from batchtts.errors import VoiceError
from batchtts.models.base import Features, Item, UnspeakableError
from batchtts.models.transformers_vits.checkpoint import Checkpoint
from batchtts.models.vits.features import Speech, make_features

SECONDS_PER_ID = 0.035
"""One character and one blank in 70 ms."""


@dataclass(frozen=True, slots=True)
class CharacterFrontend:
    """See `batchtts.models.base.Frontend`: one id per character, blanks between."""

    checkpoint: Checkpoint

    def prepare(self, item: Item) -> Features:
        """See `batchtts.models.base.Frontend`."""
        config = self.checkpoint.config
        ids = self._ids(item.text)
        speech = Speech(
            sentences=(ids,),
            length_scale=1.0 / config.get("speaking_rate", 1.0),
            noise_scale=config.get("noise_scale", 0.667),
            noise_w=config.get("noise_scale_duration", 0.8),
            speaker=_speaker(self.checkpoint, item.options.get("speaker", 0)),
        )
        return make_features(item, speech, SECONDS_PER_ID, {})

    def _ids(self, text: str) -> tuple[int, ...]:
        """Ids of a text.

        Raises:
            UnspeakableError: characters that mean something and are not in the vocabulary; marks
                and spaces that are not in it are no loss.
        """
        vocabulary = self.checkpoint.vocabulary
        if self.checkpoint.tokenizer.get("language") == "ron":
            text = text.replace("ț", "ţ")  # the vocabulary has the cedilla for the comma
        if self.checkpoint.is_romanised and not text.isascii():
            text = _romaniser()(text.lower())
        symbols = [
            symbol
            for character in unicodedata.normalize("NFC", text)
            for symbol in _known(character, vocabulary)
        ]
        refused = [
            symbol
            for symbol in dict.fromkeys(symbols)
            if symbol not in vocabulary and unicodedata.category(symbol)[0] in "LMNS"
        ]
        if refused:
            raise UnspeakableError(" ".join(refused), "characters not in the vocabulary")
        known = "".join(symbol for symbol in symbols if symbol in vocabulary).strip()
        if not any(symbol.isalnum() for symbol in known):
            raise UnspeakableError(text, "nothing to speak")
        ids = [vocabulary[symbol] for symbol in known]
        if not self.checkpoint.tokenizer.get("add_blank", True):
            return tuple(ids)
        blanked = [0] * (2 * len(ids) + 1)
        blanked[1::2] = ids
        return tuple(blanked)


def _known(character: str, vocabulary: Mapping[str, int]) -> str:
    """The character as the vocabulary has it: itself, small, straight, or in its parts."""
    parts = unicodedata.normalize("NFD", character)
    for form in (character, character.lower(), "'" if character == "’" else "", parts):
        if form and all(symbol in vocabulary for symbol in form):
            return form
    return character


@cache
def _romaniser() -> Callable[[str], str]:
    import uroman

    convert: Callable[[str], str] = uroman.Uroman().romanize_string
    return convert


def _speaker(checkpoint: Checkpoint, speaker: object) -> int:
    """The row of a speaker, who is numbered."""
    number = checkpoint.config.get("num_speakers", 1)
    if re.fullmatch(r"\d+", str(speaker)) and int(str(speaker)) < max(1, number):
        return int(str(speaker))
    message = f"{checkpoint.name} has no speaker {speaker!r}; there are: 0 to {max(1, number) - 1}"
    raise VoiceError(message)
