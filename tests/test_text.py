import csv
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from batchtts.config import TextConfig
from batchtts.text import (
    Piece,
    clean,
    split,
    split_finer,
    strip_unspeakable,
)
from tests.conftest import CASES

DEFAULT = TextConfig()


def case(name: str) -> dict[str, str]:
    """The texts of a case, by id."""
    with (CASES / name).open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["text"] for row in csv.DictReader(file)}


def cleaned(text: str, config: TextConfig = DEFAULT) -> str:
    return clean(text, config).text


def sentences(text: str) -> list[str]:
    return [piece.text for piece in split(text, DEFAULT)]


def letters(text: str) -> str:
    """All but white space."""
    return "".join(text.split())


# Cleaning


@pytest.mark.parametrize("name", ["C42_currency_time.csv", "C43_phone.csv"])
def test_c42_c43_amounts_times_and_numbers_are_left_to_the_voice(name: str) -> None:
    for text in case(name).values():
        assert clean(text, DEFAULT).text == text
        assert sentences(text) == [text]


def test_c22_letters_are_composed() -> None:
    texts = case("C22_nfd_text.csv")
    assert texts["c1"] != texts["d1"]
    assert cleaned(texts["c1"]) == cleaned(texts["d1"])
    assert cleaned(texts["c2"]) == cleaned(texts["d2"])


def test_c33_emoji_are_the_voices_business() -> None:
    for text in case("C33_emoji.csv").values():
        assert cleaned(text) == text


def test_c44_web_addresses_as_configured() -> None:
    url, email = case("C44_url_mail.csv").values()
    assert cleaned(url) == url
    domain = clean(url, TextConfig(urls="domain"))
    assert domain.text == "See example.com for details."
    assert domain.notes == {"urls": 1}
    assert cleaned(url, TextConfig(urls="skip")) == "See for details."
    assert cleaned(email, TextConfig(urls="domain")) == email
    assert cleaned(email, TextConfig(urls="skip")) == "Write to today."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(http://user:pw@shop.example.com:8080/x).", "(shop.example.com)."),
        ("주소는https://example.com/가입니다.", "주소는example.com가입니다."),
        ("WWW.EXAMPLE.COM!", "EXAMPLE.COM!"),
        ("Look: https:// is no address, nor is www.", "Look: https:// is no address, nor is www."),
    ],
)
def test_only_the_domain_is_left_of_an_address(text: str, expected: str) -> None:
    assert cleaned(text, TextConfig(urls="domain")) == expected


def test_c48_invisible_characters_go() -> None:
    texts = case("C48_zero_width.csv")
    result = clean(texts["z1"], DEFAULT)
    assert result.text == texts["z0"]
    assert result.notes == {"invisible": 7}


def test_joiners_stay_where_a_script_or_an_emoji_needs_them() -> None:
    persian, hindi, family = (
        "می\u200cخواهم",
        "क्\u200dष",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    )
    for text in (persian, hindi, family):
        assert cleaned(text) == text
    assert cleaned("ta\u200dke\u200c it") == "take it"


def test_c50_control_characters_go_and_a_form_feed_parts_paragraphs() -> None:
    text = (CASES / "C50_controls.txt").read_text(encoding="utf-8")
    pages, red, bell, back, end = text.split("\n")
    assert split(cleaned(pages), DEFAULT) == [
        Piece("Page one.", DEFAULT.paragraph_pause_ms),
        Piece("Page two.", 0),
    ]
    assert clean(red, DEFAULT).text == "Red text here."
    assert clean(red, DEFAULT).notes == {"controls": 2}
    assert cleaned(bell) == "A bell rings."
    assert cleaned(back) == "Backspace."
    assert cleaned(end) == ""


def test_half_a_surrogate_pair_goes() -> None:
    assert clean("a\ud83db", DEFAULT).notes == {"controls": 1}
    assert cleaned("a\ud83db") == "ab"


def test_c53_endless_repeats_are_cut_and_counted() -> None:
    texts = case("C53_repeats.csv")
    assert cleaned(texts["r1"]) == "He" + "y" * 20 + " there"
    assert clean(texts["r2"], DEFAULT).text == "Stop!!!"
    assert clean(texts["r2"], DEFAULT).notes == {"repeats": 197}
    assert cleaned(texts["r3"]) == "ha" * 20
    assert cleaned(texts["r4"]).startswith("a.a.")
    assert len(cleaned(texts["r4"])) < 50
    assert cleaned(texts["r1"], TextConfig(max_repeat=3)) == "Heyyy there"


