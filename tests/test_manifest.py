"""The journal: nothing lost by a crash, nothing believed that is not there (C108)."""

import csv
import errno
import json
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts import jsonline, manifest
from batchtts.data import Record
from batchtts.errors import StorageError

CASES = Path(__file__).parent / "cases"


def record(id: str, **fields: Any) -> Record:
    defaults: dict[str, Any] = {
        "status": "ok",
        "file": f"audio/{id}.wav",
        "duration": 1.25,
        "sample_rate": 24_000,
        "text": "Hello there.",
        "voice": "hibari:heart",
        "key": "0123456789abcdef",
        "seed": 2**63 - 1,
        "checks": {"verdict": "ok", "bytes": 60_044, "crc32": "0a0b0c0d"},
    }
    return Record(id=id, **(defaults | fields))


def write(folder: Path, *records: Record) -> Path:
    with manifest.Journal(folder) as journal:
        journal.append_all(records)
    return folder / manifest.JOURNAL


# Writing and reading --------------------------------------------------------------------------


def test_a_record_comes_back_as_it_went(tmp_path: Path) -> None:
    first = record("1", text='내일 "오전"\n\t\u2028\x85\\', reason="", speed=0.5, source="a.csv:2")
    second = record("2", status="failed", file="", duration=0.0, checks={})
    with manifest.Journal(tmp_path / "new" / "folder") as journal:
        journal.append(first)
        journal.append(second)
    assert manifest.read(tmp_path / "new" / "folder") == {"1": first, "2": second}


def test_lines_hold_all_fields_in_the_order_of_the_record(tmp_path: Path) -> None:
    path = write(tmp_path, record("1", text="내일"))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    assert list(json.loads(lines[0])) == list(record("1").as_dict())
    assert "내일" in lines[0]


def test_each_record_is_in_the_file_at_once(tmp_path: Path) -> None:
    with manifest.Journal(tmp_path) as journal:
        journal.append(record("1"))
        assert list(manifest.read(tmp_path)) == ["1"]


def test_runs_append(tmp_path: Path) -> None:
    write(tmp_path, record("1"))
    write(tmp_path, record("2"))
    assert list(manifest.read(tmp_path)) == ["1", "2"]


def test_the_last_line_of_an_id_counts(tmp_path: Path) -> None:
    write(tmp_path, record("1", status="failed"), record("2"), record("1", attempts=2))
    assert manifest.read(tmp_path)["1"] == record("1", attempts=2)


def test_without_a_journal_nothing_is_known(tmp_path: Path) -> None:
    assert manifest.read(tmp_path) == {}
    assert manifest.read_prior(tmp_path / "missing") == {}
    assert list(manifest.read_in_order(tmp_path, ["1"])) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("nan")])
def test_what_json_cannot_say_becomes_null(value: float, tmp_path: Path) -> None:
    path = write(tmp_path, record("1", checks={"levels": [value, 1.0], "x": {"y": value}}))
    line = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert line["checks"] == {"levels": [None, 1.0], "x": {"y": None}}


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, record("1", checks={"bytes": np.int64(5), "rms": np.float32(-20.5)}))
    assert json.loads(path.read_text())["checks"] == {"bytes": 5, "rms": -20.5}


def test_half_a_surrogate_pair_survives(tmp_path: Path) -> None:
    write(tmp_path, record("\ud800", text="x\udfff내일"))
    assert manifest.read(tmp_path)["\ud800"].text == "x\udfff내일"


@given(st.text(), st.text(), st.floats(0, 1e6), st.integers(0, 2**63 - 1))
def test_any_text_makes_one_line(id: str, text: str, duration: float, seed: int) -> None:
    made = record(id, text=text, duration=duration, seed=seed)
    line = jsonline.encode(made)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Record(**json.loads(line)) == made


# Crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", range(0, 500, 23))
def test_a_torn_last_line_costs_that_line_alone(kept: int, tmp_path: Path) -> None:
    path = write(tmp_path, record("1"), record("2"))
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    torn = whole[: start + min(kept, len(whole) - start - 2)]
    path.write_bytes(torn)
    assert list(manifest.read(tmp_path)) == ["1"]
    write(tmp_path, record("3"))
    assert list(manifest.read(tmp_path)) == ["1", "3"]
    assert path.read_bytes()[:start] == whole[:start]


