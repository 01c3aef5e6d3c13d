"""A real Piper voice: the contract, onnxruntime as the truth, and cases that broke other tools."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from batchtts.models.base import Features, Item
from batchtts.models.contract import check
from batchtts.models.piper import adapter
from batchtts.models.vits.model import VitsModel
from tests.conftest import CASES
from tests.models.sameness import difference

pytest.importorskip("piper")

TOLERANCE = 1e-4
"""Largest difference of samples, full scale being 1; 2e-5 to 4e-5 were measured."""


@pytest.fixture(scope="module")
def model(joe: str) -> VitsModel:
    loaded = adapter.load(joe, "cpu", "fp32")
    assert isinstance(loaded, VitsModel)
    return loaded


def case(joe: str, name: str, **options: float) -> list[Features]:
    frontend = adapter.frontend(joe)
    with (CASES / name).open(encoding="utf-8") as file:
        return [
            frontend.prepare(Item(text=row["text"], voice=joe, seed=seed, options=options))
            for seed, row in enumerate(csv.DictReader(file))
        ]


@pytest.mark.parametrize("kind", ["medium", "high-4"])
def test_the_contract(kind: str, made_voice: Callable[[str], Path]) -> None:
    voice = f"{made_voice(kind)}#0"
    texts = ["Yes.", "Good morning, Joe.", "The train leaves at nine. It is usually late."]
    coin = "\N{BITCOIN SIGN}"
    check(adapter, voice, texts=texts, unspeakable=coin, tolerance=TOLERANCE, largest=200)


def test_equals_onnxruntime_without_noise(joe: str, model: VitsModel) -> None:
    session = onnxruntime.InferenceSession(joe)
    spoken = case(joe, "C68_order.csv", noise_scale=0.0, noise_w=0.0)
    for features, audio in zip(spoken, model.synthesize(spoken), strict=True):
        (ids,) = features.data.sentences
        feed = {
            "input": np.array([ids]),
            "input_lengths": np.array([len(ids)]),
            "scales": np.array([0.0, 1.0, 0.0], dtype=np.float32),
        }
        truth = session.run(None, feed)[0].reshape(-1)
        assert difference(audio.wave, truth) < TOLERANCE
        assert difference(audio.wave[-512:], truth[-512:]) < 1e-6  # no neighbour is heard here


def test_a_short_text_beside_a_long_one_ends_cleanly(joe: str, model: VitsModel) -> None:
    short, long = case(joe, "C66_short_long.csv")
    long = replace(
        long, size=200, data=replace(long.data, sentences=(long.data.sentences[0][:200],))
    )
    together, _ = model.synthesize([short, long])
    (alone,) = model.synthesize([short])
    assert difference(together.wave, alone.wave) < TOLERANCE
    assert np.abs(together.wave[-100:]).max() < 1e-3
    assert 0.3 < len(together.wave) / model.sample_rate < 1.5
