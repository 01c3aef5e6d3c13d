"""HTML and SSML in a text that is to be spoken."""

import html
import re

_ELEMENTS = (
    "a abbr acronym address article aside audio b bdi bdo big blockquote body br break button"
    " caption center cite code col dd del details dfn div dl dt em emphasis fieldset figcaption"
    " figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd"
    " label lang legend lexicon li link main mark mark meta metadata nav ol option p paragraph"
    " phoneme pre prosody q rp rt ruby s samp say-as section select sentence small source span"
    " speak strike strong sub summary sup table tbody td textarea tfoot th thead time title token"
    " tr tt u ul var video voice w wbr"
)
"""The elements of HTML and SSML: `List<String>` and `<Enter>` are no tags."""
_TAG = re.compile(
    r"<!--.*?-->|<!\[CDATA\[|\]\]>|<[!?](?:doctype|xml)[^>]*>"
    r"|<(script|style)\b[^>]*>.*?</\1\s*>"
    rf"|</?({_ELEMENTS.replace(' ', '|')})(?:[\s/][^<>]*)?>",
    re.IGNORECASE | re.DOTALL,
)
_BREAKING = re.compile("br|break|d[dt]|div|h[1-6]|hr|li|p|paragraph|t[dhr]|table", re.IGNORECASE)
"""The elements that part what stands before and behind them."""
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)


def strip_markup(text: str) -> tuple[str, int]:
    """Take out tags and decode entities; a tag such as <br> becomes a line break.

    Returns:
        The text, and how many tags and entities there were.
    """

    def tag(match: re.Match[str]) -> str:
        return "\n" if _BREAKING.fullmatch(match[2] or "") else ""

    text, tags = _TAG.subn(tag, text)
    text, entities = _ENTITY.subn(lambda match: html.unescape(match[0]), text)
    return text, tags + entities