def test_digits_and_an_ellipsis_are_never_cut() -> None:
    for text in ("1" * 60, "Order 000000000000000000000000000042.", "Wait... what?", "ㅋㅋㅋㅋㅋ"):
        assert clean(text, DEFAULT).text == text


def test_c57_lines_are_spoken_with_a_pause_at_each_break() -> None:
    texts = case("C57_inner_newlines.csv")
    pieces = split(cleaned(texts["n1"]), TextConfig(sentence_pause_ms=200))
    assert pieces == [
        Piece("Items:", 200),
        Piece("Apple", 200),
        Piece("Pear", 200),
        Piece("Plum", 0),
    ]
    assert cleaned(texts["n2"]) == r"Literal\nbackslash n."


def test_c60_direction_marks_go_and_the_order_stays() -> None:
    texts = case("C60_rtl.csv")
    assert cleaned(texts["r1"]) == "مرحبا رقم 123"
    assert cleaned(texts["r2"]) == texts["r2"]
    assert cleaned(texts["r3"]) == "English עברית end."


def test_c62_apostrophes_of_any_shape_are_one() -> None:
    texts = case("C62_apostrophes.csv")
    assert {cleaned(text) for text in texts.values()} == {texts["a1"]}
    assert cleaned("the dogs’ bowls, ‘so’ 5′ tall") == "the dogs’ bowls, ‘so’ 5′ tall"


def test_spaces_and_line_ends_have_one_form() -> None:
    text = "\u3000 One\u00a0 two\t\tthree \r\n four\r\rfive\u2028six\u2029\n\n seven\x85\v "
    assert cleaned(text) == "One two three\nfour\n\nfive\nsix\n\nseven"
    assert cleaned(" \n\t ") == ""


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.one_of(st.characters(), st.sampled_from("aA.! \n\x1b[\u200d’\u00ad")), max_size=80)
)
@example("\x1b\x1b[31m[31m")
@example("a\u0308 \u00ad\u0301")
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = cleaned(text)
    assert clean(once, DEFAULT).text == once
    assert all(char.isprintable() or char == "\n" for char in once if ord(char) < 0xA0)


@settings(max_examples=200, deadline=None)
@given(st.text("abc def.,!?'-\"0123456789\n", max_size=80))
def test_cleaning_plain_text_loses_no_letter_and_no_digit(text: str) -> None:
    spoken = [char for char in text if char.isalnum()]
    assert [char for char in cleaned(text) if char.isalnum()] == spoken


@pytest.mark.parametrize(
    "text",
    ["a." * 30_000, "<" * 60_000, "\x1b]" * 30_000, "www." * 15_000, " \n" * 30_000, "x@" * 30_000],
)
def test_no_text_takes_long_to_clean(text: str) -> None:
    begin = time.process_time()
    clean(text, TextConfig(markup="strip", urls="domain"))
    assert time.process_time() - begin < 2


# What a voice cannot say


@pytest.mark.parametrize(
    ("text", "what", "left"),
    [
        ("Great job 🎉🎉🎉!", "🎉", "Great job!"),
        ("1\ufe0f\u20e3 Press one", "\ufe0f\u20e3", "1 Press one"),
        ("Family \U0001f468\u200d\U0001f469 day", "\U0001f468\U0001f469", "Family day"),
        ("Meet Ms. 김 at gate 5.", "김", "Meet Ms. at gate 5."),
        ("a]b^c-d", "]^-", "abcd"),
        ("🎉\nNext 🎉", "🎉", "Next"),
        ("👍", "👍", ""),
    ],
)
def test_what_cannot_be_said_goes_with_its_gap(text: str, what: str, left: str) -> None:
    assert strip_unspeakable(text, what) == left


# Splitting


def test_c45_abbreviations_end_no_sentence() -> None:
    (text,) = case("C45_abbrev.csv").values()
    assert sentences(text) == [text.removesuffix(" That is all."), "That is all."]


