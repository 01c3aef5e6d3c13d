"""Checks: no false alarm on a real voice, every planted fault found."""

import math
import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts import checks
from batchtts.audio import Samples
from batchtts.models.base import Item

RATE = 24_000
NAMES = ("Alice", "Bruno", "Chloe", "Farid", "Greta")
TEXTS = (
    "Hello {name}, your appointment is on Tuesday at {n}:{n}5.",
    "{name}!",
    "Yes.",
    "Stop",
    "Number {n}.",
    "Is that {name} speaking?",
    "Oh, no... {name} forgot the keys again?!",
    "Press {n} for sales, or hold the line.",
    "Whisper softly: {name}, shh, this is a secret, sister.",
    "Take the fish, six fresh sticks, and {name}'s peach puff.",
    "Dear {name}, the balance of your account is ${n}2.{n}0. Please call us back before noon.",
    "WARNING: {name} must leave at once. I repeat. At once.",
    "The {name} report covers {n} regions and {n} million customers, which is why, in spite of it all, "
    + "nobody expected it to be finished by Friday, let alone printed, bound and shipped.",
    "One, two, three, four, five, six, seven, eight, nine, ten.",
    "Good morning. How are you? Fine, thanks. And you?",
    "{name} and {name}",
    "It was the best of times, it was the worst of times.",
    "Mm-hmm.",
    "A B C D E F G",
    "Room {n}0{n}, second floor, on your left.",
)


@cache
def spoken() -> tuple[tuple[Samples, float], ...]:
    """A hundred sentences of the reference voice, each with what its front end expected."""
    from hibari import Hibari

    from batchtts.models.hibari import adapter

    speak, frontend = Hibari("heart"), adapter.frontend("heart")
    texts = [text.format(name=name, n=n) for n, name in enumerate(NAMES, start=1) for text in TEXTS]
    return tuple(
        (
            np.asarray(speak(text), np.float32),
            frontend.prepare(Item(text=text, voice="heart")).seconds,
        )
        for text in texts
    )


def learnt() -> checks.DurationWindow:
    """A window that has heard the hundred sentences."""
    window = checks.DurationWindow()
    for wave, expected in spoken():
        checks.check(wave, RATE, expected, window)
    return window


def tone(seconds: float, level: float = 0.3) -> Samples:
    axis = np.arange(round(seconds * RATE)) / RATE
    fade = np.minimum(1, np.minimum(axis, axis[::-1]) / 0.01)
    return (level * fade * np.sin(2 * np.pi * 220 * axis)).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.float32)


# A real voice ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["as written", "reversed", "longest first", "shortest first"])
def test_a_hundred_real_sentences_raise_no_alarm_in_any_order(order: str) -> None:
    sentences = list(spoken()) * 3
    if order == "reversed":
        sentences.reverse()
    elif order != "as written":
        sentences.sort(key=lambda pair: pair[1], reverse=order == "longest first")
    window = checks.DurationWindow()
    for wave, expected in sentences:
        assert checks.check(wave, RATE, expected, window).reasons == ()


def test_int16_is_judged_as_its_float_twin() -> None:
    for wave, expected in spoken()[:20]:
        verdict = checks.check(wave, RATE, expected, None)
        twin = checks.check(np.round(wave * 32_767).astype(np.int16), RATE, expected, None)
        assert twin.reasons == verdict.reasons
        assert twin.peak_dbfs == pytest.approx(verdict.peak_dbfs, abs=0.11)


