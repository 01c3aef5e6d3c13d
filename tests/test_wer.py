import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts.wer import compact, distance, normalize, score

SOME = ("ab", "seven", "hundred", "and", "5", "point", "!", "안녕", "thirty")
WORDS = st.lists(st.sampled_from(SOME), max_size=12)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("seven thousand four hundred seventy-six", "7,476"),
        ("Your code is three one six seven.", "your code is 3167"),
        ("Your code is 3 1 6 7.", "Your code is 3167."),
        ("at ten thirty", "at 10:30"),
        ("at nine thirty", "at 9.30"),
        ("at eight", "at 8:00"),
        ("at 8 o'clock", "at 8:00"),
        ("nineteen eighty-four", "1984"),
        ("nineteen oh five", "1905"),
        ("two thousand twenty-four", "2024"),
        ("twenty twenty-four", "2024"),
        ("the nineteen eighties", "the 1980s"),
        ("November fourth", "November 4th"),
        ("the twenty-first floor", "The 21st floor"),
        ("the thirty-second floor", "the 32nd floor"),
        ("thirty-nine dollars and ten cents", "$39.10"),
        ("five million dollars", "$5 million"),
        ("a hundred and five dogs", "105 dogs"),
        ("two million three hundred thousand and one", "2,300,001"),
        ("ninety-four per cent", "94%"),
        ("three point five percent", "3.5%"),
        ("Doctor Lee’s dog & cat", "Dr. Lee's dog and cat"),
        ("10:30 a.m.", "10:30 AM"),
        ("zero zero seven", "007"),
    ],
)
def test_one_reading_of_numbers_times_and_prices(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("thirteen", "thirty"),
        ("bread and butter", "bread butter"),
        ("one and two", "one two"),
        ("a thousand", "a million"),
        ("two thousand three thousand", "5000"),
        ("hundred percent", "1 percent"),
    ],
)
def test_other_texts_stay_apart(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


def test_korean_japanese_and_chinese_are_judged_by_characters() -> None:
    korean = score("안녕하세요, 반갑습니다.", "안녕 하세요 반갑습니다", "ko-KR")
    assert (korean.wer, korean.cer, korean.errors) == (0, 0, 0)
    assert score("今天天气好", "今天天很好", "zh").cer == pytest.approx(1 / 5)
    assert compact("東京 タワー", "ja") == "東京タワー"


def test_other_languages_keep_their_numbers_and_accents() -> None:
    assert normalize("Straße Nr. 5, três", "de-DE") == ["straße", "nr", "5", "três"]
    assert normalize("one two", "fr") == ["one", "two"]


def test_decomposed_hangul_is_the_same_text() -> None:
    assert normalize("한국", "ko") == normalize("한국", "ko")


def test_word_and_character_errors_agree_with_jiwer() -> None:
    said, heard = "the storm passed during the night", "a storm passed in the nights"
    got = score(said, heard)
    assert got.wer == pytest.approx(jiwer.wer(said, heard))
    spaceless = jiwer.cer(said.replace(" ", ""), heard.replace(" ", ""))
    assert got.cer == pytest.approx(spaceless)


def test_nothing_heard_is_all_wrong_and_an_empty_text_does_not_divide_by_zero() -> None:
    assert score("hello", "").cer == 1
    assert score("", "hello").errors == 5
    assert score("", "").wer == 0


@given(WORDS)
def test_normalizing_twice_changes_nothing(words: list[str]) -> None:
    once = normalize(" ".join(words))
    assert normalize(" ".join(once)) == once


@given(st.text(max_size=60), st.sampled_from(["en", "ko", "", "de-AT"]))
def test_any_text_is_taken_and_fits_itself(text: str, lang: str) -> None:
    assert score(text, text, lang).errors == 0
    assert " " not in compact(text, lang)


def test_distance_counts_words_or_characters() -> None:
    assert distance("kitten", "sitting") == 3
    assert distance(["a", "b"], ["b"]) == 1
