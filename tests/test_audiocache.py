import json
from pathlib import Path

import pytest
import soundfile

from batchtts import manifest
from batchtts.audiocache import AudioCache, open_cache
from batchtts.errors import Exit, StorageError, UsageError
from batchtts.models.fake import mark_of, read_mark
from batchtts.options import Options
from batchtts.summary import Summary
from tests.test_run import generate, write

ROWS: list[tuple[str, ...]] = [
    ("id", "text"),
    *((f"u{n}", f"Text {n}.") for n in range(6)),
    ("twin", "Text 1."),
]


def speak(tmp_path: Path, name: str, options: Options | None = None, **more: object) -> Summary:
    source = write(tmp_path / "in.csv", ROWS)
    cache = str(tmp_path / "cache")
    return generate(source, tmp_path / name, options, **{"output.cache": cache}, **more)


def entries(tmp_path: Path, suffix: str) -> list[Path]:
    return sorted((tmp_path / "cache").rglob(f"*{suffix}"))


def test_another_run_takes_everything_from_the_cache(tmp_path: Path) -> None:
    first = speak(tmp_path, "one")
    assert (first.spoken, first.copied) == (6, 1)
    assert len(entries(tmp_path, ".wav")) == len(entries(tmp_path, ".json")) == 6
    assert {path.parent.name for path in entries(tmp_path, ".wav")} == {
        path.stem[:2] for path in entries(tmp_path, ".wav")
    }

    second = speak(tmp_path, "two")
    assert (second.spoken, second.copied, second.devices) == (0, 7, {})
    assert second.counts == {"ok": 7}
    assert second.exit_code is Exit.OK
    one, two = manifest.read(tmp_path / "one"), manifest.read(tmp_path / "two")
    for id, record in two.items():
        assert record.checks["cached"]
        assert record.checks["crc32"] == one[id].checks["crc32"]
        assert (record.model, record.seed) == (one[id].model, one[id].seed)
        wave, _ = soundfile.read(tmp_path / "two" / record.file, dtype="float32")
        assert read_mark(wave) == mark_of(record.text)
    inodes = {path.stat().st_ino for path in tmp_path.rglob("*.wav")}
    assert len(inodes) == 6, "all are hard links"
    third = speak(tmp_path, "two")
    assert (third.kept, third.copied) == (7, 0)


def test_only_what_sounds_the_same_comes_from_the_cache(tmp_path: Path) -> None:
    speak(tmp_path, "one")
    assert speak(tmp_path, "two", speed=1.5).spoken == 6
    assert speak(tmp_path, "three", None, **{"output.format": "flac"}).spoken == 6
    assert speak(tmp_path, "four", Options(limit=3), **{"output.layout": "folders"}).copied == 3


def test_a_broken_entry_is_spoken_again_and_mended(tmp_path: Path) -> None:
    speak(tmp_path, "one")
    cut, edited, missing = entries(tmp_path, ".wav")[:3]
    torn, empty = entries(tmp_path, ".json")[3:5]
    cut.write_bytes(cut.read_bytes()[:-2])
    content = edited.read_bytes()
    edited.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    missing.unlink()
    torn.write_text(torn.read_text()[:40])
    empty.write_text("{}")
    second = speak(tmp_path, "two")
    assert (second.spoken, second.counts) == (5, {"ok": 7})
    for path in tmp_path.glob("two/audio/*.wav"):
        soundfile.read(path)
    assert speak(tmp_path, "three").spoken == 0


def test_doubtful_audio_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "in.csv", [("id", "text"), ("a", "Fine."), ("b", "Bad ☢ text.")])
    more = {"output.cache": str(tmp_path / "cache"), "text.on_unspeakable": "strip"}
    assert generate(source, tmp_path / "one", None, **more).counts == {"ok": 2}
    (facts,) = entries(tmp_path, ".json")
    assert json.loads(facts.read_text())["checks"]["verdict"] == "ok"
    monkeypatch.setenv("BATCHTTS_FAKE", json.dumps({"runaway_share": 1.0}))
    assert generate(source, tmp_path / "two", Options(fresh=True), **more).suspects == 2
    assert len(entries(tmp_path, ".json")) == 1


def test_fresh_speaks_all_the_same(tmp_path: Path) -> None:
    speak(tmp_path, "one")
    assert speak(tmp_path, "two", Options(fresh=True)).spoken == 6


def test_a_run_that_is_told_to_stop_leaves_the_rest(tmp_path: Path) -> None:
    speak(tmp_path, "one")
    stopped = speak(tmp_path, "two", deadline="0m")
    assert stopped.outcome == "stopped"
    assert stopped.copied == 0


def test_a_cache_that_cannot_be(tmp_path: Path) -> None:
    assert open_cache(None) is None
    with pytest.raises(UsageError, match="folder of this machine"):
        open_cache("s3://bucket/cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        AudioCache(tmp_path / "file/cache")
