"""Numbers that voices read wrongly, written so that every voice reads them as people do.

Amounts, clock times, dates, percent and capitals are read well by the voices' own front ends. Not so
phone numbers, strings with leading zeros and long strings of digits, which come out as one large
number or lose their zeros: they are said digit by digit, whatever the language. And not so numbers
as other countries write them in an English text: 34,50 would be three thousand four hundred fifty.
"""

import re
from collections.abc import Callable

_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]

_PHONES = (
    r"\+\d{1,3}(?:[ .-]?\(\d{1,4}\)|[ .-]\d{1,4}|\d{4})(?:[ .-]?\d{2,7}){1,5}",  # +1 (555) 010-0199
    r"(?:1[ .-]?)?\(\d{2,5}\) ?\d{2,4}[ .-]?\d{3,4}",  # (555) 010-0199
    r"0\d{1,4}([ .-])\d{3,4}\1\d{3,4}",  # 02-555-0100
    r"(?:1[ .-])?\d{3}([ .-])\d{3}\2\d{4}",  # 1-800-555-0199
)
_PHONE = re.compile(
    rf"(?<![A-Za-z\d+(])(?<!\d[.,:/-])(?:{'|'.join(_PHONES)})(?![A-Za-z\d]|[.,:/-]\d)"
)
_GROUP = re.compile(r"\+?\d+")
# Not the 05 of 7:05, 0.05, 05/06 and 2024-05-01.
_LEADING_ZERO = re.compile(r"(?<!\d)(?<!\d[.,:/-])(?:0\d+(?!-\d)|00\d+)(?!\d|[.,:/]\d)")
_LONG = re.compile(r"(?<![\d.,])\d{10,}(?!\d|[.,]\d)")

_CODES = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩"}
_SIGN = r"[$£€¥₹₩]"
_UNIT = (
    r"%|°|(?:[ckm]?m|[kmµ]?g|[km]?[lLW]|kWh|[GKMT]B|mph|k?Hz)\b"
    r"|(?:percent|euros?|dollars?|pounds?|million|billion)\b"
)
_CODED = re.compile(rf"(\d) ?({'|'.join(_CODES)})\b")
_POINTS = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?![\d.,]*\d)")
_COMMAS = re.compile(rf"({_SIGN} ?)?(?<![\d.,])(\d+(?:,\d+)+)(?!\d)(\.\d)?(?= ?({_SIGN}|{_UNIT})?)")
_GROUPED = re.compile(r"[1-9]\d?\d?(?:,\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3}")
"""2,350 and, in India, 1,23,456."""
_DECIMAL = re.compile(r"\d+,\d{1,2}")


def _spell(match: re.Match[str]) -> str:
    """Digit by digit, with a short pause between groups; a plus stays before the first digit."""
    groups = _GROUP.findall(match[0])
    return ", ".join(" ".join(group).replace("+ ", "+") for group in groups)


def _comma(match: re.Match[str]) -> str:
    """A number with commas: thousands stay, a decimal comma becomes a point, a list gets spaces."""
    before, number, fraction, after = match.groups()
    if _GROUPED.fullmatch(number) or fraction:
        return match[0]
    is_decimal = _DECIMAL.fullmatch(number) and (before or after or number.startswith("0,"))
    return (before or "") + number.replace(",", "." if is_decimal else ", ")


_DIGITS: tuple[_Rule, ...] = ((_PHONE, _spell), (_LEADING_ZERO, _spell), (_LONG, _spell))
_ENGLISH: tuple[_Rule, ...] = (
    (_CODED, lambda m: f"{m[1]} {_CODES[m[2]]}"),  # 34,50 EUR
    (_POINTS, lambda m: f"{m[1].replace('.', '')}.{m[2]}"),  # 1.234,50
    (_COMMAS, _comma),
)
_WORTH_A_LOOK = re.compile(
    rf"0\d|\d,\d|\+\d|\) ?\d|\d{{3}}[ .-]\d{{3}}[ .-]|\d{{10}}|\d ?(?:{'|'.join(_CODES)})\b"
)
"""Found in every text that a rule would change: a million texts pass here, most with nothing."""


def normalise(text: str, *, english: bool) -> tuple[str, int]:
    """Rewrite the numbers that voices read wrongly.

    Args:
        text: cleaned text.
        english: its numbers are English: a comma parts thousands, or the items of a list.

    Returns:
        The text, and how many numbers were rewritten.
    """
    if not _WORTH_A_LOOK.search(text):
        return text, 0
    count = 0
    for pattern, rewrite in (*(_ENGLISH if english else ()), *_DIGITS):
        parts: list[str] = []
        done = 0
        for match in pattern.finditer(text):
            said = rewrite(match)
            count += said != match[0]
            parts += text[done : match.start()], said
            done = match.end()
        text = "".join(parts) + text[done:]
    return text, count
