"""The program from end to end with the fake voice, in real worker processes."""

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import soundfile
from rich.console import Console

from batchtts import agenda, manifest, output, run
from batchtts.config import Config, load_config
from batchtts.errors import ConfigError, Exit, InputError, VoiceError
from batchtts.models.fake import mark_of, read_mark
from batchtts.options import Options
from batchtts.progress import NoScreen
from batchtts.summary import FILE, Summary, render


def settings(**overrides: object) -> Config:
    config = load_config(None, {"voice": "fake:tone", "devices": "cpu", **overrides})
    return config.model_copy(update={"output": output.resolve(config.output)})


def write(path: Path, rows: Sequence[tuple[str, ...]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def generate(
    source: str, folder: Path, options: Options | None = None, /, **more: object
) -> Summary:
    return run.generate(source, settings(**more), folder, options or Options(), NoScreen())


def test_a_run_and_its_books(tmp_path: Path) -> None:
    rows = [("id", "text"), ("b", "Second."), ("a", "First one."), ("bad", "☢"), ("none", " ")]
    source = write(tmp_path / "in.csv", rows)
    folder = tmp_path / "out"
    summary = generate(source, folder)

    assert summary.exit_code is Exit.FAILED_ROWS
    assert summary.counts == {"ok": 2, "failed": 1, "skipped": 1}
    records = manifest.read(folder)
    assert list(records) == ["b", "a", "bad", "none"], "the journal ends in input order"
    assert records["bad"].reason == "the voice cannot say: ☢"
    assert records["none"].reason == "empty text"
    for id in ("a", "b"):
        wave, _ = soundfile.read(folder / records[id].file, dtype="float32")
        assert read_mark(wave) == mark_of(records[id].text)
    with (folder / "manifest.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["file_name"] for row in table] == ["audio/b.wav", "audio/a.wav", "", ""]
    with (folder / "failed.csv").open(encoding="utf-8-sig") as file:
        assert list(csv.DictReader(file)) == [
            {"id": "bad", "text": "☢", "reason": "the voice cannot say: ☢"}
        ]
    kept = json.loads((folder / FILE).read_text())
    assert (kept["exit_code"], kept["counts"], kept["spoken"]) == (3, summary.counts, 3)
    assert kept["devices"]["0:cpu"].keys() == {
        "busy",
        "wait_prepare",
        "wait_write",
        "load",
        "probe",
    }


def test_failed_csv_is_a_valid_input(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", [("id", "text"), ("bad", "☢ here"), ("good", "fine")])
    generate(source, tmp_path / "out")
    failed = tmp_path / "out/failed.csv"
    failed.write_text(failed.read_text(encoding="utf-8-sig").replace("☢ ", ""), encoding="utf-8")
    summary = generate(str(failed), tmp_path / "mended")
    assert summary.counts == {"ok": 1}
    assert (tmp_path / "mended/audio/bad.wav").exists()


def test_twins_are_spoken_once_and_share_a_file(tmp_path: Path) -> None:
    rows = [("id", "text"), *((f"u{n}", f"Text {n % 3}.") for n in range(12))]
    summary = generate(write(tmp_path / "in.csv", rows), tmp_path / "out")
    assert (summary.spoken, summary.copied, summary.counts) == (3, 9, {"ok": 12})
    files = list((tmp_path / "out/audio").iterdir())
    assert len(files) == 12
    assert len({file.stat().st_ino for file in files}) == 3, "copies are hard links"
    records = manifest.read(tmp_path / "out")
    assert records["u11"].checks["copy_of"] == "u2"

    more = [*rows, ("late", "Text 1.")]
    again = generate(write(tmp_path / "in.csv", more), tmp_path / "out")
    assert (again.spoken, again.copied, again.kept) == (0, 1, 12)


def test_twins_of_a_failure_fail_with_it(tmp_path: Path) -> None:
    rows = [("id", "text"), ("a", "☢"), ("b", "☢")]
    summary = generate(write(tmp_path / "in.csv", rows), tmp_path / "out")
    assert summary.counts == {"failed": 2}


def test_nothing_to_do_starts_no_worker(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", [("id", "text"), ("a", "One."), ("b", "Two.")])
    generate(source, tmp_path / "out")
    before = (tmp_path / "out/audio/a.wav").stat().st_mtime_ns
    again = generate(source, tmp_path / "out")
    assert (again.spoken, again.kept, again.devices) == (0, 2, {})
    assert (tmp_path / "out/audio/a.wav").stat().st_mtime_ns == before


def test_fresh_starts_over(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", [("id", "text"), ("a", "One.")])
    generate(source, tmp_path / "out")
    assert generate(source, tmp_path / "out", Options(fresh=True)).spoken == 1


def test_limit_takes_the_first_rows_and_more_later(tmp_path: Path) -> None:
    rows = [("id", "text"), *((f"u{n}", f"Text {n}.") for n in range(10))]
    source = write(tmp_path / "in.csv", rows)
    assert generate(source, tmp_path / "out", Options(limit=4)).counts == {"ok": 4}
    summary = generate(source, tmp_path / "out")
    assert (summary.spoken, summary.kept, summary.counts) == (6, 4, {"ok": 10})


def test_two_workers_make_what_one_makes(tmp_path: Path) -> None:
    rows = [("id", "text"), *((f"u{n}", "word " * (n % 11 + 1)) for n in range(40))]
    source = write(tmp_path / "in.csv", rows)
    generate(source, tmp_path / "one")
    generate(source, tmp_path / "two", devices="cpu,cpu", **{"batch.size": 3})
    one, two = manifest.read(tmp_path / "one"), manifest.read(tmp_path / "two")
    assert {i: r.checks["crc32"] for i, r in one.items()} == {
        i: r.checks["crc32"] for i, r in two.items()
    }


def test_per_row_voice_speed_and_file(tmp_path: Path) -> None:
    rows = [
        ("id", "text", "voice", "speed", "file"),
        ("a", "The same.", "fake:other", "2.0", "first.wav"),
        ("b", "The same.", "", "", ""),
    ]
    generate(write(tmp_path / "in.csv", rows), tmp_path / "out")
    records = manifest.read(tmp_path / "out")
    assert (records["a"].voice, records["a"].speed) == ("fake:other", 2.0)
    assert records["a"].file == "audio/first.wav"
    assert records["b"].duration > records["a"].duration


def test_many_rows_are_spread_over_folders_and_stay_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agenda, "FOLDERS_ABOVE", 5)
    rows = [("id", "text"), *((f"u{n}", f"Text {n}.") for n in range(8))]
    generate(write(tmp_path / "in.csv", rows), tmp_path / "out")
    assert all(r.file.count("/") == 2 for r in manifest.read(tmp_path / "out").values())
    summary = generate(write(tmp_path / "in.csv", rows[:4]), tmp_path / "out")
    assert summary.kept == 3, "fewer rows later do not move the files"


def test_what_cannot_work_is_told_before_anything_is_made(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", [("id", "text", "voice"), ("a", "x", "fake:nobody")])
    with pytest.raises(InputError, match=r"in\.csv:2: the fake family has no voice 'nobody'"):
        generate(source, tmp_path / "out")
    with pytest.raises(VoiceError, match="no voice"):
        generate(write(tmp_path / "b.csv", [("text",), ("x",)]), tmp_path / "o", voice="nobody")
    with pytest.raises(ConfigError, match="valid: auto, fp32"):
        generate(write(tmp_path / "b.csv", [("text",), ("x",)]), tmp_path / "o", precision="bf16")


def test_the_summary_is_readable(tmp_path: Path) -> None:
    rows = [("id", "text"), ("a", "One [bold] two."), ("b", "☢"), ("c", "Three.")]
    summary = generate(write(tmp_path / "in.csv", rows), tmp_path / "out")
    for width in (40, 80, 200):
        console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
        console.print(render(summary, "out"))
        text = console.export_text()
        assert "2 ok, 1 failed" in text
        assert all(len(line) <= width for line in text.splitlines())
        console.file.close()