FAULTS: dict[str, tuple[Callable[[Samples], Samples], str]] = {
    "NaN": (lambda w: np.where(np.arange(w.size) == w.size // 2, np.nan, w), "non-finite audio"),
    "inf": (lambda w: np.where(np.arange(w.size) == 7, -np.inf, w), "non-finite audio"),
    "empty": (lambda w: w[:0], "no audio"),
    "silent": (lambda w: 0 * w, "silence"),
    "nearly silent": (lambda w: 0.0005 * w, "silence"),
    "quiet": (
        lambda w: np.where(np.arange(w.size) == 0, 0.0015, 0.004 * w / abs(w).max()),
        "too quiet",
    ),
    "over full scale": (lambda w: 10 * w, "clipped"),
    "clipped at full scale": (lambda w: np.clip(10 * w, -1, 1), "clipped"),
    "clipped lower": (lambda w: np.clip(8 * w, -0.4, 0.4), "clipped"),
    "offset": (lambda w: w + 0.1, "DC offset"),
    "late start": (lambda w: np.concatenate([silence(2), w]), "leading silence"),
    "late end": (lambda w: np.concatenate([w, silence(2)]), "trailing silence"),
    "hole": (lambda w: np.concatenate([w, silence(2), w]), "inner silence"),
    "half": (lambda w: w[: w.size // 2], "too short"),
    "twice": (lambda w: np.concatenate([w, w]), "too long"),
    "runaway": (lambda w: np.tile(w, 5), "too long"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_in_every_sentence(fault: str) -> None:
    plant, reason = FAULTS[fault]
    window = learnt()
    for wave, expected in spoken():
        bad = plant(wave).astype(np.float32)
        verdict = checks.check(bad, RATE, expected, deepcopy(window))
        assert reason in verdict.reasons
        assert not verdict.ok
        assert verdict.fatal == (reason in checks.FATAL)


def test_most_cuts_in_the_middle_of_a_sentence_are_found() -> None:
    window = learnt()
    random = np.random.default_rng(3)
    found = total = 0
    for wave, expected in spoken():
        start, stop = np.flatnonzero(np.abs(wave) > 0.02)[[0, -1]]
        cut = wave[: int(random.uniform(start + 0.3 * (stop - start), stop))]
        found += not checks.check(cut, RATE, expected, window).ok
        total += 1
    assert found > 0.6 * total


# Levels and silence ---------------------------------------------------------------------------


def test_levels_are_told() -> None:
    verdict = checks.check(tone(1.0, level=0.5), RATE, 1.0, None)
    assert verdict.peak_dbfs == pytest.approx(-6.0, abs=0.1)
    assert verdict.rms_dbfs == pytest.approx(-9.0, abs=0.2)
    assert checks.check(silence(1.0), RATE, 1.0, None).peak_dbfs == -120.0


def test_the_reasons_stand_worst_first_and_make_one_line() -> None:
    wave = np.concatenate([silence(2), tone(1.0)]) + 0.1
    verdict = checks.check(wave.astype(np.float32), RATE, 3.0, None, finish="limit")
    assert verdict.reasons == ("stopped at the limit", "cut off", "DC offset")
    assert verdict.reason == "stopped at the limit, cut off, DC offset"


def test_a_model_that_stopped_at_its_limit_is_suspect() -> None:
    verdict = checks.check(tone(1.0), RATE, 1.0, None, finish="limit")
    assert verdict.reasons == ("stopped at the limit",)


def test_a_pause_that_was_asked_for_is_no_hole() -> None:
    wave = np.concatenate([tone(1.0), silence(3), tone(1.0)])
    assert checks.check(wave, RATE, 5.0, None).reasons == ("inner silence",)
    assert checks.check(wave, RATE, 5.0, None, longest_pause=3.0).ok


@pytest.mark.parametrize("num_samples", [1, 2, 5, 100, 239, 241])
def test_the_shortest_audio_can_be_judged(num_samples: int) -> None:
    wave = np.full(num_samples, 0.1, np.float32)
    assert not checks.check(wave, RATE, 0.01, checks.DurationWindow()).fatal


@pytest.mark.parametrize("level", [0.05, 0.3, 0.9, 1.0])
def test_a_pure_tone_is_not_taken_for_clipped(level: float) -> None:
    wave = tone(1.0, level)
    assert checks.check(wave, RATE, 1.0, None).ok
    assert checks.check(np.round(wave * 32_767).astype(np.int16), RATE, 1.0, None).ok


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-2, 2, width=32), max_size=400), st.integers(8_000, 48_000))
def test_any_samples_get_a_verdict(samples: list[float], sample_rate: int) -> None:
    wave = np.array(samples, np.float32)
    verdict = checks.check(wave, sample_rate, 0.1, checks.DurationWindow())
    assert set(verdict.reasons) <= set(checks.WEIGHTS)
    assert math.isfinite(verdict.score)
    assert -120 <= verdict.rms_dbfs <= verdict.peak_dbfs + 0.1


# Choosing between attempts --------------------------------------------------------------------


def test_the_best_attempt_has_the_highest_score() -> None:
    window = learnt()
    wave, expected = spoken()[0]
    ranking = [
        wave,
        np.concatenate([wave, silence(2)]),
        np.tile(wave, 2),
        np.tile(wave, 5),
        0 * wave,
    ]
    scores = [checks.check(attempt, RATE, expected, window).score for attempt in ranking]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


# The window -----------------------------------------------------------------------------------


def pairs(count: int, bad: float = 0.0, seed: int = 1) -> list[tuple[float, float]]:
    """Actual and expected seconds of a voice with a tempo of its own; a share runs away."""
    random = np.random.default_rng(seed)
    expected = random.uniform(0.5, 12, count)
    actual = (0.4 + 0.7 * expected) * np.exp(0.05 * random.standard_normal(count))
    actual = np.where(random.random(count) < bad, 5 * actual, actual)
    return list(zip(actual.tolist(), expected.tolist(), strict=True))


def test_a_new_window_stops_only_what_is_absurd() -> None:
    window = checks.DurationWindow()
    assert abs(window.deviation(2.0, 1.0)) < 1
    assert window.deviation(30.0, 3.0) > 1
    assert window.deviation(0.3, 5.0) < -1


def test_a_window_learns_tempo_and_edges() -> None:
    window = checks.DurationWindow()
    for pair in pairs(200):
        window.add(*pair)
    for expected in (0.6, 3.0, 11.0):
        right = 0.4 + 0.7 * expected
        assert window.deviation(right, expected) == pytest.approx(0, abs=0.15)
        assert window.deviation(2 * right, expected) > 1
        assert window.deviation(right / 2, expected) < -1


def test_a_third_of_runaways_does_not_move_the_window() -> None:
    window = checks.DurationWindow()
    for pair in pairs(300, bad=0.33):
        window.add(*pair)
    assert abs(window.deviation(0.4 + 0.7 * 4, 4.0)) < 0.3
    assert window.deviation(5 * (0.4 + 0.7 * 4), 4.0) > 1


def test_a_window_follows_a_voice_that_changes() -> None:
    window = checks.DurationWindow()
    for _ in range(checks.MEMORY):
        window.add(2.0, 2.0)
    for actual, expected in pairs(2 * checks.MEMORY):
        window.add(actual, expected)
    assert abs(window.deviation(0.4 + 0.7 * 8, 8.0)) < 0.3


def test_texts_of_one_length_need_no_slope() -> None:
    window = checks.DurationWindow()
    for number in range(100):
        window.add(2.0 + 0.01 * (number % 5), 1.0)
    assert abs(window.deviation(2.0, 1.0)) < 0.2
    assert window.deviation(4.5, 1.0) > 1


def test_a_fault_of_another_kind_teaches_the_window_nothing() -> None:
    window = checks.DurationWindow()
    for _ in range(checks.LEARNING):
        checks.check(tone(1.0), RATE, 1.0, window)
        checks.check(silence(9.0), RATE, 1.0, window)
        checks.check(tone(9.0), RATE, 1.0, window, finish="limit")
    assert checks.check(tone(1.0), RATE, 1.0, window).ok
    assert checks.check(tone(3.0), RATE, 1.0, window).reasons == ("too long",)


def test_a_window_can_be_sent_to_a_worker() -> None:
    window = learnt()
    copy = pickle.loads(pickle.dumps(window))
    assert copy.deviation(3.0, 2.0) == window.deviation(3.0, 2.0)
