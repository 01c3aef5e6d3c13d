import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console

from batchtts import manifest
from batchtts.data import Record
from batchtts.errors import UsageError
from batchtts.status import LOG_PART, Status, plan_line, render, status

NOW = datetime(2026, 11, 30, 3, 0, 0, tzinfo=UTC)
SINCE = "2026-11-30T02:50:00Z"


def write(folder: Path, rows: int, *, ago: float = 0, seconds: float = 2.0) -> None:
    """Add rows to a manifest, one finished each second, the last so many seconds ago."""
    begin = sum(len(record.id) > 0 for record in manifest.read(folder).values())
    with manifest.Journal(folder) as journal:
        for number in range(rows):
            time = NOW - timedelta(seconds=ago + rows - 1 - number)
            journal.append(
                Record(
                    id=f"{begin + number}",
                    status="failed" if number == 3 else "ok",
                    duration=seconds,
                    checks={"verdict": "suspect:too long" if number == 4 else "ok"},
                    finished_at=time.strftime("%Y-%m-%dT%H:%M:%SZ"),
                )
            )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A folder that a run holds: 100 of 400 rows spoken, one a second."""
    write(tmp_path, 100)
    (tmp_path / "run.log").write_text(
        f"2026-11-30T02:50:00Z INFO {plan_line(400, 400, 800)}\n"
        + "2026-11-30T02:55:00Z INFO worker 0: hibari:heart: [bold]ready\n" * 1000,
        "utf-8",
    )
    assert (tmp_path / "run.log").stat().st_size > 2 * LOG_PART
    with FileLock(tmp_path / ".lock"):
        holder = {"pid": 4711, "host": "here", "since": SINCE}
        (tmp_path / ".lock").write_text(json.dumps(holder), "utf-8")
        yield tmp_path


def shown(found: Status) -> str:
    console = Console(width=100, file=StringIO())
    console.print(render(found))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_running_run_tells_its_speed_and_when_it_ends(running: Path) -> None:
    found = status(running, now=NOW)
    assert found.state == "running"
    assert found.counts == {"ok": 99, "failed": 1}
    assert (found.rows, found.suspects) == (400, 1)
    assert found.speed == pytest.approx(200 / 120, abs=0.01)
    assert found.eta_seconds == 360
    assert len(found.events) == 8
    text = shown(found)
    assert "running, process 4711 on here" in text
    assert "100 of 400 (25%): 1 failed, 99 ok" in text
    assert "about 6 min 00 s" in text
    assert "hibari:heart: [bold]ready" in text


def test_audio_that_lasts_longer_than_planned_still_gives_an_end(running: Path) -> None:
    (running / "run.log").write_text(plan_line(400, 400, 150), "utf-8")
    assert status(running, now=NOW).eta_seconds == 360


def test_without_a_plan_in_the_log_there_is_no_end(running: Path) -> None:
    (running / "run.log").unlink()
    found = status(running, now=NOW)
    assert (found.rows, found.eta_seconds, found.events) == (None, None, [])


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"):
        found = status(tmp_path, now=NOW)
    assert (found.state, found.speed, found.counts) == ("running", 0.0, {})
    assert "0" in shown(found)


def test_looking_does_not_disturb_the_lock(running: Path) -> None:
    status(running, now=NOW)
    assert status(running, now=NOW).state == "running"


def test_a_killed_run_was_broken_off(running: Path, tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.mkdir()
    (dead / ".lock").write_text((running / ".lock").read_text("utf-8"), "utf-8")
    write(dead, 5)
    found = status(dead, now=NOW)
    assert (found.state, found.holder, found.eta_seconds) == ("broken off", {}, None)


@pytest.mark.parametrize("outcome", ["done", "stopped"])
def test_a_finished_run_tells_what_its_summary_says(tmp_path: Path, outcome: str) -> None:
    write(tmp_path, 5)
    (tmp_path / "summary.json").write_text(
        json.dumps({"outcome": outcome, "speed": 31.25}), "utf-8"
    )
    found = status(tmp_path)
    assert (found.state, found.speed, found.audio_seconds) == (outcome, 31.25, 10.0)
    assert found.last_finished == "2026-11-30T03:00:00Z"
    assert json.loads(json.dumps(found.as_dict()))["state"] == outcome


def test_shards_are_told_one_by_one_and_together(tmp_path: Path) -> None:
    for name in ("0-of-2", "1-of-2"):
        write(tmp_path / "shards" / name, 5)
    (tmp_path / "shards" / "0-of-2" / "summary.json").write_text('{"outcome": "done"}', "utf-8")
    (tmp_path / "shards" / "notes").mkdir()
    found = status(tmp_path)
    assert (found.state, found.counts, len(found.parts)) == (
        "broken off",
        {"ok": 8, "failed": 2},
        2,
    )
    assert "shard 0-of-2" in shown(found)
    assert [part["state"] for part in found.as_dict()["parts"]] == ["done", "broken off"]


def test_a_folder_without_a_run_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no output folder"):
        status(tmp_path)