def test_a_last_line_that_lacks_only_its_line_feed_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, record("1"))
    path.write_bytes(path.read_bytes()[:-1])
    assert list(manifest.read(tmp_path)) == ["1"]
    write(tmp_path, record("2"))
    assert list(manifest.read(tmp_path)) == ["1", "2"]


def test_a_torn_first_line_leaves_an_empty_journal(tmp_path: Path) -> None:
    (tmp_path / manifest.JOURNAL).write_bytes(b'{"id": "1", "sta')
    write(tmp_path, record("2"))
    assert list(manifest.read(tmp_path)) == ["2"]


def test_a_tail_of_zeros_after_a_power_cut_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path, record("1"))
    path.write_bytes(path.read_bytes() + b"\0" * 200_000)
    write(tmp_path, record("2"))
    assert list(manifest.read(tmp_path)) == ["1", "2"]
    assert b"\0" not in path.read_bytes()


def test_garbage_lines_are_ignored_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    garbage = [
        b"not json",
        b"[1, 2]",
        b'{"no": "id"}',
        b'{"id": 5, "status": "ok"}',
        b'{"id": "x", "status": "fine"}',
        b'{"id": "x", "status": "ok", "duration": "long"}',
        b'{"id": "x", "status": "ok", "checks": []}',
        b"\xff\xfe\x00",
    ]
    path = write(tmp_path, record("1"))
    path.write_bytes(b"\n".join([*garbage, b""]) + path.read_bytes() + b"\n\n")
    with caplog.at_level(logging.WARNING):
        assert list(manifest.read(tmp_path)) == ["1"]
    assert "8 lines are no records, ignored (line 1, 2, 3, 4, 5, ...)" in caplog.text


def test_unknown_keys_are_ignored_and_missing_ones_have_their_default(tmp_path: Path) -> None:
    line = {"id": "1", "status": "ok", "mood": "calm", "duration": 2}
    (tmp_path / manifest.JOURNAL).write_text(json.dumps(line) + "\n")
    assert manifest.read(tmp_path) == {"1": Record(id="1", status="ok", duration=2)}


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_is_an_error_of_storage(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with manifest.Journal(tmp_path) as journal:
        journal.append(record("1"))
        monkeypatch.setattr(manifest, "SYNC_SECONDS", 0.0)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            with pytest.raises(StorageError, match=r"No space left .*bytes free"):
                journal.append(record("2"))
        journal.append(record("3"))
    assert {"1", "3"} <= set(manifest.read(tmp_path))


def test_a_line_torn_by_a_full_disk_spoils_no_later_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:100])

    with manifest.Journal(tmp_path) as journal:
        journal.append(record("1"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(StorageError):
                journal.append(record("2"))
    write(tmp_path, record("3"))
    assert list(manifest.read(tmp_path)) == ["1", "3"]


def test_the_journal_goes_to_the_disk_itself_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    clock = iter(np.arange(100.0, 200.0, 0.5))
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    with manifest.Journal(tmp_path) as journal:
        for number in range(20):
            journal.append(record(str(number)))
        assert 4 <= len(synced) <= 6
    assert len(synced) <= 7


def test_a_folder_that_cannot_be_made_is_an_error_of_storage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(StorageError, match=r"file: .*\(.*free"),
        manifest.Journal(tmp_path / "file"),
    ):
        pass


# Resuming and tidying -------------------------------------------------------------------------


def test_prior_holds_what_resuming_needs(tmp_path: Path) -> None:
    write(tmp_path, record("1"), record("2", status="failed", file="", checks={}))
    first, second = manifest.read_prior(tmp_path).values()
    assert (first.id, first.status, first.key, first.file) == (
        *("1", "ok", "0123456789abcdef", "audio/1.wav"),
    )
    assert (first.duration, first.sample_rate, first.bytes) == (1.25, 24_000, 60_044)
    assert (second.status, second.bytes) == ("failed", None)


def test_records_can_be_read_in_any_order_one_by_one(tmp_path: Path) -> None:
    write(tmp_path, *(record(str(n)) for n in range(10)), record("3", attempts=2))
    found = manifest.read_in_order(tmp_path, ["7", "missing", "3"])
    assert isinstance(found, Iterator)
    assert list(found) == [record("7"), record("3", attempts=2)]


def test_tidying_leaves_one_line_for_each_row_in_input_order(tmp_path: Path) -> None:
    path = write(tmp_path, record("3"), record("1"), record("gone"), record("3", attempts=2))
    with path.open("ab") as file:
        file.write(b"garbage\n")
    manifest.tidy(tmp_path, ["1", "2", "3"])
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines == [jsonline.encode(record("1")), jsonline.encode(record("3", attempts=2))]
    assert [entry.name for entry in tmp_path.iterdir()] == [manifest.JOURNAL]
    write(tmp_path, record("4"))
    assert list(manifest.read(tmp_path)) == ["1", "3", "4"]


def test_a_compaction_that_fails_leaves_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, record("1"), record("1"))
    before = path.read_bytes()

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError):
        manifest.compact(tmp_path, manifest.read(tmp_path).values())
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [manifest.JOURNAL]


