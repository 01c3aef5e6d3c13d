"""Text -> what is spoken: cleaning, the lexicon, and cutting what is too long for a voice."""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache

from batchtts.config import TextConfig
from batchtts.lexicon import apply_lexicon
from batchtts.markup import strip_markup

__all__ = [
    "Cleaned",
    "Piece",
    "apply_lexicon",
    "clean",
    "split",
    "split_finer",
    "strip_unspeakable",
]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text as a voice may be given it."""

    text: str
    """NFC; its only control character is the line break, two of them part paragraphs."""
    notes: dict[str, int] = field(default_factory=dict)
    """How many were taken out or changed: controls, invisible, markup, urls, repeats."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text that is spoken alone."""

    text: str
    pause_ms: int
    """Silence after it; 0 after the last one."""


_BREAKS = {"\r\n": "\n", "\r": "\n", "\v": "\n", "\x85": "\n", "\u2028": "\n"} | dict.fromkeys(
    ("\f", "\u2029"), "\n\n"
)
_BREAK = re.compile("|".join(_BREAKS))
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-_]"
)
_CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Format characters that show nothing: soft hyphen, zero-width and direction marks, fillers, tags.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0001-\U000e007f]"
)
# Arabic, Indic and other scripts spell with joiners, and emoji are joined by them.
_JOINING = (
    "\u0600-\u109f\u1780-\u18af\u1900-\u1cff\ufb50-\ufefc\U00011000-\U0001cfff"
    "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
)
_STRAY_JOINER = re.compile(f"(?<![{_JOINING}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINING}])")
_SPACES = re.compile(r"[^\S\n]+")
_LINE_ENDS = re.compile(r" ?\n ?")
_PARAGRAPH = re.compile(r"\n\n+")
# The apostrophe's twins: closing quote, modifier letter, prime, full width.
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[\u2019\u02bc\u2032\uff07](?=[^\W\d_])")
# ASCII alone: the particle of 주소는https://example.com입니다 is no part of the address.
_URL = re.compile(
    r"(?<![a-z0-9])(?:(?:https?|ftp)://|www\.)[!#-;=?-~]*[#-&*+/-9=@-Z\\_a-z~-]", re.IGNORECASE
)
_EMAIL = re.compile(r"(?<![a-z0-9._+-])[a-z0-9._+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
_MARKS = re.compile(r"([^\w\s]|_)\1{3,}")


def clean(text: str, config: TextConfig) -> Cleaned:
    """Take out what no voice can say and make one form of what has many.

    Control and invisible characters go; line ends and spaces get one form; letters are composed
    (NFC); an apostrophe inside a word is the plain one; endless repeats are cut. Tags, entities and
    web addresses are treated as the config says. Digits are never touched.
    """
    if _is_plain(text, config):
        return Cleaned(text.strip())
    notes: dict[str, int] = {}
    if config.markup == "strip":
        text, count = strip_markup(text)
        if count:
            notes["markup"] = count
    text = _sub(_ESCAPE, "", text, notes, "controls")
    text = _BREAK.sub(lambda match: _BREAKS[match[0]], text)
    text = _sub(_CONTROL, "", text, notes, "controls")
    if not text.isascii():
        text = _sub(_INVISIBLE, "", text, notes, "invisible")
        text = _sub(_STRAY_JOINER, "", text, notes, "invisible")
        text = _APOSTROPHE.sub("'", unicodedata.normalize("NFC", text))
    if config.urls != "literal":
        text = _strip_urls(text, notes, keep_domain=config.urls == "domain")
    text = _cut_repeats(text, config.max_repeat, notes)
    text = _LINE_ENDS.sub("\n", _SPACES.sub(" ", text))
    return Cleaned(_PARAGRAPH.sub("\n\n", text).strip(), notes)


def _is_plain(text: str, config: TextConfig) -> bool:
    """Whether nothing is to be done: a million plain ASCII texts pass here, so each step is cheap."""
    return (
        text.isascii()
        and text.isprintable()
        and "  " not in text
        and (config.markup == "literal" or not ("<" in text or "&" in text))
        and (
            config.urls == "literal" or not ("://" in text or "@" in text or "www." in text.lower())
        )
        and _MARKS.search(text) is None
        and _long_word(config.max_repeat).search(text) is None
    )


@lru_cache
def _long_word(max_repeat: int) -> re.Pattern[str]:
    """Finds what is long enough to hold a repeat: much quicker than looking for the repeat."""
    return re.compile(rf"\S{{{max_repeat + 1}}}")


def _sub(pattern: re.Pattern[str], to: str, text: str, notes: dict[str, int], note: str) -> str:
    text, count = pattern.subn(to, text)
    if count:
        notes[note] = notes.get(note, 0) + count
    return text


def _strip_urls(text: str, notes: dict[str, int], *, keep_domain: bool) -> str:
    def domain(match: re.Match[str]) -> str:
        address = match[0].partition("://")[2] or match[0]
        host = re.split("[/?#]", address, maxsplit=1)[0].rpartition("@")[2].partition(":")[0]
        return host[4:] if host.lower().startswith("www.") else host

    if keep_domain:  # an e-mail address is short and says who: it stays
        text, count = _URL.subn(domain, text)
    else:
        text, count = _URL.subn("", text)
        text, emails = _EMAIL.subn("", text)
        count += emails
    if count:
        notes["urls"] = count
    return text


@lru_cache
def _unit(max_repeat: int) -> re.Pattern[str]:
    return re.compile(rf"([^\d\s]{{1,4}}?)\1{{{max_repeat},}}")


def _cut_repeats(text: str, max_repeat: int, notes: dict[str, int]) -> str:
    before = len(text)
    text = _MARKS.sub(r"\1\1\1", text)
    if _long_word(max_repeat).search(text):
        text = _unit(max_repeat).sub(lambda match: match[1] * max_repeat, text)
    if len(text) < before:
        notes["repeats"] = before - len(text)
    return text


def strip_unspeakable(text: str, what: str) -> str:
    """Take out characters that a voice cannot say, and the gap that they leave.

    Args:
        text: cleaned text.
        what: the characters.
    """
    # What only modifies an emoji or a key cap goes with it.
    modifiers = "\u200d\ufe0f\u20e3"
    run = re.compile(f" *(?:[{re.escape(what)}][{modifiers}]* *)+")
    text = run.sub(lambda match: " " if " " in match[0] else "", text)
    text = re.sub(r" +(?=[,.;:!?…)\]}])", "", text)
    return re.sub(r" ?\n ?", "\n", text).strip()


def split(text: str, config: TextConfig, lang: str = "") -> list[Piece]:
    """Cut a text into sentences; nothing but white space is lost.

    A line break ends a sentence. A sentence of a word or two stays with its neighbour, a quotation
    with the words that name its speaker, and what has neither letter nor digit is never alone.

    Args:
        text: cleaned text.
        config: the pauses.
        lang: language tag; empty: judged by the script.
    """
    found: list[tuple[str, int]] = []
    for paragraph in _PARAGRAPH.split(text):
        for line in paragraph.split("\n"):
            for sentence in _sentences(line, lang):
                if found and not (_speaks(sentence) and _speaks(found[-1][0])):
                    found[-1] = (f"{found[-1][0]} {sentence}", config.sentence_pause_ms)
                else:
                    found.append((sentence, config.sentence_pause_ms))
        if found:
            found[-1] = (found[-1][0], config.paragraph_pause_ms)
    if found:
        found[-1] = (found[-1][0], 0)
    return [Piece(sentence, pause_ms) for sentence, pause_ms in found]


_SCRIPTS = (("[\uac00-\ud7a3]", "ko"), ("[\u3040-\u30ff]", "ja"), ("[\u4e00-\u9fff]", "zh"))
# Korean and Japanese name the speaker behind the quotation, with a particle: "..."라고 물었다.
_QUOTING = re.compile(r"(?:이?라(?:고|며|는|면서|던)?|하고|하며|고|며|는|란)(?!\w)|と|って")
_CLOSING = "\"'”’」』»"


def _sentences(line: str, lang: str) -> list[str]:
    from sentencex import segment

    code = lang.partition("-")[0] or next((c for s, c in _SCRIPTS if re.search(s, line)), "en")
    sentences: list[str] = []
    for part in segment(code, line):
        before = sentences[-1].rstrip() if sentences else ""
        names_speaker = before.endswith(tuple(_CLOSING)) and _QUOTING.match(part)
        if before and (names_speaker or _is_short(before)):
            sentences[-1] += part
        else:
            sentences.append(part)
    if len(sentences) > 1 and _is_short(sentences[-1].strip()):
        last = sentences.pop()
        sentences[-1] += last
    return [sentence.strip() for sentence in sentences if sentence.strip()]


def _is_short(sentence: str) -> bool:
    """A word or less: spoken alone, voices babble."""
    return len(sentence) < 8 or (" " not in sentence and len(sentence) < 16)


def _speaks(text: str) -> bool:
    return any(map(str.isalnum, text))


_CLAUSE = re.compile(
    r"[,;:!?…،؛؟।][\"'”’»)\]]*(?=\s)"  # a mark before a space: not the comma of 2,350
    r"|[，、；：。！？]+[」』”’）]*|\s[-–—]+(?=\s)|[—…]+(?=\w)"
)
_SPACE = re.compile(r"\s+")


def split_finer(text: str) -> list[str]:
    """Cut a text that is still too long in two, where it hurts least, near its middle.

    Behind a comma or dash, if one is in the middle three fifths; else between words; else anywhere.
    Nothing but white space is lost, and a text of more than one character always gets shorter.
    """
    text = text.strip()
    middle, margin = len(text) / 2, len(text) / 5
    spoken = [place for place, char in enumerate(text) if char.isalnum()] or [0]
    clauses = [match.end() for match in _CLAUSE.finditer(text)]
    clauses = [cut for cut in clauses if margin <= cut <= len(text) - margin]
    for cuts in (clauses, [match.end() for match in _SPACE.finditer(text)]):
        # Neither part is to be marks alone: no voice can say that.
        cuts = [cut for cut in cuts if spoken[0] < cut <= spoken[-1]]  # noqa: PLW2901
        if cuts:
            cut = min(cuts, key=lambda place: abs(place - middle))
            return [text[:cut].strip(), text[cut:].strip()]
    if len(text) < 2:
        return [text]
    cut = len(text) // 2
    while cut < len(text) - 1 and _belongs_to_the_last(text[cut]):
        cut += 1
    return [part for part in (text[:cut].strip(), text[cut:].strip()) if part]


def _belongs_to_the_last(char: str) -> bool:
    return unicodedata.category(char) in {"Mn", "Mc", "Me", "Cf"}
