import re

from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.text import apply_lexicon


def test_a_lexicon_respells_whole_words() -> None:
    lexicon = {"nguyen": "win", "SQL": "sequel", "sql server": "sequel server", "C++": "see plus"}
    text, count = apply_lexicon("Nguyen's SQL, sql, NoSQL and SQL Server in C++.", lexicon)
    assert text == "win's sequel, sql, NoSQL and sequel server in see plus."
    assert count == 4


def test_a_word_with_capitals_is_exact_and_one_without_is_any() -> None:
    lexicon = {"us": "us all", "US": "the States"}
    assert apply_lexicon("US or us or Us", lexicon) == ("the States or us all or us all", 3)


def test_a_lexicon_knows_scripts_without_spaces_and_particles() -> None:
    lexicon = {"東京": "とうきょう", "김": "킴", "ﬁn": "x"}
    assert apply_lexicon("新東京駅", lexicon) == ("新とうきょう駅", 1)
    assert apply_lexicon("김이 왔다, 튀김", lexicon) == ("킴이 왔다, 튀김", 1)


def test_an_empty_lexicon_changes_nothing() -> None:
    assert apply_lexicon("A text.", {}) == ("A text.", 0)
    assert apply_lexicon("A text.", {"b": "c"}) == ("A text.", 0)


def test_a_respelling_is_not_respelled_again() -> None:
    assert apply_lexicon("a b", {"a": "b", "b": r"\1 a"}) == (r"b \1 a", 2)


def test_a_letter_that_grows_in_lower_case_moves_nothing() -> None:
    assert apply_lexicon("İ is İzmir, sql", {"sql": "sequel"}) == ("İ is İzmir, sequel", 1)


def test_a_vowel_sign_belongs_to_its_word() -> None:
    assert apply_lexicon("की क", {"क": "x"}) == ("की x", 1)


@settings(max_examples=200, deadline=None)
@given(
    st.text("ab AB.", max_size=30),
    st.dictionaries(st.text("ab", min_size=1, max_size=3), st.just("X"), min_size=1, max_size=4),
)
def test_words_in_lower_case_are_found_as_a_plain_search_finds_them(
    text: str, lexicon: dict[str, str]
) -> None:
    words = "|".join(sorted(lexicon, key=len, reverse=True))
    expected = re.subn(rf"\b(?:{words})\b", "X", text, flags=re.IGNORECASE)
    assert apply_lexicon(text, lexicon) == expected
