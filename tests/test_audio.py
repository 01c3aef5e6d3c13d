"""Joining, trimming, resampling, loudness and peaks, on made tones and on a real voice."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loudness import integrated_loudness
from numpy.typing import NDArray

from batchtts import audio, levels
from batchtts.audio import Samples
from batchtts.config import OutputConfig
from batchtts.formats import PRESETS, resolve

RATE = 24_000


def tone(seconds: float, frequency: float = 220, level: float = 0.3, rate: int = RATE) -> Samples:
    axis = np.arange(round(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * frequency * axis)).astype(np.float32)


def silence(seconds: float, rate: int = RATE) -> Samples:
    return np.zeros(round(seconds * rate), np.float32)


def framed(before: float, speech: float, after: float) -> Samples:
    """A tone between silences, seconds each."""
    return np.concatenate([silence(before), tone(speech), silence(after)])


def burst(seconds: float) -> Samples:
    """Noise with sharp peaks, like consonants: crest factor over 20 dB."""
    random = np.random.default_rng(1)
    wave: Samples = 0.02 * random.standard_normal(round(seconds * RATE), np.float32)
    wave[:: RATE // 4] = 0.9
    return wave


@cache
def voice() -> tuple[Samples, ...]:
    """A few sentences of the reference voice."""
    from hibari import Hibari

    texts = (
        "Good morning, and thank you for calling.",
        "Yes.",
        "Your appointment is on Tuesday, the third of May.",
        "Sister Susie's six fresh fish sticks!",
    )
    speak = Hibari("heart")
    return tuple(np.asarray(speak(text), np.float32) for text in texts)


def silences(wave: Samples, rate: int = RATE) -> list[float]:
    """Seconds of each silence inside, by 5 ms frames."""
    hop = rate // 200
    frames = audio.as_float(wave)[: wave.size // hop * hop].reshape(-1, hop)
    loud = np.flatnonzero(np.abs(frames).max(axis=1) > 0.003)
    return [float(gap - 1) * hop / rate for gap in np.diff(loud) if gap > 1]


# Joining --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_a_single_segment_is_untouched(dtype: type) -> None:
    wave: Samples = framed(0.3, 0.5, 0.3).astype(dtype)
    assert audio.join([wave], [500], RATE) is wave


@pytest.mark.parametrize("pause_ms", [60, 150, 500, 1200])
@pytest.mark.parametrize("edge", [0.0, 0.02, 0.3, 1.5])
def test_the_pause_is_the_whole_silence_however_much_the_segments_bring(
    pause_ms: int, edge: float
) -> None:
    wave = framed(edge, 0.4, edge)
    joined = audio.join([wave, wave, wave], [pause_ms, pause_ms, 0], RATE)
    assert joined.dtype == np.float32
    gaps = [gap for gap in silences(joined) if gap > 0.03]
    assert gaps == [pytest.approx(pause_ms / 1000, abs=0.015)] * 2


def test_the_outer_edges_of_a_joined_text_are_untouched() -> None:
    wave = framed(0.3, 0.4, 0.3)
    joined = audio.join([wave, wave], [100, 0], RATE)
    assert np.array_equal(joined[: wave.size // 2], wave[: wave.size // 2])
    assert np.array_equal(joined[-wave.size // 2 :], wave[-wave.size // 2 :])


def test_int16_segments_join_as_float() -> None:
    wave = np.round(framed(0.1, 0.2, 0.1) * 32_767).astype(np.int16)
    joined = audio.join([wave, wave], [100, 0], RATE)
    assert joined.dtype == np.float32
    assert np.abs(joined).max() == pytest.approx(0.3, abs=0.001)


def test_no_click_where_a_segment_is_cut_in_full_voice() -> None:
    wave = tone(0.4)[:-27]
    step = np.abs(np.diff(audio.join([wave, wave], [0, 0], RATE))).max()
    assert step <= np.abs(np.diff(wave)).max() * 1.01


def test_segments_without_audio_do_not_stack_pauses() -> None:
    wave = framed(0.2, 0.4, 0.2)
    joined = audio.join([silence(0), wave, silence(0), wave], [500, 100, 200, 0], RATE)
    assert [gap for gap in silences(joined) if gap > 0.03] == [pytest.approx(0.2, abs=0.015)]


def test_nothing_joins_to_nothing() -> None:
    assert audio.join([], [], RATE).size == 0
    assert audio.join([silence(0)], [100], RATE).size == 0


def test_a_segment_of_silence_alone_counts_as_pause() -> None:
    joined = audio.join([tone(0.3), silence(3), tone(0.3)], [150, 150, 0], RATE)
    assert joined.size / RATE < 0.3 + 0.3 + 0.6


def test_real_sentences_join_without_clicks_or_holes() -> None:
    waves = list(voice())
    joined = audio.join(waves, [150] * len(waves), RATE)
    starts = np.cumsum([0] + [wave.size for wave in waves])
    assert joined.size < starts[-1]  # the stacked edges are gone
    assert max(silences(joined)) <= 0.3
    inside = np.percentile(np.concatenate([np.abs(np.diff(wave)) for wave in waves]), 99.9)
    steps = np.abs(np.diff(joined))
    quiet = np.convolve(np.abs(joined[1:]) < 0.003, np.ones(240), "same") > 200
    assert steps[quiet].max() <= inside


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 0.3), st.floats(0, 0.3), st.integers(0, 400)), min_size=1, max_size=6
    )
)
def test_a_stream_joins_to_the_same(parts: list[tuple[float, float, int]]) -> None:
    waves = [framed(edge, speech, edge) for edge, speech, _ in parts]
    pauses = [pause for _, _, pause in parts]
    joiner = audio.Joiner(RATE)
    pieces = [joiner.add(wave, pause) for wave, pause in zip(waves, pauses, strict=True)]
    streamed = np.concatenate([*pieces, joiner.end()])
    assert np.array_equal(streamed, audio.join(waves, pauses, RATE))


# Finishing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize(
    "keys", [{}, {"sample_rate": RATE}, {"format": "flac"}, {"encoding": "mulaw"}]
)
def test_where_nothing_is_asked_for_the_waveform_is_untouched(
    dtype: type, keys: dict[str, Any]
) -> None:
    wave: Samples = framed(0.1, 0.1, 0.1).astype(dtype)
    finished, rate = audio.finish(wave, RATE, resolve(OutputConfig(**keys)))
    assert finished is wave
    assert rate == RATE


def test_trim_leaves_a_margin() -> None:
    output = OutputConfig(trim_silence=True)
    wave, _ = audio.finish(framed(0.5, 0.4, 0.7), RATE, output)
    assert wave.size / RATE == pytest.approx(0.4 + 2 * 0.05, abs=0.01)
    start, stop = audio.speech_bounds(wave, RATE)
    assert stop - start == pytest.approx(0.4 * RATE, abs=2 * RATE // 200)


@pytest.mark.parametrize("wave", [silence(0.5), silence(0), tone(0.5)])
def test_trim_leaves_pure_silence_and_pure_speech_alone(wave: Samples) -> None:
    assert np.array_equal(audio.finish(wave, RATE, OutputConfig(trim_silence=True))[0], wave)


def test_trim_and_pads_keep_int16() -> None:
    wave = np.round(framed(0.5, 0.2, 0.5) * 32_767).astype(np.int16)
    output = OutputConfig(trim_silence=True, pad_start_ms=250, pad_end_ms=100)
    finished, _ = audio.finish(wave, RATE, output)
    assert finished.dtype == np.int16
    assert finished.size / RATE == pytest.approx(0.3 + 0.35, abs=0.01)
    assert not finished[: RATE // 4].any()


def test_fades_begin_and_end_at_nothing() -> None:
    wave, _ = audio.finish(tone(0.5, level=0.5), RATE, OutputConfig(fade_ms=50))
    assert abs(wave[0]) < 0.001
    assert abs(wave[-1]) < 0.001
    assert np.array_equal(wave[RATE // 20 : -RATE // 20], tone(0.5, level=0.5)[1200:-1200])


def test_a_fade_longer_than_the_waveform_fits_it() -> None:
    wave, _ = audio.finish(tone(0.01), RATE, OutputConfig(fade_ms=1000))
    assert wave.size == 240
    assert np.isfinite(wave).all()


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_resampling_keeps_the_duration_and_folds_nothing_back(rate: int) -> None:
    wave = tone(1.0, 440) + tone(1.0, 5_300)
    finished, got = audio.finish(wave, RATE, OutputConfig(sample_rate=rate))
    assert got == rate
    assert finished.size == rate
    spectrum = np.abs(np.fft.rfft(finished * np.hanning(rate)))
    expected = {440, 5_300} if rate > 11_000 else {440}
    for frequency in expected:
        assert spectrum[frequency] > 0.1 * rate / 4
        spectrum[frequency - 5 : frequency + 6] = 0
    assert spectrum.max() < rate / 4 * 0.3 * 10 ** (-70 / 20)


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "asr-dataset"])
def test_presets_reach_their_loudness_under_their_ceiling(preset: str) -> None:
    output = resolve(OutputConfig(preset=preset))
    assert output.loudness is not None
    assert output.true_peak is not None
    for wave in voice():
        finished, rate = audio.finish(wave, RATE, output)
        if wave.size > RATE:
            assert integrated_loudness(finished, rate) == pytest.approx(output.loudness, abs=0.7)
        peak = levels.true_peak(audio.as_float(finished), rate)
        assert 20 * math.log10(peak) <= output.true_peak


def test_a_sharp_peak_is_held_without_making_the_rest_quieter() -> None:
    wave = burst(2.0)
    limited = levels.limit(audio.as_float(wave), RATE, -10.0)
    assert 20 * math.log10(levels.true_peak(limited, RATE)) <= -10.0
    between = slice(RATE // 8 - 1000, RATE // 8 + 1000)
    assert np.array_equal(limited[between], wave[between])


def test_a_waveform_under_the_ceiling_is_not_copied() -> None:
    wave = audio.as_float(tone(0.5, level=0.5))
    assert levels.limit(wave, RATE, -3.0) is wave


def test_peaks_between_the_samples_count() -> None:
    axis = np.arange(RATE)
    wave = np.sin(np.pi / 2 * axis + np.pi / 4).astype(np.float32)  # samples stop at 0.707
    assert np.abs(wave).max() < 0.71
    assert levels.true_peak(wave[100:-100], RATE) == pytest.approx(1.0, abs=0.02)


def test_loudness_of_a_short_waveform_is_that_of_a_longer_one_alike() -> None:
    short, long = (audio.as_float(tone(seconds, 1000)) for seconds in (0.2, 3.0))
    assert levels.loudness_of(short, RATE) == pytest.approx(levels.loudness_of(long, RATE), abs=0.3)


def test_loudness_leaves_silence_alone_and_bounds_the_gain() -> None:
    output = resolve(OutputConfig(loudness=-20.0))
    assert not audio.finish(silence(1.0), RATE, output)[0].any()
    assert audio.finish(silence(0), RATE, output)[0].size == 0
    hiss = tone(1.0, level=1e-3)
    finished, _ = audio.finish(hiss, RATE, output)
    assert np.abs(finished).max() == pytest.approx(1e-2, rel=0.01)


def test_pads_do_not_count_for_loudness() -> None:
    plain = resolve(OutputConfig(loudness=-23.0))
    padded = plain.model_copy(update={"pad_start_ms": 5000, "pad_end_ms": 5000})
    wave = voice()[0]
    without, _ = audio.finish(wave, RATE, plain)
    with_pads, _ = audio.finish(wave, RATE, padded)
    assert np.array_equal(with_pads[5 * RATE : -5 * RATE], without)


def test_full_scale_int16_survives_the_way_to_float_and_back() -> None:
    every = np.arange(-32_768, 32_768, dtype=np.int16)
    assert np.array_equal(np.rint(audio.as_float(every) * 32_767).astype(np.int16), every)


# Streams --------------------------------------------------------------------------------------


def through(pieces: list[Samples], output: OutputConfig) -> NDArray[Any]:
    finisher = audio.Finisher(RATE, output)
    return np.concatenate([*(finisher.add(piece) for piece in pieces), finisher.end()])


def test_a_short_stream_is_finished_as_a_whole() -> None:
    output = resolve(
        OutputConfig(preset="telephony", trim_silence=True, fade_ms=5, pad_start_ms=100)
    )
    whole, _ = audio.finish(np.concatenate(voice()), RATE, output)
    assert np.array_equal(through(list(voice()), output), whole)


def test_a_long_stream_is_finished_in_pieces_of_one_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audio, "LEVEL_SECONDS", 6)
    pieces = list(voice()) * 2
    output = resolve(
        OutputConfig(preset="audiobook", trim_silence=True, pad_start_ms=500, pad_end_ms=500)
    )
    streamed = through(pieces, output)
    whole, rate = audio.finish(np.concatenate(pieces), RATE, output)
    assert streamed.size == pytest.approx(whole.size, abs=2)
    assert integrated_loudness(streamed, rate) == pytest.approx(-18.0, abs=0.5)
    assert 20 * math.log10(levels.true_peak(streamed, rate)) <= -3.0
    assert not streamed[: rate // 2].any()
    assert not streamed[-rate // 2 :].any()


def test_a_stream_holds_little() -> None:
    finisher = audio.Finisher(RATE, resolve(OutputConfig(loudness=-20.0)))
    minute, out = tone(30.0), 0
    for count in range(1, 11):
        out += finisher.add(minute).size
        assert count * minute.size - out <= 3 * minute.size
    assert out + finisher.end().size == 10 * minute.size


# int16 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "needed"),
    [
        ({}, False),
        ({"format": "flac"}, False),
        ({"trim_silence": True, "pad_end_ms": 100}, False),
        ({"encoding": "pcm_24"}, True),
        ({"encoding": "float"}, True),
        ({"encoding": "mulaw"}, True),
        ({"sample_rate": 8_000}, True),
        ({"loudness": -20.0}, True),
        ({"true_peak": -1.0}, True),
        ({"fade_ms": 5}, True),
        ({"format": "opus"}, True),
    ],
)
def test_whether_samples_must_come_down_as_float(keys: dict[str, Any], needed: bool) -> None:
    assert audio.needs_float(resolve(OutputConfig(**keys))) is needed
