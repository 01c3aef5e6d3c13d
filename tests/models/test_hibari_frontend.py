"""The front end: hibari's own phonemes, and nothing lost on the way to them."""

import pickle
from types import SimpleNamespace

import pytest
from hibari import Hibari
from hibari.g2p import G2P
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchtts.models.base import Item, TooLongError, UnspeakableError
from batchtts.models.hibari.features import MAX_SIZE, Spoken
from batchtts.models.hibari.frontend import LONGEST_WORD, HibariFrontend
from batchtts.models.hibari.reading import mend, unspeakable, vocabulary
from tests.models.hibari_voice import frontend, prepare

PLAIN = (
    "Hello there.",
    "On the 3rd of March 2024, 1,250 people paid $9.99 each at 7:30 pm.",
    "Dr. Smith's café, on St. John Street, isn't open. Is it? “No!” she said…",
    "R&D costs 50% more; see a@b.com — or call 555-0199.",
    "naïve Müller & Señora Dvořák",
    "Blorptang frumious zxqwv.",
)


def spell(ids: bytes) -> str:
    """Phonemes of a sentence."""
    symbols = {number: symbol for symbol, number in vocabulary().items()}
    return "".join(symbols[i] for i in ids[1:-1])


def phonemes(text: str) -> str:
    data: Spoken = prepare(text).data
    return " ".join(map(spell, data.sentences))


@pytest.mark.parametrize("text", PLAIN)
def test_plain_texts_read_as_hibari_reads_them(text: str) -> None:
    own = SimpleNamespace(g2p=_hibari(), split_sentences=Hibari.split_sentences)
    expected = Hibari.phonemize(own, text)
    known = SimpleNamespace(vocab=vocabulary())
    assert prepare(text).data.sentences == tuple(bytes(Hibari.ids(known, s)) for s in expected)
    assert mend(text) == text


def _hibari() -> G2P:
    if not _LOADED:
        _LOADED.append(G2P())
    return _LOADED[0]


_LOADED: list[G2P] = []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Great job 🎉🎉!", "🎉"),
        ("Meet Ms. 김 at gate 5.", "김"),
        ("Привет", "Привет"),
        ("αβγ and 中文, again 中", "αβγ中文"),
        ("👩‍👩‍👧", "👩👧"),
        ("1️⃣ Press one", "\u20e3"),
        ("[Kokoro](/kˈOжO/)", "ж"),
    ],
)
def test_what_cannot_be_said_is_named(text: str, named: str) -> None:
    with pytest.raises(UnspeakableError, match="the voice cannot say") as caught:
        prepare(text)
    assert caught.value.what == named


@pytest.mark.parametrize("text", ["", " ", "...", "?!", "( )", "“”", "***"])
def test_nothing_to_speak_is_said(text: str) -> None:
    with pytest.raises(UnspeakableError, match="nothing to speak") as caught:
        prepare(text)
    assert caught.value.what == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("It costs 5 €.", "It costs €5."),
        ("It costs 5.50₹ now", "It costs ₹5.50 now"),
        ("from $5-$10", "from $5 to $10"),
        ("Prices in $", "Prices in dollars"),
        (">5 items", "greater than 5 items"),
        ("\u22125 degrees", "-5 degrees"),
        ("a well\u2011known fact", "a well-known fact"),
        ("\u2153 cup", "1/3 cup"),
        ("Mr. Nguy\u1ec5n", "Mr. Nguyen"),
        ("H\u2082O", "H2O"),
        ("\u0663 items", "3 items"),
        ("exam\u00adple", "example"),
        ("x\u0302 is", "x is"),
        ("[here](for more)", "[here] (for more)"),
    ],
)
def test_what_hibari_would_lose_is_mended(text: str, same: str) -> None:
    assert prepare(text).data == prepare(same).data


def test_phonemes_can_be_given() -> None:
    assert phonemes("[Kokoro](/kˈOkəɹO/) speaks") == "kˈOkəɹO spˈiks"


def test_a_long_number_is_read_digit_by_digit() -> None:
    assert phonemes("1" * 40) == " ".join(["wˈʌn"] * 40)
    assert prepare("9" * 400).size > 400


def test_a_long_unknown_word_is_read_to_its_end() -> None:
    word = "blorptangfrumious"
    assert len(word) * 2 > LONGEST_WORD
    assert phonemes(word * 2) == phonemes(word) * 2


def test_a_long_text_is_refused_with_the_limit() -> None:
    with pytest.raises(TooLongError) as caught:
        prepare("The rain in Spain stays mainly in the plain. " * 150)
    assert caught.value.limit == MAX_SIZE
    assert caught.value.size > MAX_SIZE


def test_american_and_british_differ() -> None:
    british = HibariFrontend(british=True).prepare(Item(text="Better water.", voice="emma"))
    assert british.data != prepare("Better water.").data


def test_a_front_end_is_a_few_bytes() -> None:
    frontend().prepare(Item(text="Loaded zxqwv.", voice="heart"))
    assert len(pickle.dumps(frontend())) < 200


def refusal(text: str) -> UnspeakableError | None:
    try:
        prepare(text)
    except UnspeakableError as error:
        return error
    return None


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_spoken_or_refused_for_a_reason(text: str) -> None:
    error = refusal(text)
    foreign = unspeakable(text)
    assert (error.what if error else "") == (foreign or (text if error else ""))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.text(alphabet="aB3 .,:$€%/-+'’\"()[]<>=#&@*_^~°½²9th", max_size=30))
def test_any_mix_of_signs_is_spoken_or_empty(text: str) -> None:
    error = refusal(text)
    assert error is None or error.reason == "nothing to speak"
