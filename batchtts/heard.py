"""Does each file say its own text? Judges what was heard against all texts of the folder."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from batchtts.wer import compact, distance, normalize

Kind = Literal["swapped", "cut", "repeated", "other words"]
"""How a file fails to say its text; swapped: it says another row's."""

SLACK_ERRORS = 2.0
SLACK_SHARE = 0.2
"""Character errors that a recogniser may make by itself: so many, and this share of the text."""
CUT_CHARS = 4
"""A missing beginning or end of fewer characters may be misheard."""
DOUBLED_CHARS = 4
"""A doubled word of fewer characters may be misheard."""
SEARCH_FROM = 3
"""Character errors from which every text is compared; with fewer, only an exact fit counts."""
SURE_ERRORS = 4
"""Another row's text that fits better by so many characters, and by SURE_SHARE, is what it says."""
SURE_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """One file and what was heard in it."""

    text: str
    """What it should say."""
    heard: str
    lang: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why a file does not say its text."""

    kind: Kind
    detail: str


@dataclass(slots=True)
class _Fit:
    """How well what was heard fits its own text, and which other one it fits best."""

    said: str
    """Own text, as one string."""
    got: str
    """What was heard, as one string."""
    errors: int
    other: str = ""
    """Id of the row whose text fits better; empty when none does."""
    other_errors: int = 0

    def allowed(self) -> float:
        return SLACK_ERRORS + SLACK_SHARE * len(self.said)

    def gain(self) -> int:
        return self.errors - self.other_errors if self.other else 0


@dataclass(slots=True)
class Judge:
    """Knows all texts of a folder."""

    texts: Mapping[str, tuple[str, str]]
    """Id -> (text, language) of every row, heard or not."""
    _owner: dict[str, str] = field(init=False)
    """Text as one string -> id of the first row that has it."""

    def __post_init__(self) -> None:
        self._owner = {}
        for id, (text, lang) in self.texts.items():
            self._owner.setdefault(compact(text, lang), id)

    def judge(self, hearings: Mapping[str, Hearing]) -> dict[str, Finding]:
        """Find the files that do not say their own text, by id."""
        fits = {id: fit for id, hearing in hearings.items() if (fit := self._fit(hearing))}
        found = {}
        for id, fit in fits.items():
            finding = self._finding(fit, hearings[id], fits)
            if finding:
                found[id] = finding
        return found

    def _fit(self, hearing: Hearing) -> _Fit | None:
        """Compare with its own text, then with the others; None when it is right to the letter."""
        said, got = compact(hearing.text, hearing.lang), compact(hearing.heard, hearing.lang)
        fit = _Fit(said, got, distance(said, got))
        if fit.errors == 0:
            return None
        other = got if got in self._owner else ""
        if not other and fit.errors >= SEARCH_FROM and got:
            other = _nearest(got, self._owner.keys(), fit.errors - 1)
        if other:
            fit.other, fit.other_errors = self._owner[other], distance(other, got)
        return fit

    def _finding(self, fit: _Fit, hearing: Hearing, fits: Mapping[str, _Fit]) -> Finding | None:
        # In a swap the other file is wrong too. That makes even one digit sure: two files that are
        # misheard, each as another row's text, are no accident.
        other = fits.get(fit.other)
        if fit.gain() > 0 and other is not None and other.gain() > 0:
            return self._swapped(fit)
        missing = _missing(fit)
        if missing:
            return Finding(kind="cut", detail=missing)
        doubled = _doubled(hearing)
        if doubled and fit.errors >= DOUBLED_CHARS:
            return Finding(kind="repeated", detail=f"{doubled!r} is said again")
        if fit.gain() >= max(SURE_ERRORS, SURE_SHARE * len(fit.said)):
            return self._swapped(fit)
        if fit.errors > fit.allowed():
            share = fit.errors / max(1, len(fit.said))
            return Finding(kind="other words", detail=f"{share:.0%} of the characters are wrong")
        return None

    def _swapped(self, fit: _Fit) -> Finding:
        text = self.texts[fit.other][0]
        return Finding(kind="swapped", detail=f"it says the text of {fit.other}: {text}")


def _nearest(got: str, texts: Collection[str], most: int) -> str:
    """The text with the fewest errors, at most so many; empty when there is none."""
    from rapidfuzz import process
    from rapidfuzz.distance import Levenshtein

    best = process.extractOne(got, texts, scorer=Levenshtein.distance, score_cutoff=most)
    return best[0] if best else ""


def _missing(fit: _Fit) -> str:
    """What of the text was not said at its beginning or end; empty when all was."""
    if not fit.got:
        return "nothing was heard"
    for side in ("end", "beginning"):
        part = _best_part(fit, at_start=side == "end")
        rest = fit.said.removeprefix(part) if side == "end" else fit.said.removesuffix(part)
        errors = distance(part, fit.got)
        fits = errors <= SLACK_ERRORS + SLACK_SHARE / 2 * len(part)
        if fits and len(rest) >= CUT_CHARS and fit.errors - errors >= CUT_CHARS - 1:
            return f"its {side} is missing: {rest[:40]}"
    return ""


def _best_part(fit: _Fit, *, at_start: bool) -> str:
    """The beginning or end of the text that is most like what was heard."""
    lengths = range(max(1, len(fit.got) - 3), len(fit.got) + 4)
    parts = [fit.said[:n] if at_start else fit.said[-n:] for n in lengths]
    return min(parts, key=lambda part: distance(part, fit.got))


def _doubled(hearing: Hearing) -> str:
    """Words that come twice in a row in what was heard and not in the text; the longest."""
    said = " ".join(normalize(hearing.text, hearing.lang))
    words = normalize(hearing.heard, hearing.lang)
    for size in range(len(words) // 2, 0, -1):
        for at in range(len(words) - 2 * size + 1):
            once = words[at : at + size]
            if once != words[at + size : at + 2 * size]:
                continue
            block = " ".join(once)
            if len(block) >= DOUBLED_CHARS and f"{block} {block}" not in said:
                return block
    return ""