def test_c108_the_journal_of_a_crash_is_judged_by_the_files(tmp_path: Path) -> None:
    from batchtts import output
    from batchtts.config import OutputConfig

    lines = (CASES / "C108_manifest.jsonl").read_text().splitlines()
    tone = np.full(22_050 // 2, 0.1, np.float32)
    for line in map(json.loads, lines):
        made = record(line["id"], file=line["file"], duration=0.5, sample_rate=22_050)
        made = replace(made, checks={"bytes": line["bytes"]})
        write(tmp_path, made)
        if line["id"] != "gone":
            output.write(tmp_path / line["file"], tone, 22_050, OutputConfig(), lease=1)
    right = {
        prior.id: output.holds(
            tmp_path / prior.file, prior.duration, prior.sample_rate, prior.bytes
        )
        for prior in manifest.read_prior(tmp_path).values()
    }
    assert right == {"ok1": True, "gone": False, "size": False}


# Tables ---------------------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_begins_with_the_file_name_and_keeps_the_order(tmp_path: Path) -> None:
    records = [
        record("2", text='One, "two"\nthree', checks={"verdict": "suspect:too long"}),
        record("1", status="failed", file="", reason="empty text", checks={}),
        record("007", text="내일"),
    ]
    manifest.write_csv(tmp_path, records)
    path = tmp_path / manifest.TABLE
    assert path.read_bytes().startswith(b"file_name,id,status,")
    found = rows(path)
    assert [row["id"] for row in found] == ["2", "1", "007"]
    assert found[0]["file_name"] == "audio/2.wav"
    assert found[0]["text"] == 'One, "two"\nthree'
    assert found[0]["verdict"] == "suspect:too long"
    assert found[1]["reason"] == "empty text"
    assert found[2]["text"] == "내일"


def test_failed_rows_keep_their_own_columns(tmp_path: Path) -> None:
    failed: list[dict[str, object]] = [
        {"code": "007", "satz": 'a "b", c\nd', "reason": "the voice cannot say: 👍", "x": 1},
        {"code": "8", "reason": "empty text"},
    ]
    manifest.write_failed(tmp_path, failed, ["code", "satz", "reason"])
    assert rows(tmp_path / manifest.FAILED) == [
        {"code": "007", "satz": 'a "b", c\nd', "reason": "the voice cannot say: 👍"},
        {"code": "8", "satz": "", "reason": "empty text"},
    ]


def test_without_failed_rows_there_is_no_file(tmp_path: Path) -> None:
    manifest.write_failed(tmp_path, [{"id": "1"}], ["id"])
    assert (tmp_path / manifest.FAILED).exists()
    manifest.write_failed(tmp_path, [], ["id"])
    assert not (tmp_path / manifest.FAILED).exists()
    manifest.write_failed(tmp_path, [], ["id"])


def test_starting_over_forgets_all_records(tmp_path: Path) -> None:
    write(tmp_path, record("1"))
    manifest.forget(tmp_path)
    assert manifest.read(tmp_path) == {}
    manifest.forget(tmp_path)
