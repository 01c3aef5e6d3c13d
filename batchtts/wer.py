"""How far is what was heard from what should have been said?

A speech recogniser writes "7,476", "8 o'clock" and "4th" where a text has words, or the other way
round. Both sides are brought to one form first: lower case, no punctuation, and English numbers as
bare digits, runs of them glued together. Digits and not words, because one digit string has many
readings ("1984", "3 1 6 7", "10:30") and all of them fall together only on the side of the digits.
"""

import re
import unicodedata
from dataclasses import dataclass

from batchtts.errors import MissingExtraError

UNSPACED = ("ko", "ja", "zh")
"""Languages judged by characters alone: their spaces say nothing, or are not there."""

TEENS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
ONES = {word: value for value, word in enumerate(TEENS.split())}
DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS = {word: 20 + 10 * place for place, word in enumerate(DECADES.split())}
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
ORDINALS = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fifth": "five",
    "eighth": "eight",
    "ninth": "nine",
    "twelfth": "twelve",
}
"""The irregular ones; the others lose "th" or "ieth"."""

WRITTEN = (
    (r"(\d),(?=\d{3}\b)", r"\1"),
    (r"[$€£]([\d.]+) (hundred|thousand|million|billion)\b", r"\1 \2 money"),
    (r"[$€£](\d+)\.(\d\d)\b", r"\1 money and \2 cents "),
    (r"[$€£](\d+)", r"\1 money "),
    (r"\b(?:dollars?|euros?|pounds?)\b", "money"),
    (r"\b(\d{1,2}):00\b", r"\1"),
    (r"\bo['’]? ?clock\b", " "),
    (r"(\d)(?:st|nd|rd|th)\b", r"\1"),
    (r"\b([ap])\.?m\b\.?", r"\1m"),
    (r"(\d)([ap]m)\b", r"\1 \2"),
    (r"%|\bper cent\b", " percent "),
    (r"&", " and "),
    (r"\bdr\.? (?=\w)", "doctor "),
    (r"\bmr\.? (?=\w)", "mister "),
    (r"\bmrs\.? (?=\w)", "missis "),
    (r"['’]", ""),
)
"""English spellings that are one thing to the ear: pattern -> its common form, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Distance of what was heard from the text, both normalised."""

    wer: float
    """Word errors per word of the text; equal to cer for Korean, Japanese and Chinese."""
    cer: float
    """Character errors per character of the text, spaces left out."""
    errors: int
    """Characters inserted, deleted or replaced."""


def normalize(text: str, lang: str = "en") -> list[str]:
    """The words of a text as the ear has them; characters for Korean, Japanese and Chinese.

    Args:
        text: what was written or heard.
        lang: language tag; only the part before "-" counts. Empty is taken as English.
    """
    lang = lang.partition("-")[0].lower() or "en"
    text = unicodedata.normalize("NFKC", text).lower()
    if lang == "en":
        for pattern, common in WRITTEN:
            text = re.sub(pattern, common, text)
    words = "".join(c if unicodedata.category(c)[0] in "LNM" else " " for c in text).split()
    if lang in UNSPACED:
        return list("".join(words))
    return _glue_numbers(words) if lang == "en" else words


def compact(text: str, lang: str = "en") -> str:
    """The normalised text as one string without spaces: what cer compares."""
    return "".join(normalize(text, lang))


def score(text: str, heard: str, lang: str = "en") -> Score:
    """Compare what was heard with the text that should have been said.

    Raises:
        MissingExtraError: rapidfuzz is not installed.
    """
    said, got = normalize(text, lang), normalize(heard, lang)
    errors = distance("".join(said), "".join(got))
    return Score(
        wer=distance(said, got) / max(1, len(said)),
        cer=errors / max(1, len("".join(said))),
        errors=errors,
    )


def distance(one: str | list[str], other: str | list[str]) -> int:
    """Least number of items to insert, delete or replace between two sequences.

    Raises:
        MissingExtraError: rapidfuzz is not installed.
    """
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        feature = "comparing what was heard with the text"
        raise MissingExtraError(feature, "asr") from error
    return Levenshtein.distance(one, other)


