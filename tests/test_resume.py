"""Going on after anything: what stands is kept, all else is made again (C98, C106, C108, C119)."""

import csv
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from batchtts import inputs, manifest, models, output, plan, run
from batchtts.config import Config, load_config
from batchtts.errors import Exit
from batchtts.manifest import JOURNAL
from batchtts.models.fake import mark_of, read_mark
from batchtts.options import Options
from batchtts.plan import Voice
from batchtts.progress import NoScreen
from batchtts.summary import Summary
from tests import night
from tests.conftest import CASES


def settings(**more: object) -> Config:
    overrides = {"voice": "fake:tone", "devices": "cpu", "batch.size": 10, **more}
    config = load_config(None, overrides)
    return config.model_copy(update={"output": output.resolve(config.output)})


def generate(source: Path, folder: Path, options: Options | None = None, **more: object) -> Summary:
    return run.generate(str(source), settings(**more), folder, options or Options(), NoScreen())


def says(folder: Path, id: str, text: str) -> bool:
    record = manifest.read(folder)[id]
    wave, _ = soundfile.read(folder / record.file, dtype="float32")
    return record.text == text and read_mark(wave) == mark_of(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An input of five rows, and the folder of a run that made them."""
    place = tmp_path_factory.mktemp("made")
    assert generate(night.write_rows(place / "in.csv", 5), place / "out").counts == {"ok": 5}
    return place


@pytest.fixture
def five(made: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of them."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "in.csv", tmp_path / "out"


def test_c106_only_what_changed_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    generate(CASES / "C106_v1.csv", folder)
    kept = (folder / "audio/c.wav").stat().st_mtime_ns
    second = generate(CASES / "C106_v2.csv", folder)
    assert (second.spoken, second.kept, second.gone) == (2, 1, 1)
    assert (folder / "audio/a.wav").exists(), "a file that is no longer asked for is left alone"
    assert (folder / "audio/c.wav").stat().st_mtime_ns == kept
    assert says(folder, "b", "This text has been edited.")
    third = generate(CASES / "C106_v2.csv", folder)
    assert (third.spoken, third.kept, third.devices) == (0, 3, {}), "no worker, no model"
    with (folder / "manifest.csv").open(encoding="utf-8") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("change", "spoken"),
    [
        ({"voice": "fake:other"}, 5),
        ({"speed": 1.5}, 5),
        ({"seed": 7}, 5),
        ({"output.sample_rate": 16_000}, 5),
        ({"output.format": "flac"}, 5),
        ({"batch.size": 2}, 0),
        ({"devices": "cpu,cpu"}, 0),
    ],
)
def test_what_shapes_the_audio_makes_it_again_and_nothing_else(
    change: dict[str, object], spoken: int, five: tuple[Path, Path]
) -> None:
    source, folder = five
    assert generate(source, folder, None, **change).spoken == spoken


def test_a_row_that_is_inserted_moves_nothing(five: tuple[Path, Path]) -> None:
    source, folder = five
    lines = source.read_text(encoding="utf-8").splitlines()
    source.write_text("\n".join([*lines[:2], "new,A new one.", *lines[2:]]), encoding="utf-8")
    again = generate(source, folder)
    assert (again.spoken, again.kept) == (1, 5)
    ids = [json.loads(line)["id"] for line in (folder / JOURNAL).read_text().splitlines()]
    assert ids == ["u0000", "new", "u0001", "u0002", "u0003", "u0004"]


def _delete(file: Path) -> None:
    file.unlink()


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def _foreign(file: Path) -> None:
    file.write_bytes(b"not audio at all".ljust(file.stat().st_size, b"."))


def _longer(file: Path) -> None:
    soundfile.write(file, [0.1] * 4000, 8000)


def _zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize("spoil", [_delete, _cut, _foreign, _longer, _zeros])
def test_a_file_that_is_not_as_its_record_says_is_made_again(
    spoil: Callable[[Path], None], five: tuple[Path, Path]
) -> None:
    source, folder = five
    spoil(folder / "audio/u0002.wav")
    again = generate(source, folder)
    assert (again.spoken, again.kept) == (1, 4)
    night.check_folder(folder, [f"u{n:04}" for n in range(5)])


def test_c98_broken_files_that_were_there_before_are_not_believed(tmp_path: Path) -> None:
    audio = tmp_path / "out/audio"
    audio.mkdir(parents=True)
    for name in ("zero", "header_only", "truncated", "wrong_rate", "garbage"):
        shutil.copy(CASES / f"C98_{name}.wav", audio / f"{name}.wav")
    assert generate(CASES / "C98_resume.csv", tmp_path / "out").counts == {"ok": 6}
    for id, record in manifest.read(tmp_path / "out").items():
        assert says(tmp_path / "out", id, record.text)


def test_c108_manifest_and_folder_that_disagree(tmp_path: Path) -> None:
    """A whole run, then a crash as the case tells it: gone, another size, a file without a row."""
    source, folder = CASES / "C108_input.csv", tmp_path / "out"
    generate(source, folder)
    (folder / "audio/gone.wav").unlink()
    with (folder / "audio/size.wav").open("ab") as file:
        file.write(bytes(100))
    lines = (folder / JOURNAL).read_text(encoding="utf-8").splitlines()
    rest = [line for line in lines if json.loads(line)["id"] != "orphan"]
    (folder / JOURNAL).write_text("\n".join(rest) + "\n", encoding="utf-8")
    again = generate(source, folder)
    assert (again.spoken, again.kept) == (3, 1)
    night.check_folder(folder, ["ok1", "gone", "size", "orphan"])


def test_a_torn_line_repeated_lines_and_garbage_cost_their_own_row_at_most(
    five: tuple[Path, Path],
) -> None:
    source, folder = five
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    journal = [lines[0], lines[1], lines[1], b"garbage\n", lines[0], lines[2], lines[3][:40]]
    (folder / JOURNAL).write_bytes(b"".join(journal))
    again = generate(source, folder)
    assert (again.spoken, again.kept) == (2, 3)
    night.check_folder(folder, [f"u{n:04}" for n in range(5)])


def test_failed_rows_stay_failed_until_they_are_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\na,☢\nb,fine\n", encoding="utf-8")
    folder = tmp_path / "out"
    assert generate(source, folder).exit_code is Exit.FAILED_ROWS
    again = generate(source, folder)
    assert (again.spoken, again.kept, again.exit_code) == (0, 2, Exit.FAILED_ROWS)
    retried = generate(source, folder, Options(retry_failed=True))
    assert (retried.spoken, retried.kept) == (1, 1)
    source.write_text("id,text\na,mended\nb,fine\n", encoding="utf-8")
    assert generate(source, folder).counts == {"ok": 2}
    assert not (folder / "failed.csv").exists()


def test_c119_neither_zone_nor_file_time_matters(
    five: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = five
    for file in (source, *(folder / "audio").iterdir(), folder / JOURNAL):
        os.utime(file, (4_000_000_000, 4_000_000_000))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        again = generate(source, folder, Options())
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (again.spoken, again.kept) == (0, 5)
    assert all(r.finished_at.endswith("Z") for r in manifest.read(folder).values())


FULL_DISK = """
set -u
mount -t tmpfs -o size={size} none "$1"
shift
"$@" && code=0 || code=$?
echo "first $code"
mount -o remount,size=32m "$OUT"
"$@" && code=0 || code=$?
echo "second $code"
cp -r "$OUT" "$COPY"
"""


@pytest.mark.parametrize("size", ["100k", "400k"])
def test_a_full_disk_stops_the_run_with_the_reason_and_it_goes_on(
    size: str, tmp_path: Path
) -> None:
    """On a tmpfs in a name space of its own, which takes its mounts along."""
    own = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no mount in a name space of its own can be made here")
    source = night.write_rows(tmp_path / "in.csv", 120)
    folder, copy = tmp_path / "out", tmp_path / "copy"
    folder.mkdir()
    script = ["sh", "-c", FULL_DISK.format(size=size), "sh", str(folder)]
    done = subprocess.run(
        [*own, *script, *night.command(source, folder)],
        env=night.environment(OUT=str(folder), COPY=str(copy)),
        capture_output=True,
        text=True,
        timeout=night.PATIENCE,
        check=False,
    )
    assert done.stdout == "first 1\nsecond 0\n", done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    night.check_folder(copy, [f"u{n:04}" for n in range(120)])


@pytest.mark.slow
def test_c105_two_hundred_thousand_files_are_looked_at_in_half_a_minute(tmp_path: Path) -> None:
    """A tenth of them in a tenth of the time: written by hand as a run would leave them."""
    count, folder = 20_000, tmp_path / "out"
    source = night.write_rows(tmp_path / "in.csv", count)
    voice = Voice(name="fake:tone", info=models.adapter("fake").voice("tone"))
    rows = inputs.read_rows(str(source), settings().input, print)
    audio = tmp_path / "one.wav"
    soundfile.write(audio, [0.1] * 800, 8000)
    with manifest.Journal(folder) as journal:
        for utterance, _ in plan.utterances(rows, settings(), lambda _: voice, folders=True):
            file = folder / utterance.file
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(audio, file)
            facts = {"file": utterance.file, "duration": 0.1, "sample_rate": 8000}
            checks = {"bytes": audio.stat().st_size}
            journal.append(plan.record_of(utterance, "in.csv", status="ok", checks=checks, **facts))
    begin = time.process_time()
    prior = manifest.read_prior(folder).values()
    right = [
        p.id for p in prior if output.holds(folder / p.file, p.duration, p.sample_rate, p.bytes)
    ]
    assert time.process_time() - begin < 3.0
    assert len(right) == count
    again = generate(source, folder)
    assert (again.spoken, again.kept) == (0, count)
