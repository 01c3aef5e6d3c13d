"""Which characters the voice can say, and small mends where its front end would lose some.

hibari's own front end skips what it has no reading for: an emoji, another script, the sign in
"5 €". Here every character is either known to be read (or to be silent by nature, as a bracket
is), rewritten so that it is read, or named as one that cannot be said.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

CURRENCIES = {
    "$": "dollars",
    "£": "pounds",
    "€": "euros",
    "¥": "yen",
    "₹": "rupees",
    "₩": "won",
}
SILENT = "“”‘’‚„‹›«»´…—–‒―¿¡·"
"""Quotes, dashes and the like beyond ASCII: they shape the reading but are no words."""
HYPHENS = "\u2010\u2011\u2212"
"""Hyphen, non-breaking hyphen and minus sign, all read as "-"."""
LONGEST_NUMBER = 36
"""Digits that hibari can read as one number; more are read one by one."""

_PHONEMES = re.compile(r"(\]\(/[^()]*/\))")
_SIGN = "[" + "".join(CURRENCIES) + "]"
_NUMBER = r"\d+(?:[.,]\d+)*"
_MENDS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"({_SIGN}{_NUMBER})\s?[-–]\s?(?={_SIGN}\d)"), r"\1 to "),  # $5-$10
    (re.compile(rf"(?<!{_SIGN})\b({_NUMBER})\s?({_SIGN})(?!\d)"), r"\2\1"),  # 5 €
    (re.compile(rf"({_SIGN})(?!\s?\.?\d)"), lambda m: f" {CURRENCIES[m[1]]} "),  # Price in $
    (re.compile(r">(?=\s?\d)"), " greater than "),  # >5
    (re.compile(r"\](?=\((?!/[^()]*/\)))"), "] "),  # [a](b) would lose b; [a](/b/) is a reading
    (re.compile(rf"\d(?:,?\d){{{LONGEST_NUMBER},}}"), lambda m: " ".join(m[0].replace(",", ""))),
]


def hibari_assets() -> Path:
    """Folder of hibari's data files, found without importing the package."""
    spec = find_spec("hibari")
    if spec is None or spec.origin is None:
        message = "the package hibari-tts is not installed"
        raise ModuleNotFoundError(message)
    return Path(spec.origin).parent / "assets"


def unspeakable(text: str) -> str:
    """The characters that cannot be said, in order of appearance, each once."""
    plain, readings = _parts(text)
    unknown = (char for char in plain if reading(char) is None)
    no_phoneme = (char for char in readings if char not in vocabulary())
    return "".join(dict.fromkeys([*unknown, *no_phoneme]))


def mend(text: str) -> str:
    """The text as hibari's front end gets it, so that nothing in it is lost."""
    pieces = _PHONEMES.split(text)
    pieces[::2] = ["".join(reading(char) or "" for char in piece) for piece in pieces[::2]]
    text = "".join(pieces)
    for pattern, replacement in _MENDS:
        text = pattern.sub(replacement, text)
    return text


def _parts(text: str) -> tuple[str, str]:
    """The text proper, and all phonemes given in it as in "[Kokoro](/kˈOkəɹO/)"."""
    pieces = _PHONEMES.split(text)
    return "".join(pieces[::2]), "".join(piece[3:-2] for piece in pieces[1::2])


@cache
def reading(char: str) -> str | None:
    """What stands for a character: itself, a spelling of it, nothing, or None if unspeakable."""
    if char in _known():
        return char
    category = unicodedata.category(char)
    if char in HYPHENS:
        return "-"
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category in ("Zs", "Zl", "Zp"):
        return " "
    if category == "Cf" or "\ufe00" <= char <= "\ufe0f" or "\u0300" <= char <= "\u036f":
        return ""  # invisible, or an accent on a letter that is read without it
    return _spelling(char)


def _spelling(char: str) -> str | None:
    """A compatible spelling in known characters: ⅓ is 1/3, ễ is e."""
    plain = unicodedata.normalize("NFKD", char).replace("\u2044", "/")
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    if not plain or not set(plain) <= _known():
        return None
    return f" {plain} " if "/" in plain else plain


@cache
def vocabulary() -> dict[str, int]:
    """Phoneme symbol -> id of the network."""
    symbols: dict[str, int] = json.loads((hibari_assets() / "vocab.json").read_text("utf-8"))
    return symbols


@cache
def _known() -> frozenset[str]:
    """Characters that hibari reads, or that are silent by nature."""
    assets = hibari_assets()
    letters = json.loads((assets / "oov.json").read_text("utf-8"))["in"]
    symbols = json.loads((assets / "normalize.json").read_text("utf-8"))["symbols"]
    latin = (c for c in letters if unicodedata.name(c).startswith("LATIN "))
    ascii_text = map(chr, range(0x20, 0x7F))
    return frozenset([*ascii_text, "\n", "\t", *latin, *symbols, *CURRENCIES, *SILENT])
