"""The adapter: its voices, its precisions, and how little it imports."""

import pytest

from batchtts import host
from batchtts.errors import VoiceError
from batchtts.models.hibari import adapter


def test_the_voices_are_those_of_the_package() -> None:
    voices = adapter.voices()
    assert "heart" in voices
    assert voices["heart"].languages == ("en-US",)
    assert voices["emma"].languages == ("en-GB",)
    assert "downloaded" in voices["emma"].description
    assert "downloaded" not in voices["heart"].description
    assert len({voice.fingerprint for voice in voices.values()}) == len(voices)


def test_an_unknown_voice_lists_those_there_are() -> None:
    for ask in (adapter.voice, adapter.frontend, lambda name: adapter.load(name, "cpu", "fp32")):
        with pytest.raises(VoiceError, match=r"'nobody'.* heart, "):
            ask("nobody")


def test_a_voice_that_cannot_be_fetched_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(name: str, download_missing: bool) -> str:
        message = f"{name} is far away"
        raise RuntimeError(message) if download_missing else FileNotFoundError(f"{name}.onnx")

    monkeypatch.setattr("hibari.voices.voice_path", no_network)
    with pytest.raises(VoiceError, match=r"put them at emma.onnx, or set HF_HUB_OFFLINE=0"):
        adapter.load("emma", "cpu", "fp32")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with pytest.raises(VoiceError, match="emma is far away"):
        adapter.load("emma", "cpu", "fp32")


@pytest.mark.parametrize(
    ("has_tiles", "expected"), [(True, ("bf16", "fp32")), (False, ("fp32", "bf16"))]
)
def test_bf16_comes_first_where_the_cpu_has_tiles_for_it(
    has_tiles: bool, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "has_bf16_tiles", lambda: has_tiles)
    assert adapter.precisions("cpu") == expected


def test_every_gpu_has_tf32_first() -> None:
    assert adapter.precisions("cuda:1")[0] == "tf32"
    assert set(adapter.precisions("cuda:1")) == {"tf32", "fp32", "bf16"}