def _glue_numbers(words: list[str]) -> list[str]:
    """Turn number words into digits and join neighbouring digits: "three one" -> ["31"]."""
    text = " ".join(_as_digits(words))
    text = re.sub(r"(?<=\d) point (?=\d)", " ", text)  # "9.30" is what many hear for 9:30
    text = re.sub(r"\b\d+(?: \d+)+s?\b", lambda run: run[0].replace(" ", ""), text)
    return re.sub(r"\bmoney and (\d+)(?: cents?| pence)\b", r"money \1", text).split()


def _as_digits(words: list[str]) -> list[str]:
    """Replace each spoken number by its digits: ["two", "hundred", "five"] -> ["205"]."""
    result: list[str] = []
    at = 0
    while at < len(words):
        value, end = _read_number(words, at)
        result.append(_plain(words, at) if value is None else str(value))
        at = max(end, at + 1)
    return result


def _plain(words: list[str], at: int) -> str:
    """A word that begins no number; "oh" after a number is a zero, "eighties" is "80s"."""
    word = words[at]
    before = words[at - 1] if at else ""
    if word in ("o", "oh") and (before in ONES or before in TENS or before.isdecimal()):
        return "0"
    tens = word.removesuffix("ies") + "y"
    return f"{TENS[tens]}s" if tens in TENS and word != tens else word


def _read_number(words: list[str], at: int) -> tuple[int | None, int]:
    """Read one number below a trillion: groups of up to 999 with ever smaller scales.

    Returns:
        the number, None where none begins here, and the place of the word after it.
    """
    total: int | None = None
    scale = 10**12
    while True:
        group, end = _read_group(words, at, inside=total is not None)
        unit = SCALES.get(_cardinal(_word(words, end)), 1)
        if group is None or unit == 100 or unit >= scale:
            return total, at
        total = (total or 0) + group * unit
        if unit == 1:
            return total, end
        at, scale = end + 1, unit


def _read_group(words: list[str], at: int, *, inside: bool) -> tuple[int | None, int]:
    """Read a group such as "two hundred and five"; `inside` a number it may begin with "and"."""
    first, second = _cardinal(_word(words, at)), _cardinal(_word(words, at + 1))
    if first.isdecimal() and second in SCALES:  # 5 million
        return int(first), at + 1
    if first == "a" and second in SCALES and not inside:
        return (1, at + 1) if second != "hundred" else _with_hundreds(words, at + 2, 100)
    if inside and first == "and":
        value, end = _read_below_hundred(words, at + 1)
        return (value, end) if value is not None else (None, at)
    value, end = _read_below_hundred(words, at)
    if value and _cardinal(_word(words, end)) == "hundred":
        return _with_hundreds(words, end + 1, value * 100)
    return value, end


def _with_hundreds(words: list[str], at: int, hundreds: int) -> tuple[int, int]:
    """Add what follows the hundreds: "and five", "five" or nothing."""
    skip = 1 if _word(words, at) == "and" else 0
    value, end = _read_below_hundred(words, at + skip)
    return (hundreds + value, end) if value else (hundreds, at)


def _read_below_hundred(words: list[str], at: int) -> tuple[int | None, int]:
    """Read 0 to 99 in words."""
    word, after = _cardinal(_word(words, at)), _cardinal(_word(words, at + 1))
    if word in ONES:
        return ONES[word], at + 1
    if word not in TENS:
        return None, at
    if 0 < ONES.get(after, 0) < 10:
        return TENS[word] + ONES[after], at + 2
    return TENS[word], at + 1


def _word(words: list[str], at: int) -> str:
    return words[at] if at < len(words) else ""


def _cardinal(word: str) -> str:
    """The cardinal of an ordinal word: "fourth" -> "four"; other words stay."""
    if word in ORDINALS:
        return ORDINALS[word]
    for ending, common in (("ieth", "y"), ("th", "")):
        stem = word.removesuffix(ending) + common
        if word.endswith(ending) and (stem in ONES or stem in TENS or stem in SCALES):
            return stem
    return word
