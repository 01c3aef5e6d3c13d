"""Words that are to be said in another way than they are written."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

# Scripts without spaces between words: Thai to Myanmar, Khmer, kana, Han.
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
_START = re.compile(rf"(?<!\w)\S|[{_UNSPACED}]")
_OPEN_END = re.compile(f"[{_UNSPACED}\uac00-\ud7a3]")
"""A word that ends so may go on: without a space, or with a Korean particle."""


@dataclass(frozen=True, slots=True)
class _Index:
    lexicon: Mapping[str, str]
    """Held, so that its id() is not used again."""
    exact: dict[str, str]
    """Words with capitals."""
    any_case: dict[str, str]
    lengths: dict[str, list[int]]
    """First character in lower case -> lengths of the words that begin with it, the longest first."""


_indexes: dict[int, _Index] = {}
"""One a lexicon, by its id(): a run has one, and asks it for every text."""


def apply_lexicon(text: str, lexicon: Mapping[str, str]) -> tuple[str, int]:
    """Respell the words of a lexicon, the longest first.

    A word in lower case stands for any case, one with capitals for itself alone. It must stand
    alone, not inside of another word; but where a script has no spaces it may stand anywhere, and a
    Korean word may be followed by its particle.

    Returns:
        The text, and how many words were respelled.
    """
    if not lexicon:
        return text, 0
    index = _indexes.get(id(lexicon)) or _indexes.setdefault(id(lexicon), _make_index(lexicon))
    lowered = _lower(text)
    parts: list[str] = []
    done = 0
    for start in (match.start() for match in _START.finditer(text)):
        if start < done:
            continue
        for length in index.lengths.get(lowered[start], ()):
            end = start + length
            said = index.exact.get(text[start:end], index.any_case.get(lowered[start:end]))
            if said is not None and _ends_word(text, end):
                parts += text[done:start], said
                done = end
                break
    return "".join(parts) + text[done:], len(parts) // 2


def _make_index(lexicon: Mapping[str, str]) -> _Index:
    words = {unicodedata.normalize("NFC", word): said for word, said in lexicon.items()}
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for word in words:
        lengths[_lower(word)[0]].add(len(word))
    return _Index(
        lexicon=lexicon,
        exact={word: said for word, said in words.items() if word != _lower(word)},
        any_case={word: said for word, said in words.items() if word == _lower(word)},
        lengths={first: sorted(found, reverse=True) for first, found in lengths.items()},
    )


def _lower(text: str) -> str:
    """The text in lower case, with as many characters as before."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _ends_word(text: str, end: int) -> bool:
    if end >= len(text):
        return end == len(text)
    if _OPEN_END.match(text[end - 1]):
        return True
    return not (text[end] == "_" or unicodedata.category(text[end])[0] in "LMN")
