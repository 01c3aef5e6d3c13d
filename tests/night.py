"""The program as cron starts it: real processes, the fake voice, and what they leave behind."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import soundfile

from batchtts import manifest
from batchtts.data import Record
from batchtts.models.fake import mark_of, read_mark
from batchtts.storage import TEMPORARY

BATCHTTS = str(Path(sys.executable).with_name("batchtts"))
PATIENCE = 120.0
"""Seconds; a test machine may be very busy."""


def write_rows(path: Path, count: int, text: Callable[[int], str] | None = None) -> Path:
    """An input of so many rows, all different."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "text"))
        for n in range(count):
            writer.writerow((f"u{n:04}", text(n) if text else f"This is sentence number {n}."))
    return path


def command(source: Path, folder: Path, *options: str) -> list[str]:
    """A run of the fake voice on two workers, with batches of ten."""
    fixed = ("--voice", "fake:tone", "--devices", "cpu,cpu", "--batch-size", "10")
    return [BATCHTTS, "generate", str(source), "-o", str(folder), *fixed, *options]


def environment(fake: dict[str, object] | None = None, **more: str) -> dict[str, str]:
    """This one, with the fake voice's switches; see `batchtts.models.fake.Sabotage`."""
    return {**os.environ, "BATCHTTS_FAKE": json.dumps(fake or {}), **more}


def generate(
    source: Path,
    folder: Path,
    *options: str,
    fake: dict[str, object] | None = None,
    patience: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run to the end."""
    return subprocess.run(
        command(source, folder, *options),
        env=environment(fake),
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


@contextmanager
def started(
    source: Path, folder: Path, *options: str, fake: dict[str, object] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start it in a process group of its own, and leave nothing of it behind."""
    with subprocess.Popen(
        command(source, folder, *options),
        env=environment(fake),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Wait until it is true; returns how long that took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, "waited in vain"
        time.sleep(0.01)
    return time.monotonic() - begin


def wait_within(run: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Wait until it is true, while the run lasts."""
    wait_for(lambda: condition() or run.poll() is not None)
    assert condition(), run.communicate()[1]


def records(folder: Path) -> dict[str, Record]:
    return manifest.read(folder)


def wait_for_records(run: subprocess.Popen[str], folder: Path, count: int) -> None:
    wait_within(run, lambda: len(records(folder)) >= count)


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = below.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def workers(pid: int) -> list[int]:
    """The worker processes of a run."""
    return [child for child in descendants(pid) if b"spawn_main" in command_line(child)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_alive(pid: int) -> bool:
    """Whether it runs; one that is dead and not yet buried does not."""
    return bool(command_line(pid))


def kill(pid: int) -> None:
    """SIGKILL to one of our own, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def log(folder: Path) -> str:
    """What run.log says so far."""
    try:
        return (folder / "run.log").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def summary(folder: Path) -> dict[str, object]:
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def check_folder(folder: Path, ids: list[str]) -> None:
    """Each row has exactly one record, each file says its own text, and nothing else is there."""
    lines = (folder / manifest.JOURNAL).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids
    found = records(folder)
    assert {record.status for record in found.values()} == {"ok"}
    for record in found.values():
        wave, rate = soundfile.read(folder / record.file, dtype="float32")
        assert read_mark(wave) == mark_of(record.text), record.id
        assert abs(len(wave) / rate - record.duration) < 1e-3
    files = {path for path in (folder / "audio").rglob("*") if path.is_file()}
    assert files == {folder / record.file for record in found.values()}
    assert unfinished(folder) == []


def unfinished(folder: Path) -> list[Path]:
    """Temporary files that were left behind."""
    return [path for path in folder.rglob(".*") if TEMPORARY.fullmatch(path.name)]
