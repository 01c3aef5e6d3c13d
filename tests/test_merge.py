"""The books of shards become one manifest, or it is told which shard is to run again."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts import manifest
from batchtts.data import Record, Status
from batchtts.errors import Exit, IncompleteError, UsageError
from batchtts.merge import merge
from batchtts.models.fake import mark_of, read_mark
from batchtts.places import Disk
from batchtts.shards import Coverage, Shard
from batchtts.summary import Summary

STATUSES: tuple[Status, ...] = ("ok", "ok", "ok", "failed", "skipped")


def record(line: int) -> Record:
    """The record of a line of the input, as a run leaves it."""
    status = STATUSES[line % len(STATUSES)]
    return Record(
        id=f"{line:06d}",
        status=status,
        reason="" if status == "ok" else f"reason {line % 2}",
        file=f"audio/{line:06d}.wav" if status == "ok" else "",
        text=f"text {line}",
        source=f"t.csv:{line}",
    )


def write_shards(folder: Path, rows: int, total: int) -> list[Shard]:
    """The books of a run of so many rows, all shards ended."""
    records = [record(line) for line in range(2, rows + 2)]
    whole = Coverage()
    for row in records:
        whole.add(row.id)
    shards = [Shard(number, total) for number in range(total)]
    for shard in shards:
        books, own = shard.folder(folder), [row for row in records if shard.owns(row.id)]
        books.mkdir(parents=True)
        manifest.compact(books, own)
        failed = [row for row in own if row.status == "failed"]
        cells = [{"Name": r.id, "Said": r.text, "reason": r.reason} for r in failed]
        manifest.write_failed(books, cells, ["Name", "Said", "reason"])
        summary = Summary(
            outcome="done",
            exit_code=Exit.OK,
            counts=dict(Counter(row.status for row in own)),
            spoken=len(own),
            positions=100,
            padding_share=shard.number / 10,
            shard={"name": shard.name, **whole.facts()},
        )
        summary.add_times(10.0, 1.0 + shard.number)
        summary.write(books)
    return shards


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 60), total=st.integers(2, 6))
def test_any_number_of_shards_makes_one_manifest(
    tmp_path_factory: pytest.TempPathFactory, rows: int, total: int
) -> None:
    folder = tmp_path_factory.mktemp("run")
    write_shards(folder, rows, total)

    merged = merge(Disk(folder))

    expected = [record(line) for line in range(2, rows + 2)]
    assert list(manifest.records(folder)) == expected
    assert merged.counts == Counter(row.status for row in expected)
    assert (folder / "failed.csv").exists() == ("failed" in merged.counts)
    assert merged.exit_code == (Exit.FAILED_ROWS if "failed" in merged.counts else Exit.OK)


def test_tables_are_in_input_order_with_the_input_s_columns(tmp_path: Path) -> None:
    write_shards(tmp_path, 20, 3)

    merge(Disk(tmp_path))

    with (tmp_path / "failed.csv").open(encoding="utf-8-sig", newline="") as file:
        failed = list(csv.DictReader(file))
    assert [row["Name"] for row in failed] == ["000003", "000008", "000013", "000018"]
    assert failed[0] == {"Name": "000003", "Said": "text 3", "reason": "reason 1"}
    with (tmp_path / "manifest.csv").open(encoding="utf-8", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [f"{n:06d}" for n in range(2, 22)]


def test_figures_add_up_and_the_slowest_shard_tells_the_time(tmp_path: Path) -> None:
    write_shards(tmp_path, 20, 4)

    merge(Disk(tmp_path))

    found = json.loads((tmp_path / "summary.json").read_text())
    assert (found["spoken"], found["audio_seconds"], found["wall_seconds"]) == (20, 40.0, 4.0)
    assert (found["speed"], found["rtf"]) == (10.0, 0.1)
    assert found["padding_share"] == 0.15


def test_merging_twice_changes_nothing(tmp_path: Path) -> None:
    write_shards(tmp_path, 20, 3)
    files = ("manifest.jsonl", "manifest.csv", "failed.csv", "summary.json")

    merge(Disk(tmp_path))
    first = [(tmp_path / name).read_bytes() for name in files]
    merge(Disk(tmp_path))

    assert [(tmp_path / name).read_bytes() for name in files] == first


def _without_folder(books: Path) -> None:
    books.rename(books.parent / "moved")


def _killed(books: Path) -> None:
    (books / "summary.json").unlink()


def _stopped(books: Path) -> None:
    text = (books / "summary.json").read_text()
    (books / "summary.json").write_text(text.replace('"done"', '"stopped"'))


def _torn(books: Path) -> None:
    (books / "summary.json").write_text('{"outc')


def _other_input(books: Path) -> None:
    text = (books / "summary.json").read_text()
    (books / "summary.json").write_text(text.replace('"rows": 20', '"rows": 19'))


def _lost_line(books: Path) -> None:
    lines = (books / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (books / "manifest.jsonl").write_bytes(b"".join(lines[1:]))


def _line_twice(books: Path) -> None:
    lines = (books / "manifest.jsonl").read_bytes().splitlines(keepends=True)
    (books / "manifest.jsonl").write_bytes(b"".join([*lines, lines[-1]]))


def _line_of_another(books: Path) -> None:
    text = (books / "manifest.jsonl").read_text()
    other = next(f"{n:06d}" for n in range(100) if not Shard(1, 3).owns(f"{n:06d}"))
    first = text.split('"')[3]
    (books / "manifest.jsonl").write_text(text.replace(f'"{first}"', f'"{other}"', 1))


def _lost_failure(books: Path) -> None:
    (books / "failed.csv").unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        pytest.param(_without_folder, "shard 1/3 is missing", id="missing"),
        pytest.param(_killed, "shard 1/3 has not ended", id="killed"),
        pytest.param(_stopped, "shard 1/3 was stopped before its end", id="stopped"),
        pytest.param(_torn, "shard 1/3 has a broken summary.json", id="torn-summary"),
        pytest.param(_other_input, "did not read the same input", id="other-input"),
        pytest.param(_lost_line, "again with --shard 1/3", id="lost-line"),
        pytest.param(_line_twice, "again with --shard 1/3", id="line-twice"),
        pytest.param(_line_of_another, "again with --shard 1/3", id="line-of-another-shard"),
        pytest.param(_lost_failure, "again with --shard 1/3", id="lost-failure"),
    ],
)
def test_what_is_not_covered_is_named(
    tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    shards = write_shards(tmp_path, 20, 3)
    harm(shards[1].folder(tmp_path))

    with pytest.raises(IncompleteError, match=message) as caught:
        merge(Disk(tmp_path))

    assert caught.value.exit_code == Exit.FAILED_ROWS
    assert not (tmp_path / "summary.json").exists()


def test_a_folder_without_shards_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no shards under"):
        merge(Disk(tmp_path))


def test_shards_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    write_shards(tmp_path, 20, 3)
    write_shards(tmp_path, 20, 4)

    with pytest.raises(UsageError, match="divided by 3 and 4 under"):
        merge(Disk(tmp_path))


@pytest.mark.slow
def test_four_shards_at_once_one_of_them_killed(tmp_path: Path) -> None:
    texts = [f"This is the sentence number {number} of four shards." for number in range(400)]
    (tmp_path / "t.txt").write_text("\n".join([*texts, texts[0]]) + "\n")
    out = tmp_path / "out"
    environment = {**os.environ, "BATCHTTS_FAKE": '{"item_seconds": 0.02}', "OMP_NUM_THREADS": "1"}

    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "batchtts", *arguments]

    def shard(number: int) -> subprocess.Popen[bytes]:
        options = ("--voice", "fake:tone", "--devices", "cpu", "--batch-size", "8", "--quiet")
        arguments = ("generate", str(tmp_path / "t.txt"), "-o", str(out), *options)
        return subprocess.Popen(command(*arguments, "--shard", f"{number}/4"), env=environment)

    processes = [shard(number) for number in range(4)]
    journal = out / "shards" / "2-of-4" / "manifest.jsonl"
    end = time.monotonic() + 60
    while not journal.exists() or journal.stat().st_size == 0:
        assert time.monotonic() < end
        time.sleep(0.02)
    processes[2].send_signal(signal.SIGKILL)
    assert [process.wait(120) for process in processes] == [0, 0, -signal.SIGKILL, 0]
    before = len(manifest.read(journal.parent))

    refused = subprocess.run(
        command("merge", str(out)), check=False, capture_output=True, text=True
    )
    assert refused.returncode == Exit.FAILED_ROWS
    assert "shard 2/4 has not ended" in refused.stderr
    assert 0 < before < sum(Shard(2, 4).owns(f"{n:06d}") for n in range(1, 402))

    assert shard(2).wait(120) == 0
    assert subprocess.call(command("merge", str(out))) == 0
    records = list(manifest.records(out))
    assert [record.id for record in records] == [f"{number:06d}" for number in range(1, 402)]
    import soundfile

    for record in records:
        wave, _ = soundfile.read(out / record.file, dtype="float32")
        assert read_mark(wave) == mark_of(record.text)
    assert len(list((out / "audio").iterdir())) == 401