def test_pauses_follow_sentences_lines_and_paragraphs() -> None:
    text = "The first one. The second one.\nA new line.\n\nA paragraph.\n\n"
    config = TextConfig(sentence_pause_ms=100, paragraph_pause_ms=700)
    assert split(text, config) == [
        Piece("The first one.", 100),
        Piece("The second one.", 100),
        Piece("A new line.", 700),
        Piece("A paragraph.", 0),
    ]


def test_very_short_sentences_stay_with_their_neighbours() -> None:
    assert sentences("Yes. I will come at nine. No.") == ["Yes. I will come at nine. No."]
    assert sentences("Come at nine, please. Or at ten o'clock.") == [
        "Come at nine, please.",
        "Or at ten o'clock.",
    ]


def test_korean_and_japanese_quotations_stay_with_their_speaker() -> None:
    text = '"정말 그렇습니까, 선생님?" 라고 그가 물었다. 대답은 끝내 없었습니다.'
    assert sentences(text) == [
        '"정말 그렇습니까, 선생님?" 라고 그가 물었다.',
        "대답은 끝내 없었습니다.",
    ]
    text = "「本当にそうですか、先生？」と彼は静かに聞きました。返事は最後までありませんでした。"
    assert sentences(text)[0] == "「本当にそうですか、先生？」と彼は静かに聞きました。"


def test_marks_alone_are_no_segment() -> None:
    assert sentences("The end.\n***\nA new part.") == ["The end. ***", "A new part."]
    assert sentences("***\nA new part.") == ["*** A new part."]
    assert sentences("... !!!") == ["... !!!"]
    assert sentences("") == []


ANY_TEXT = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from('ab .,!?"\n가나다。、「」…')),
    max_size=120,
)


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, st.sampled_from(["", "en-US", "ko", "ja", "xx"]))
def test_splitting_loses_nothing_but_white_space(text: str, lang: str) -> None:
    pieces = split(text, DEFAULT, lang)
    assert letters("".join(piece.text for piece in pieces)) == letters(text)
    assert all(piece.text.strip() for piece in pieces)
    assert [piece.pause_ms for piece in pieces[-1:]] == [0][: len(pieces)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("We waited for a while, then we left.", ["We waited for a while,", "then we left."]),
        ("So, it costs 2,350 dollars in all", ["So, it costs 2,350", "dollars in all"]),
        ("He came — she went away", ["He came —", "she went away"]),
        ("Train 9:30 leaves now", ["Train 9:30", "leaves now"]),
        ("여름이 지나고，가을이 왔다", ["여름이 지나고，", "가을이 왔다"]),
        ("abcdef", ["abc", "def"]),
        ("e\u0301e\u0301", ["e\u0301", "e\u0301"]),
        ("ab ...", ["ab", "..."]),
        ("x", ["x"]),
    ],
)
def test_a_finer_cut_is_made_where_it_hurts_least(text: str, parts: list[str]) -> None:
    assert split_finer(text) == parts


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT.filter(str.strip))
def test_a_finer_cut_loses_nothing_and_always_gets_on(text: str) -> None:
    parts = split_finer(text)
    assert letters("".join(parts)) == letters(text)
    assert all(parts)
    if len(text.strip()) > 1:
        assert max(map(len, parts)) < len(text.strip())
    else:
        assert parts == [text.strip()]


def test_c51_a_run_on_text_comes_apart_between_words() -> None:
    text = case("C51_runon.csv")["r1"]
    parts = [text]
    while max(map(len, parts)) > 200:
        parts = [finer for part in parts for finer in split_finer(part)]
    assert " ".join(parts) == text
    assert min(map(len, parts)) > 60


def test_marks_and_spaces_without_end_are_cut_quickly() -> None:
    begin = time.process_time()
    for text in ("- " * 30_000, "- " * 30_000 + "a", ", " * 30_000):
        assert len(split_finer(text)) == 2
    assert time.process_time() - begin < 2


def test_a_chapter_is_split_quickly() -> None:
    chapter = "\n\n".join(["He said that it would rain, and so it did. Nobody minded."] * 3000)
    begin = time.process_time()
    pieces = split(cleaned(chapter), DEFAULT)
    assert len(pieces) == 6000
    assert time.process_time() - begin < 3
