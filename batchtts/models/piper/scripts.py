"""Which characters a voice that reads by espeak-ng cannot say.

espeak-ng always says something: it spells Cyrillic in an English voice letter by letter and calls
every Chinese character "Chinese letter". That is a wrong reading, so foreign scripts are refused.
"""

import unicodedata

from batchtts.models.piper.espeak import is_silent

_LANGUAGES = {
    "ARABIC": "ar fa ku ps sd ug ur",
    "ARMENIAN": "hy",
    "BENGALI": "as bn bpy",
    "CHEROKEE": "chr",
    "CJK": "cmn hak yue zh",
    "CYRILLIC": "ba be bg bs cv kk ky mk mn nog ru sr tk tt uk uz",
    "DEVANAGARI": "hi kok mr ne",
    "ETHIOPIC": "am ti",
    "GEORGIAN": "ka",
    "GREEK": "el grc",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KATAKANA-HIRAGANA": "ja",
    "MALAYALAM": "ml",
    "MYANMAR": "my shn",
    "ORIYA": "or",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
}
"""First word of a character's Unicode name -> languages of espeak-ng that are written so.

Latin letters are read by every voice.
"""

_EVERYWHERE = frozenset(
    ["LATIN", "MODIFIER", "FEMININE", "MASCULINE", "MICRO", "OHM", "KELVIN", "ANGSTROM"]
)


def find_unspeakable(espeak_voice: str, text: str) -> list[str]:
    """Characters that the voice cannot say, in order of appearance, each once."""
    language = espeak_voice.partition("-")[0]
    refused = [
        character
        for place, character in enumerate(text)
        if not character.isascii()
        and (
            _is_foreign(character, language, text[place - 1 : place] + text[place + 1 : place + 2])
            or (_has_meaning(character) and is_silent(espeak_voice, character))
        )
    ]
    return list(dict.fromkeys(refused))


def _is_foreign(character: str, language: str, neighbours: str) -> bool:
    """Whether it is a letter of a script that the language does not use."""
    script = _script(character)
    if not script or script in _EVERYWHERE or language in _LANGUAGES.get(script, "").split():
        return False
    # A Greek letter by itself is a symbol, as in "2 π r".
    return script != "GREEK" or any(_script(neighbour) == "GREEK" for neighbour in neighbours)


def _script(character: str) -> str:
    """The script of a letter; nothing for any other character."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    return unicodedata.name(character, "UNNAMED").partition(" ")[0]


def _has_meaning(character: str) -> bool:
    """Whether it is a number, a currency, an operator or a pictogram."""
    kind = unicodedata.category(character)
    return kind[0] == "N" or kind in ("Sc", "Sm", "So")
