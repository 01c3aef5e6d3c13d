import pytest

from batchtts.heard import Hearing, Judge

TEXTS = {
    "a": "Hello Maria, your order number 290 has been shipped.",
    "b": "Hello Maria, your order number 439 has been shipped.",
    "c": "Hello Mario, your order number 290 has been shipped.",
    "d": "Please hold the handrail.",
    "e": "Press 2 to speak with sales.",
    "f": "Press 3 to speak with sales.",
    "g": "Yes.",
    "h": "The library opens at nine and closes at six.",
    "i": "Please hold.",
}


def judge(**heard: str) -> dict[str, str]:
    """What is found in the rows that were heard: id -> kind."""
    judge = Judge({id: (text, "en") for id, text in TEXTS.items()})
    hearings = {id: Hearing(text=TEXTS[id], heard=said, lang="en") for id, said in heard.items()}
    return {id: finding.kind for id, finding in judge.judge(hearings).items()}


def test_every_row_heard_right_is_right() -> None:
    assert judge(**TEXTS) == {}


@pytest.mark.parametrize(
    ("id", "heard"),
    [
        ("a", "Hello Marya, your order number 290 has been shipped."),
        ("a", TEXTS["c"]),  # a name misheard as that of another row, whose own file is right
        ("e", TEXTS["f"]),  # one digit misheard
        ("g", "Yeah."),
        ("h", "The library opens at 9 and closes at 6"),
        ("h", "A library open at nine, and closes at sick."),
    ],
)
def test_what_a_recogniser_mishears_is_no_fault(id: str, heard: str) -> None:
    assert judge(**{id: heard}) == {}


def test_swapped_files_are_sure_even_when_one_digit_differs() -> None:
    assert judge(e=TEXTS["f"], f=TEXTS["e"]) == {"e": "swapped", "f": "swapped"}
    assert judge(a=TEXTS["c"], c=TEXTS["a"]) == {"a": "swapped", "c": "swapped"}


def test_a_ring_of_shifted_files_is_found() -> None:
    assert set(judge(a=TEXTS["b"], b=TEXTS["h"], h=TEXTS["a"]).values()) == {"swapped"}


def test_the_text_of_another_row_is_told_by_its_id() -> None:
    judge = Judge({id: (text, "en") for id, text in TEXTS.items()})
    found = judge.judge(
        {"h": Hearing(text=TEXTS["h"], heard="please hold the hand rail", lang="en")}
    )
    assert found["h"].detail == "it says the text of d: Please hold the handrail."


@pytest.mark.parametrize(
    ("id", "heard", "kind"),
    [
        ("h", "The library opens at nine and", "cut"),
        ("h", "and closes at six.", "cut"),
        ("h", "", "cut"),
        ("d", "Please hold.", "cut"),  # not the text of another row: its own, cut
        ("h", "The library opens at nine and closes at six and closes at six.", "repeated"),
        ("g", "Yes. Yes, yes, yes.", "repeated"),
        ("g", "No, never.", "other words"),
        ("h", "My grandmother grew roses behind the house.", "other words"),
    ],
)
def test_what_is_wrong_is_named(id: str, heard: str, kind: str) -> None:
    assert judge(**{id: heard}) == {id: kind}


def test_korean_is_judged_by_characters() -> None:
    judge = Judge({"1": ("오늘 날씨가 좋습니다.", "ko"), "2": ("안녕하세요.", "ko")})
    right = Hearing(text="오늘 날씨가 좋습니다.", heard="오늘날씨가 좋습니다", lang="ko")
    wrong = Hearing(text="오늘 날씨가 좋습니다.", heard="안녕 하세요", lang="ko")
    assert judge.judge({"1": right}) == {}
    assert judge.judge({"1": wrong})["1"].kind == "swapped"
