"""Every kind of voice: equal to onnxruntime without noise, and never changed by its neighbours."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from batchtts.models.base import Features
from batchtts.models.piper import adapter, store
from batchtts.models.vits.features import Speech
from batchtts.models.vits.model import VitsModel
from tests.models.made_voices import KINDS, SYMBOLS
from tests.models.sameness import difference, worst_difference

LENGTHS = (5, 40, 13, 90, 9, 9)
MadeVoice = Callable[[str], Path]


def features(length: int, seed: int = 1, **changes: float) -> Features:
    ids = np.random.default_rng(length).integers(0, len(SYMBOLS), length)
    speech = Speech(
        sentences=(tuple(map(int, ids)),), length_scale=1.0, noise_scale=0.667, noise_w=0.8
    )
    changed = replace(speech, **changes)  # type: ignore[arg-type]
    return Features(size=length, seconds=1.0, seed=seed, data=changed)


def batch(kind: str, **changes: float) -> list[Features]:
    speakers = KINDS[kind].speakers
    return [features(n, seed=k, speaker=k % speakers, **changes) for k, n in enumerate(LENGTHS)]


def load(path: Path) -> VitsModel:
    model = adapter.load(str(path), "cpu", "fp32")
    assert isinstance(model, VitsModel)
    return model


@pytest.fixture
def medium(made_voice: MadeVoice) -> VitsModel:
    return load(made_voice("medium"))


@pytest.mark.parametrize("kind", KINDS)
def test_equals_onnxruntime_without_noise(kind: str, made_voice: MadeVoice) -> None:
    path = made_voice(kind)
    session = onnxruntime.InferenceSession(str(path))
    spoken = batch(kind, noise_scale=0.0, noise_w=0.0)
    for item, audio in zip(spoken, load(path).synthesize(spoken), strict=True):
        feed = {
            "input": np.array([item.data.sentences[0]]),
            "input_lengths": np.array([item.size]),
            "scales": np.array([0.0, 1.0, 0.0], dtype=np.float32),
        }
        if KINDS[kind].speakers > 1:
            feed["sid"] = np.array([item.data.speaker])
        truth = session.run(None, feed)[0].reshape(-1)
        assert truth.std() > 1e-3
        assert difference(audio.wave, truth) < 1e-5 * np.abs(truth).max()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_items_alone(kind: str, made_voice: MadeVoice) -> None:
    assert worst_difference(load(made_voice(kind)), batch(kind)) < 1e-5


def test_grouped_attention_is_the_same(medium: VitsModel) -> None:
    spoken = batch("medium")
    alone = medium.synthesize(spoken)
    medium._network.group_area = 1 << 24  # as on a GPU: all items padded to one length
    for a, b in zip(medium.synthesize(spoken), alone, strict=True):
        assert difference(a.wave, b.wave) < 1e-5


@pytest.mark.parametrize(("tile", "step"), [(512, 128), (64, 8), (13, 5), (1, 1)])
def test_tiles_of_any_size_are_seamless(medium: VitsModel, tile: int, step: int) -> None:
    spoken = batch("medium")[:3]
    tiled = medium._submit(spoken, tile, step, pcm16=False)()
    for a, b in zip(tiled, medium.synthesize(spoken), strict=True):
        assert difference(a.wave, b.wave) < 1e-5


def test_neighbours_may_have_other_speeds_noises_and_speakers(made_voice: MadeVoice) -> None:
    model = load(made_voice("medium-4"))
    spoken = [
        features(30, 1, speaker=0),
        features(30, 1, speaker=3),
        features(30, 1, speaker=3, length_scale=2.0),
        features(30, 1, speaker=3, noise_scale=0.0),
        features(30, 1, speaker=3, noise_w=0.0),
    ]
    assert worst_difference(model, spoken) < 1e-5
    waves = [audio.wave for audio in model.synthesize(spoken)]
    assert len(waves[2]) > len(waves[1])
    others = [w for w in (waves[0], *waves[2:]) if w.shape == waves[1].shape]
    assert all(difference(w, waves[1]) > 1e-4 for w in others)


def test_the_seed_and_only_the_seed_makes_the_noise(medium: VitsModel) -> None:
    first, again, other = medium.synthesize([features(40, 1), features(40, 1), features(40, 2)])
    assert difference(first.wave, again.wave) < 1e-5
    assert first.wave.shape != other.wave.shape or difference(first.wave, other.wave) > 1e-3


def test_sentences_are_joined_with_the_pause(medium: VitsModel) -> None:
    one, two = features(20), features(30)
    speech = replace(one.data, sentences=one.data.sentences + two.data.sentences, pause=0.5)
    whole = medium.synthesize([replace(one, data=speech)])[0].wave
    pause = round(0.5 * medium.sample_rate)
    first = medium.synthesize([one])[0].wave
    assert difference(whole[: len(first)], first) < 1e-5
    assert not whole[len(first) : len(first) + pause].any()
    assert whole[len(first) + pause :].any()


def test_pcm16_is_the_rounded_waveform(medium: VitsModel) -> None:
    spoken = batch("medium")
    for a, b in zip(medium.submit(spoken, pcm16=True)(), medium.synthesize(spoken), strict=True):
        assert a.wave.dtype == np.int16
        assert difference(a.wave, b.wave * 32767.0) <= 0.51


def test_an_exploding_voice_is_cut_and_says_so(made_voice: MadeVoice) -> None:
    tensors, geometry = store.load(made_voice("medium"))
    mean = tensors["dp.flows.0.m"] - 12  # exp(12) frames for each id
    model = VitsModel({**tensors, "dp.flows.0.m": mean}, geometry, 22050, "cpu", "fp32")
    (audio,) = model.synthesize([features(10)])
    assert audio.finish == "limit"
    assert len(audio.wave) == (500 + 25 * 10) * 256


def test_broken_weights_are_heard_in_the_audio_and_break_nothing(made_voice: MadeVoice) -> None:
    tensors, geometry = store.load(made_voice("medium"))
    broken = {**tensors, "enc_p.emb.weight": tensors["enc_p.emb.weight"] * math.nan}
    (audio,) = VitsModel(broken, geometry, 22050, "cpu", "fp32").synthesize([features(10)])
    assert np.isnan(audio.wave).all()


def test_bf16_is_close_to_fp32(made_voice: MadeVoice) -> None:
    path = made_voice("medium")
    low = adapter.load(str(path), "cpu", "bf16").synthesize(batch("medium"))
    for a, b in zip(low, load(path).synthesize(batch("medium")), strict=True):
        assert len(a.wave) == len(b.wave)
        noise = ((a.wave - b.wave) ** 2).mean() / (b.wave**2).mean()
        assert noise < 10**-3  # 30 dB below


@pytest.mark.parametrize("size", [1, 2, 64])
def test_dummies_of_any_size_can_be_spoken(medium: VitsModel, size: int) -> None:
    dummy = medium.dummy(size)
    assert dummy.size == size
    (audio,) = medium.synthesize([dummy])
    assert len(audio.wave) >= size * 256


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["medium-4", "high"])
def test_a_gpu_speaks_the_same(kind: str, made_voice: MadeVoice) -> None:
    model = adapter.load(str(made_voice(kind)), "cuda", "fp32")
    assert worst_difference(model, batch(kind)) < 1e-4
    for a, b in zip(
        model.synthesize(batch(kind)), load(made_voice(kind)).synthesize(batch(kind)), strict=True
    ):
        assert difference(a.wave, b.wave) < 1e-3
