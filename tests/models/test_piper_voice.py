"""The .json of a voice, its speakers, its folder and its licence."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from batchtts import models
from batchtts.errors import MissingExtraError, VoiceError
from batchtts.models.base import VoiceInfo
from batchtts.models.piper import adapter as piper
from batchtts.models.piper.voice import read_voice

MadeVoice = Callable[[str], Path]


def copied(made_voice: MadeVoice, folder: Path, kind: str = "medium", **changes: Any) -> Path:
    """A voice in a folder of its own, its .json changed; None takes a key away."""
    source = made_voice(kind)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.name
    path.write_bytes(source.read_bytes())
    content = json.loads(source.with_name(f"{source.name}.json").read_text()) | changes
    content = {key: value for key, value in content.items() if value is not None}
    path.with_name(f"{path.name}.json").write_text(json.dumps(content))
    return path


def test_a_voice_is_described(made_voice: MadeVoice, tmp_path: Path) -> None:
    path = copied(made_voice, tmp_path, "x_low-4")
    (tmp_path / "MODEL_CARD").write_text("# Card\n\n* License: CC BY-NC 4.0\n")
    info = piper.voice(str(path))
    assert isinstance(info, VoiceInfo)
    assert info.languages == ("en-US",)
    assert info.sample_rate == 16000
    assert info.license == "CC BY-NC 4.0"
    assert info.non_commercial
    assert info.description == "Piper, 4 speakers"


def test_the_fingerprint_follows_both_files_and_not_the_path(
    made_voice: MadeVoice, tmp_path: Path
) -> None:
    paths = [copied(made_voice, tmp_path / name) for name in ("a", "b")]
    other = copied(made_voice, tmp_path / "c", inference={"length_scale": 2})
    prints = [piper.voice(str(path)).fingerprint for path in (*paths, other)]
    assert prints[0] == prints[1] != prints[2]
    assert piper.voice(str(paths[0])).license == "unknown"


def test_voices_are_found_in_folders(
    made_voice: MadeVoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(made_voice, tmp_path / "one" / "en")
    copied(made_voice, tmp_path / "two", "high-4")
    (tmp_path / "two" / "lonely.onnx").write_bytes(b"")
    monkeypatch.setenv("BATCHTTS_VOICES", f"{tmp_path / 'one'}:{tmp_path / 'two'}:/nowhere")
    assert list(piper.voices()) == ["medium", "high-4"]
    assert models.split("medium") == ("piper", "medium")
    assert piper.voice("high-4#2").name == "high-4#2"
    with pytest.raises(VoiceError, match=r"'tiny'; by name there are: medium, high-4"):
        piper.voice("tiny")
    monkeypatch.delenv("BATCHTTS_VOICES")
    with pytest.raises(VoiceError, match="BATCHTTS_VOICES names no folder"):
        piper.voice("medium")


def test_a_path_is_a_piper_voice() -> None:
    assert models.split("some/en.onnx") == ("piper", "some/en.onnx")
    assert models.split("some/en.onnx#3") == ("piper", "some/en.onnx#3")
    assert models.split("piper:en") == ("piper", "en")


def test_speakers_have_names_and_numbers(made_voice: MadeVoice) -> None:
    path = made_voice("medium-4")
    assert read_voice(str(path)).speaker == 0
    assert read_voice(f"{path}#2").speaker == 2
    assert read_voice(f"{path}#reader 3").speaker == 3
    for wrong in ("4", "-1", "nobody"):
        with pytest.raises(VoiceError, match="0 to 3, or by name: reader 0, reader 1"):
            read_voice(f"{path}#{wrong}")


def test_a_missing_onnx_is_named(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match=r"there is no file .*gone\.onnx"):
        piper.voice(str(tmp_path / "gone.onnx"))


def test_a_missing_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    with pytest.raises(VoiceError, match=r"a\.onnx\.json is missing: every Piper voice has two"):
        piper.voice(str(tmp_path / "a.onnx"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"audio": None}, "'audio'"),
        ({"espeak": {}}, "'voice'"),
        ({"phoneme_id_map": {"a": [1]}}, "phoneme_id_map without _ \\^ \\$"),
        ({"inference": {"noise_w": "loud"}}, "loud"),
        ({"phoneme_type": "pinyin"}, "'pinyin' is not supported; supported: espeak, text"),
        ({"phoneme_type": "japanese"}, "'japanese' is not supported"),
    ],
)
def test_a_wrong_json_is_named(
    changes: dict[str, Any], complaint: str, made_voice: MadeVoice, tmp_path: Path
) -> None:
    path = copied(made_voice, tmp_path, **changes)
    with pytest.raises(VoiceError, match=complaint):
        piper.voice(str(path))


@pytest.mark.parametrize("content", ["", "[]", "{", '"text"', "\x00"])
def test_what_is_no_json_is_named(content: str, made_voice: MadeVoice, tmp_path: Path) -> None:
    path = copied(made_voice, tmp_path)
    path.with_name(f"{path.name}.json").write_text(content)
    with pytest.raises(VoiceError, match=r"medium\.onnx\.json: not the \.json of a Piper voice"):
        piper.voice(str(path))


def test_a_missing_extra_is_said_before_the_run(
    made_voice: MadeVoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchtts.models.piper.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'batchtts\[piper\]'"):
        piper.voice(str(made_voice("medium")))
    spelled = copied(made_voice, tmp_path, phoneme_type="text")
    assert piper.voice(str(spelled)).languages == ("en-US",)  # needs no espeak-ng


def test_ids_beyond_the_weights_are_refused(made_voice: MadeVoice, tmp_path: Path) -> None:
    path = copied(made_voice, tmp_path / "a", phoneme_id_map={"_": [0], "^": [1], "$": [999]})
    with pytest.raises(VoiceError, match="the voice names 1000 symbols, its weights know 54"):
        piper.load(str(path), "cpu", "fp32")
    path = copied(made_voice, tmp_path / "b", "medium-4", num_speakers=5)
    with pytest.raises(VoiceError, match="the voice names 5 speakers, its weights know 4"):
        piper.load(str(path), "cpu", "fp32")


def test_an_espeak_voice_that_does_not_exist_is_named(
    made_voice: MadeVoice, tmp_path: Path
) -> None:
    pytest.importorskip("piper")
    path = copied(made_voice, tmp_path, espeak={"voice": "xx-none"})
    with pytest.raises(VoiceError, match="espeak-ng has no voice 'xx-none'"):
        piper.frontend(str(path))


def test_a_front_end_can_be_sent_to_another_process(made_voice: MadeVoice) -> None:
    frontend = piper.frontend(str(made_voice("medium-4")))
    assert pickle.loads(pickle.dumps(frontend)) == frontend
