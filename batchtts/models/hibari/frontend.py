"""Text -> phoneme ids, by hibari's own rules and dictionaries (no espeak, no torch)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

from batchtts.models.base import Features, Item, TooLongError, UnspeakableError
from batchtts.models.hibari.features import MAX_SIZE, make_features
from batchtts.models.hibari.reading import hibari_assets, mend, unspeakable, vocabulary

LONGEST_WORD = 24
"""Letters that hibari's network for unknown words takes in; it would lose the rest."""

_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class HibariFrontend:
    """Front end of a voice: a few bytes; the dictionaries are loaded once per process, when used."""

    british: bool
    """British dictionary and rules, otherwise American."""

    def prepare(self, item: Item) -> Features:
        """Phoneme ids of each sentence.

        Raises:
            UnspeakableError: a character has no reading, or nothing in the text is spoken.
            TooLongError: the ids are more than the model takes at once.
        """
        foreign = unspeakable(item.text)
        if foreign:
            raise UnspeakableError(foreign)
        with _loading:
            phonemize = _phonemizer(self.british)
        sentences = phonemize(mend(item.text))
        if not any(char.isalpha() for phonemes in sentences for char in phonemes):
            raise UnspeakableError(item.text, reason="nothing to speak")
        return _features(sentences, item)


def _features(sentences: list[str], item: Item) -> Features:
    ids = vocabulary()
    known = [bytes([0, *(ids[c] for c in s if c in ids), 0]) for s in sentences]
    size = sum(map(len, known))
    if size > MAX_SIZE:
        raise TooLongError(MAX_SIZE, size)
    dropped = sum(map(len, sentences)) + 2 * len(sentences) - size
    return make_features(known, item.speed, item.seed, dropped)


@cache
def _phonemizer(british: bool) -> Callable[[str], list[str]]:
    """A function from a text to the phonemes of each of its sentences; takes about a second."""
    from hibari import Hibari
    from hibari.g2p import G2P

    g2p = G2P(oov=_UnknownWords(british), british=british)
    # Hibari's own splitting without its constructor, which would load the voice as well.
    hibari = SimpleNamespace(g2p=g2p, split_sentences=Hibari.split_sentences)
    return lambda text: Hibari.phonemize(hibari, text)


class _UnknownWords:
    """hibari's network for words outside the dictionary, loaded at the first of them."""

    def __init__(self, british: bool) -> None:
        self._file = "oov_gb.onnx" if british else "oov.onnx"

    def __call__(self, word: str) -> str:
        network = _oov(self._file)
        step = -(-len(word) // -(-len(word) // LONGEST_WORD))  # parts of equal length
        parts = [word[i : i + step] for i in range(0, len(word), step)]
        return "".join(network(part) or "" for part in parts)


@cache
def _oov(file: str) -> Callable[[str], str | None]:
    from hibari.g2p.oov import OOV

    network: Callable[[str], str | None] = OOV(str(hibari_assets() / file))
    return network
