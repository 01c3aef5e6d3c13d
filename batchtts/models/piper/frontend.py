"""Text -> sentences of symbol ids, as the voice was trained on them."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from batchtts.errors import VoiceError
from batchtts.models.base import Features, Item, UnspeakableError
from batchtts.models.piper import espeak
from batchtts.models.piper.scripts import find_unspeakable
from batchtts.models.piper.voice import BLANK, END, START, PiperVoice, speaker_id
from batchtts.models.vits.features import Speech, make_features

SECONDS_PER_ID = 0.022
"""Measured on an English voice; others differ by a third, which order and checks bear."""

_RAW = re.compile(r"(\[\[.*?\]\])")
"""Phonemes written by the user: [[ həlˈoʊ ]]."""
_FLAG = re.compile(r"\([^)]+\)")
"""Where espeak-ng changes the language: "(fr)"."""

Sentence = list[str]
"""Symbols, each of one code point or a cluster."""


@dataclass(frozen=True, slots=True)
class PiperFrontend:
    """See `batchtts.models.base.Frontend`."""

    voice: PiperVoice

    def prepare(self, item: Item) -> Features:
        """See `batchtts.models.base.Frontend`."""
        voice, options = self.voice, item.options
        _check_language(voice, item.lang)
        dropped: Counter[str] = Counter()
        sentences = [
            ids for symbols in self._sentences(item.text) if (ids := self._ids(symbols, dropped))
        ]
        if not sentences:
            reason = "the voice has no symbol for any of" if dropped else "nothing to speak"
            raise UnspeakableError(item.text, reason)
        speech = Speech(
            sentences=tuple(sentences),
            length_scale=voice.length_scale,
            noise_scale=voice.noise_scale,
            noise_w=voice.noise_w,
            speaker=speaker_id(voice, options["speaker"])
            if "speaker" in options
            else voice.speaker,
        )
        notes: dict[str, object] = {}
        if dropped:
            notes = {"dropped_symbols": dropped.total(), "unknown_symbols": " ".join(dropped)}
        return make_features(item, speech, SECONDS_PER_ID, notes)

    def _sentences(self, text: str) -> list[Sentence]:
        """Symbols of each sentence.

        Raises:
            UnspeakableError: there are characters that the voice cannot say.
        """
        if self.voice.phoneme_type == "text":
            return [_spelled(self.voice, text)]
        refused = find_unspeakable(self.voice.espeak_voice, _RAW.sub("", text))
        if refused:
            raise UnspeakableError(" ".join(refused))
        return _read_aloud(self.voice, text)

    def _ids(self, symbols: Sentence, dropped: Counter[str]) -> tuple[int, ...]:
        """Ids with blanks between; none when the voice knows no symbol of the sentence."""
        table = self.voice.symbols
        known = [symbol for symbol in symbols if symbol in table]
        dropped.update(symbol for symbol in symbols if symbol not in table)
        if not any(symbol.strip() for symbol in known):
            return ()
        blank = table[BLANK]
        ids = [*table[START], *blank]
        for symbol in known:
            ids += [*table[symbol], *blank]
        return (*ids, *table[END])


def _check_language(voice: PiperVoice, wanted: str) -> None:
    """A row may name the voice's language, with any region, and no other."""
    own = voice.language.partition("-")[0].lower()
    if wanted and re.split("[-_]", wanted.lower())[0] != own:
        message = (
            f"the voice {voice.path.stem} speaks {voice.language}, the row asks for {wanted!r}"
        )
        raise VoiceError(message)


def _spelled(voice: PiperVoice, text: str) -> Sentence:
    """One symbol per code point; a capital that the voice does not know is read as a small letter.

    Raises:
        UnspeakableError: a letter, digit or sign that the voice does not know.
    """
    symbols = [
        symbol if symbol in voice.symbols or symbol.lower() not in voice.symbols else symbol.lower()
        for symbol in unicodedata.normalize("NFD", text)
    ]
    refused = [
        symbol
        for symbol in dict.fromkeys(symbols)
        if symbol not in voice.symbols and unicodedata.category(symbol)[0] in "LNS"
    ]
    if refused:
        raise UnspeakableError(" ".join(refused))
    return symbols if any(unicodedata.category(s)[0] in "LNS" for s in symbols) else []


def _read_aloud(voice: PiperVoice, text: str) -> list[Sentence]:
    """Symbols as espeak-ng reads the text, raw phonemes between [[ and ]] as they are."""
    parts = _RAW.split(text)
    sentences: list[Sentence] = []
    for number, part in enumerate(parts):
        if number % 2:  # raw: goes on with the sentence before it
            if not sentences:
                sentences.append([])
            before = " " if parts[number - 1].endswith(" ") else ""
            after = " " if parts[number + 1].startswith(" ") else ""
            sentences[-1] += before + part[2:-2].strip() + after
            continue
        read = _from_clauses(espeak.read(voice.espeak_voice, part), voice.clusters)
        if number and read:
            sentences[-1] += read.pop(0)
        sentences += read
    return sentences


def _from_clauses(
    clauses: Sequence[espeak.Clause], clusters: frozenset[tuple[str, ...]]
) -> list[Sentence]:
    """Join clauses to sentences; the marks that end a clause are symbols too."""
    sentences: list[Sentence] = [[]]
    for phonemes, mark, ends_sentence in clauses:
        spoken = _FLAG.sub("", phonemes) + mark + (" " if mark and mark in ",:;" else "")
        sentences[-1] += unicodedata.normalize("NFD", spoken)
        if ends_sentence:
            sentences.append([])
    if not sentences[-1]:
        sentences.pop()
    return [_clustered(sentence, clusters) for sentence in sentences] if clusters else sentences


def _clustered(symbols: Sentence, clusters: frozenset[tuple[str, ...]]) -> Sentence:
    """Merge runs of symbols that the voice knows as one, the longest first."""
    longest = max(map(len, clusters))
    merged: Sentence = []
    place = 0
    while place < len(symbols):
        sizes = range(min(longest, len(symbols) - place), 1, -1)
        size = next((n for n in sizes if tuple(symbols[place : place + n]) in clusters), 1)
        merged.append("".join(symbols[place : place + size]))
        place += size
    return merged
