"""The first stage: whole, in sentences, or refused; never shortened in silence."""

import pytest

from batchtts.config import load_config
from batchtts.data import Utterance
from batchtts.models.base import Features, Item
from batchtts.models.fake import MAX_SIZE, FakeFrontend
from batchtts.prepare import Refused, Segment, prepare


def utterance(text: str) -> Utterance:
    return Utterance(
        index=0,
        line=1,
        id="u",
        text=text,
        voice="fake:tone",
        lang="",
        speed=1.0,
        seed=7,
        file="audio/u.wav",
        key="",
    )


def segments(text: str, **overrides: object) -> list[Segment]:
    found = prepare(FakeFrontend(), utterance(text), load_config(None, overrides))
    assert not isinstance(found, Refused), found
    return found


def refused(text: str, **overrides: object) -> Refused:
    found = prepare(FakeFrontend(), utterance(text), load_config(None, overrides))
    assert isinstance(found, Refused)
    return found


def test_a_sentence_is_one_segment_with_its_own_seed() -> None:
    (only,) = segments("Hello, how are you?")
    assert only.features.data[0] == "Hello, how are you?"
    assert only.seed == 7


def test_sentences_and_paragraphs_have_their_pauses() -> None:
    text = "The first sentence. The second one.\n\nAnother paragraph here."
    found = segments(text, **{"text.sentence_pause_ms": 100, "text.paragraph_pause_ms": 900})
    assert [segment.pause_ms for segment in found] == [100, 900, 0]


def test_a_text_that_does_not_fit_is_cut_into_sentences_and_loses_nothing() -> None:
    text = " ".join(f"This is sentence number {n} of a long chapter." for n in range(60))
    found = segments(text)
    assert len(found) == 60
    assert " ".join(segment.features.data[0] for segment in found) == text
    assert [segment.number for segment in found] == list(range(60))
    assert {segment.count for segment in found} == {60}
    assert len({segment.seed for segment in found}) == 60
    assert found[0].pause_ms == 350


def test_a_sentence_without_end_is_cut_between_words() -> None:
    text = " ".join(["word"] * 900)
    found = segments(text)
    assert all(len(segment.features.data[0]) <= MAX_SIZE for segment in found)
    assert " ".join(segment.features.data[0] for segment in found) == text


def test_a_word_without_end_is_cut_too() -> None:
    found = segments("a" * 2500, **{"text.max_repeat": 5000})
    assert "".join(segment.features.data[0] for segment in found) == "a" * 2500


@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("skip", "skipped")])
def test_what_cannot_be_said_is_named(policy: str, status: str) -> None:
    found = refused("Well done 🎉☢ all", **{"text.on_unspeakable": policy})
    assert (found.status, found.reason) == (status, "the voice cannot say: 🎉 ☢")


def test_under_strip_the_rest_is_said_and_the_loss_is_noted() -> None:
    (only,) = segments("Well done 🎉 all", **{"text.on_unspeakable": "strip"})
    assert only.features.data[0] == "Well done all"
    assert only.features.notes["dropped"] == "🎉"


@pytest.mark.parametrize("policy", ["fail", "skip", "strip"])
@pytest.mark.parametrize("text", ["...", "!?", "—"])
def test_nothing_to_speak_is_skipped(text: str, policy: str) -> None:
    found = refused(text, **{"text.on_unspeakable": policy})
    assert found.status == "skipped"
    assert found.reason.startswith("nothing to speak")


def test_only_unspeakable_under_strip_is_nothing_to_speak() -> None:
    found = refused("🎉", **{"text.on_unspeakable": "strip"})
    assert (found.status, found.reason) == ("skipped", "nothing to speak: 🎉")


def test_punctuation_between_long_sentences_is_no_loss() -> None:
    text = ("A long sentence that goes on for a while. " * 30) + "... " + "Another one ends it."
    assert "".join(s.features.data[0] for s in segments(text)).count("Another one") == 1


def test_a_fault_of_the_front_end_is_one_rows_fault() -> None:
    class Broken:
        def prepare(self, item: Item) -> Features:
            raise KeyError(item.text)

    found = prepare(Broken(), utterance("x"), load_config(None, {}))
    assert isinstance(found, Refused)
    assert found.status == "failed"
    assert "front end failed: KeyError" in found.reason


def test_another_attempt_has_another_seed_for_each_segment() -> None:
    first = segments("One two three.")[0]
    second = first.again(1, "")
    third = second.again(2, "fp32")
    assert len({first.seed, second.seed, third.seed}) == 3
    assert (second.precision, third.precision) == ("", "fp32")
    assert second.features.data == first.features.data
