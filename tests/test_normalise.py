import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.normalise import normalise
from tests.test_text import case


def english(text: str) -> str:
    return normalise(text, english=True)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("+1 (555) 010-0199", "+1, 5 5 5, 0 1 0, 0 1 9 9"),
        ("02-555-0100.", "0 2, 5 5 5, 0 1 0 0."),
        ("번호는 02-555-0100입니다.", "번호는 0 2, 5 5 5, 0 1 0 0입니다."),
        ("(02) 555-0100", "0 2, 5 5 5, 0 1 0 0"),
        ("+44 20 7946 0958", "+4 4, 2 0, 7 9 4 6, 0 9 5 8"),
        ("+15550100199", "+1 5 5 5 0 1 0 0 1 9 9"),
        ("1-800-555-0199", "1, 8 0 0, 5 5 5, 0 1 9 9"),
        ("555.010.0199", "5 5 5, 0 1 0, 0 1 9 9"),
        ("010-1234-5678", "0 1 0, 1 2 3 4, 5 6 7 8"),
        ("Order 000123 is ready.", "Order 0 0 0 1 2 3 is ready."),
        ("Rooms 01, 02 and 007.", "Rooms 0 1, 0 2 and 0 0 7."),
        ("Lot 000123-45.", "Lot 0 0 0 1 2 3-45."),
        ("Card 4111111111111111.", "Card 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1."),
    ],
)
@pytest.mark.parametrize("is_english", [True, False])
def test_codes_and_phone_numbers_are_said_digit_by_digit(
    text: str, said: str, is_english: bool
) -> None:
    assert normalise(text, english=is_english)[0] == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("34,50 €", "34.50 €"),
        ("€34,50", "€34.50"),
        ("34,50 EUR", "34.50 €"),
        ("18.40 USD", "18.40 $"),
        ("12,5 %", "12.5 %"),
        ("0,5", "0.5"),
        ("1.234,50 €", "1234.50 €"),
        ("rows 3,4 and 1,2,3", "rows 3, 4 and 1, 2, 3"),
        ("007,008", "0 0 7, 0 0 8"),
    ],
)
def test_commas_that_part_no_thousands(text: str, said: str) -> None:
    assert english(text) == said


@pytest.mark.parametrize(
    "text",
    [
        *(
            "$18.40",
            "$2,350.75",
            "50%",
            "7:05 a.m.",
            "00:05",
            "10:00:30",
            "2024-05-01",
            "05-06-2024",
        ),
        *("01/02/2024", "0.05", "3.0100", "192.168.0.1", "1,000,000", "1,23,456", "3-2", "2,000.5"),
        *(
            "+5 degrees",
            "In 1999 and 2024.",
            "Press 0.",
            "555-0199",
            "1 2 3",
            "No digits, no work.",
        ),
    ],
)
def test_what_voices_read_well_is_left_alone(text: str) -> None:
    assert normalise(text, english=True) == (text, 0)


def test_other_languages_have_their_own_commas() -> None:
    assert normalise("34,50 € und 3,4", english=False) == ("34,50 € und 3,4", 0)


@pytest.mark.parametrize("name", ["C42_currency_time.csv", "C43_phone.csv"])
def test_no_digit_is_lost_and_doing_it_twice_changes_nothing(name: str) -> None:
    for text in case(name).values():
        said = english(text)
        assert [c for c in said if c.isdigit()] == [c for c in text if c.isdigit()]
        assert english(said) == said


def test_what_was_rewritten_is_counted() -> None:
    assert normalise("007, 02-555-0100, $5 and 34,50 €", english=True)[1] == 3


@pytest.mark.parametrize("text", ["0" * 60_000, "1," * 30_000, "+1 " * 20_000, "1.234," * 10_000])
def test_no_text_takes_long(text: str) -> None:
    begin = time.process_time()
    english(text)
    assert time.process_time() - begin < 1


@settings(max_examples=500, deadline=None)
@given(st.text("0015 +-.,()€EUR", max_size=24))
def test_rewriting_keeps_every_digit_in_its_place(text: str) -> None:
    said, count = normalise(text, english=True)
    assert [c for c in said if c.isdigit()] == [c for c in text if c.isdigit()]
    assert (said == text) == (count == 0)
    assert english(f"007 | {text}") == f"0 0 7 | {said}", "no rule waits for another one"
