"""The real hibari voice: a batch sounds as its utterances alone, in every precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from batchtts.models.base import Audio
from batchtts.models.contract import check
from batchtts.models.hibari import adapter
from batchtts.models.hibari.features import MAX_SIZE
from batchtts.models.hibari.model import SMALL_SIZES, Sizes
from tests.models.hibari_voice import TEXTS, model, prepare

TOLERANCE = {"fp32": 4e-3, "bf16": 1e-2}
"""Matrix kernels differ with the number of rows, and pitch is summed up into phase."""
GATE = 0.02
"""Log-mel distance to fp32 that is far from audible; another seed moves it by 0.003."""


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_contract_holds(precision: str) -> None:
    check(
        adapter,
        "heart",
        precision=precision,
        texts=TEXTS,
        tolerance=TOLERANCE[precision],
        largest=600,
    )


def test_the_largest_text_runs_in_windows() -> None:
    features = model("bf16").dummy(MAX_SIZE)
    assert features.size == MAX_SIZE
    (audio,) = model("bf16").synthesize([features])
    assert 0.5 < len(audio.wave) / 24_000 / features.seconds < 2


def test_a_long_sentence_in_windows_is_as_in_one_go() -> None:
    features = model().dummy(200)
    one = Sizes(ids=1600, frames=10_000, spectrum=10_000)
    windows = Sizes(ids=1600, frames=100, spectrum=37)
    waves = [model()._submit([features], sizes, pcm16=False)()[0].wave for sizes in (one, windows)]
    assert len(waves[0]) > 24_000
    assert np.abs(waves[0] - waves[1]).max() < TOLERANCE["fp32"]


def test_sentences_of_a_text_are_spoken_alone_and_joined() -> None:
    both = prepare("Good morning. How can we help you today?", seed=5)
    assert len(both.data.sentences) == 2
    alone = [
        replace(both, data=replace(both.data, sentences=(sentence,)))
        for sentence in both.data.sentences
    ]
    (joined,) = model().synthesize([both])
    first, second = model().synthesize(alone)
    assert len(joined.wave) == len(first.wave) + len(second.wave)
    difference = np.abs(joined.wave[: len(first.wave)] - first.wave)
    assert difference.max() < TOLERANCE["fp32"]


def test_speeds_mix_in_a_batch() -> None:
    batch = [prepare(TEXTS[1], speed=speed) for speed in (0.5, 1.0, 2.0)]
    together = model().synthesize(batch)
    for features, audio in zip(batch, together, strict=True):
        (alone,) = model().synthesize([features])
        assert len(alone.wave) == len(audio.wave)
        assert len(audio.wave) / 24_000 == pytest.approx(features.seconds, rel=0.25)


def test_the_estimate_of_seconds_is_good() -> None:
    for text in TEXTS:
        features = prepare(text)
        (audio,) = model().synthesize([features])
        assert len(audio.wave) / 24_000 == pytest.approx(features.seconds, rel=0.2)


def test_bf16_keeps_the_durations_and_is_within_the_gate() -> None:
    batch = [prepare(text, seed=i) for i, text in enumerate(TEXTS)]
    for exact, coarse in zip(
        model("fp32").synthesize(batch), model("bf16").synthesize(batch), strict=True
    ):
        assert len(exact.wave) == len(coarse.wave)
        assert np.abs(log_mel(exact) - log_mel(coarse)).mean() < GATE
        noise = exact.wave - coarse.wave
        assert 20 * np.log10(exact.wave.std() / noise.std()) > 35


def log_mel(audio: Audio) -> NDArray[np.float32]:
    """Log of 80 mel bands [80, frames]."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 12_000 / 700), 82) / 2595) - 1)
    hertz = np.linspace(0, 12_000, 513)
    rise = (hertz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - hertz) / np.diff(edges)[1:, None]
    bands = np.maximum(0, np.minimum(rise, fall))
    wave = torch.from_numpy(audio.wave.copy())
    spectrum = torch.stft(wave, 1024, 256, window=torch.hann_window(1024), return_complex=True)
    mel: NDArray[np.float32] = np.log(np.maximum(bands @ spectrum.abs().numpy(), 1e-5))
    return mel


def test_little_memory_gives_the_same() -> None:
    features = prepare(TEXTS[2])
    (usual,) = model().synthesize([features])
    assert SMALL_SIZES.frames < MAX_SIZE
    frugal = model().synthesize_in_chunks(features)
    assert np.abs(usual.wave - frugal.wave).max() < TOLERANCE["fp32"]


def test_a_dummy_shorter_than_a_sentence_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        model().dummy(2)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_the_contract_holds_on_a_gpu(precision: str) -> None:
    check(adapter, "heart", "cuda:0", precision=precision, texts=TEXTS, tolerance=2e-2)


@pytest.mark.gpu
def test_a_gpu_sounds_as_the_cpu() -> None:
    there = adapter.load("heart", "cuda:0", "fp32")
    batch = [prepare(text, seed=i) for i, text in enumerate(TEXTS)]
    for ours, theirs in zip(model().synthesize(batch), there.synthesize(batch), strict=True):
        assert len(ours.wave) == len(theirs.wave)
        assert np.abs(log_mel(ours) - log_mel(theirs)).mean() < GATE
