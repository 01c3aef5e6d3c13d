"""`batchtts status`: how a running or finished run stands, told by its folder alone.

Reads the manifest, the lock, the log and the summary; writes nothing, and asks no process.
"""

import fcntl
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from batchtts import manifest, shards, storage, summary
from batchtts.data import Record
from batchtts.errors import UsageError
from batchtts.folder import LOCK, LOG
from batchtts.shards import Shard
from batchtts.times import clock

if TYPE_CHECKING:
    from rich.console import RenderableType

State = Literal["running", "done", "stopped", "broken off"]
"""Broken off: no run holds the folder, and the last one wrote no summary. It can be resumed."""

EVENTS = 8
"""Last lines of the log that are shown."""
LOG_PART = 16_384
"""Bytes of the log that are read, at its beginning and at its end."""
RECENT_SECONDS = 120.0
"""The speed of a running run is that of this time."""
PLAN = re.compile(r"plan: (\d+) rows, (\d+) to speak, (\d+) s of audio expected")


def plan_line(rows: int, to_speak: int, seconds: float) -> str:
    """The line of run.log from which the ETA is told; the run writes it once it has its plan."""
    return f"plan: {rows} rows, {to_speak} to speak, {seconds:.0f} s of audio expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a run stands."""

    folder: Path
    state: State
    counts: dict[str, int]
    """Rows of the manifest by status."""
    suspects: int = 0
    """Rows that are ok but suspect."""
    rows: int | None = None
    """Rows of the input; None where the log does not say."""
    audio_seconds: float = 0.0
    """Audio in all files."""
    speed: float = 0.0
    """Audio seconds per second: lately while it runs, else of the last run."""
    eta_seconds: float | None = None
    """Seconds until the end; None where unknown or over."""
    holder: dict[str, Any] = field(default_factory=dict)
    """Process, host and start of the run that holds the folder; empty when none does."""
    last_finished: str = ""
    """When the last row was finished, UTC."""
    events: list[str] = field(default_factory=list)
    """The last lines of run.log."""
    parts: "list[Status]" = field(default_factory=list)
    """The shards, where the run is made of them."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {**asdict(self), "folder": str(self.folder)} | {
            "parts": [part.as_dict() for part in self.parts]
        }


def status(folder: Path, *, now: datetime | None = None) -> Status:
    """Tell how the run of an output folder stands.

    Args:
        folder: an output folder.
        now: the time in UTC; None: this moment.

    Raises:
        UsageError: no run ever wrote there.
    """
    now = now or datetime.now(UTC)
    books = [path for path in (folder / shards.FOLDER).glob("*") if Shard.from_name(path.name)]
    parts = [_status_of(path, now) for path in sorted(books)]
    if (folder / manifest.JOURNAL).exists() or (folder / LOCK).exists():
        return _status_of(folder, now, parts)
    if parts:
        return _together(folder, parts)
    message = f"{folder} is no output folder: it has no {manifest.JOURNAL} and no {LOG}"
    raise UsageError(message)


def _status_of(folder: Path, now: datetime, parts: list[Status] | None = None) -> Status:
    """The status told by the books in one folder."""
    records = list(manifest.read(folder).values())
    figures = storage.read_object(folder / summary.FILE)
    log = _log(folder / LOG)
    plan = next((match for line in log if (match := PLAN.search(line))), None)
    running = is_held(folder / LOCK)
    holder = storage.read_object(folder / LOCK) if running else {}
    speed, eta = float(figures.get("speed", 0.0)), None
    if running:
        speed, eta = _pace(records, plan, str(holder.get("since", "")), now)
    return Status(
        folder=folder,
        state="running" if running else figures.get("outcome", "broken off"),
        counts=dict(Counter(record.status for record in records)),
        suspects=sum(str(r.checks.get("verdict", "ok")) != "ok" for r in records),
        rows=int(plan[1]) if plan else None,
        audio_seconds=round(sum(record.duration for record in records), 1),
        speed=round(speed, 2),
        eta_seconds=eta,
        holder=holder,
        last_finished=max((record.finished_at for record in records), default=""),
        events=log[-EVENTS:],
        parts=parts or [],
    )


def is_held(lock: Path) -> bool:
    """Whether a living process holds a lock file, on this machine."""
    try:
        descriptor = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go at once, on close
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _pace(
    records: Sequence[Record], plan: re.Match[str] | None, since: str, now: datetime
) -> tuple[float, float | None]:
    """Audio seconds per second lately, and the seconds until the end where they can be told."""
    begin = max(since, _stamp(now - timedelta(seconds=RECENT_SECONDS)))
    passed = (now - datetime.fromisoformat(begin)).total_seconds()
    lately = [record for record in records if record.finished_at >= begin]
    if passed <= 0 or not lately:
        return 0.0, None
    speed = sum(record.duration for record in lately) / passed
    if plan is None:
        return speed, None
    done = [record for record in records if record.finished_at >= since]
    left = float(plan[3]) - sum(record.duration for record in done)
    rows_left = int(plan[2]) - len(done)
    if rows_left <= 0:
        return speed, None
    if left > 0 and speed > 0:
        return speed, round(left / speed)
    return speed, round(rows_left * passed / len(lately))  # it lasts longer than was expected


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _together(folder: Path, parts: list[Status]) -> Status:
    """The sum of the shards, which have not been merged yet."""
    states = {part.state for part in parts}
    order: tuple[State, ...] = ("running", "broken off", "stopped", "done")
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    running = [part for part in parts if part.state == "running"]
    return Status(
        folder=folder,
        state=next(state for state in order if state in states),
        counts=dict(counts),
        suspects=sum(part.suspects for part in parts),
        rows=None if any(p.rows is None for p in parts) else sum(p.rows or 0 for p in parts),
        audio_seconds=round(sum(part.audio_seconds for part in parts), 1),
        speed=round(sum(part.speed for part in running or parts), 2),
        eta_seconds=max(
            (p.eta_seconds for p in running if p.eta_seconds is not None), default=None
        ),
        last_finished=max(part.last_finished for part in parts),
        parts=parts,
    )


def _log(path: Path) -> list[str]:
    """The first and the last lines of a log, however long it is."""
    try:
        with path.open("rb") as file:
            data = file.read(LOG_PART)
            end = file.seek(0, os.SEEK_END)
            file.seek(max(len(data), end - LOG_PART))
            data += file.read()
    except OSError:
        return []
    return data.decode("utf-8", "replace").splitlines()


def render(status: Status) -> "RenderableType":
    """The status as a person reads it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(status):
        table.add_row(name, Text(text))  # not markup: "hibari:heart:" would become an emoji
    for part in status.parts:
        table.add_row(f"shard {part.folder.name}", Text(_line(part)))
    return Group(table, *(Text(event, style="dim") for event in status.events))


def _lines(status: Status) -> Iterator[tuple[str, str]]:
    """Name and text of each line of the table."""
    holder = status.holder
    who = f", process {holder['pid']} on {holder['host']} since {holder['since']}" if holder else ""
    yield "state", status.state + who
    yield "rows", _rows(status)
    if status.suspects:
        yield "suspect", f"{status.suspects}; listen: batchtts report {status.folder}"
    yield "audio", f"{clock(status.audio_seconds)}, {status.speed:.1f}x real time"
    if status.eta_seconds is not None:
        yield "left", f"about {clock(status.eta_seconds)}"
    if status.last_finished:
        yield "last row", f"finished {status.last_finished}"


def _rows(status: Status) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(status.counts.items()))
    done = sum(status.counts.values())
    whole = f" of {status.rows} ({done / status.rows:.0%})" if status.rows else ""
    return f"{done}{whole}: {counts}" if counts else f"0{whole}"


def _line(status: Status) -> str:
    """A shard in one line."""
    left = f", about {clock(status.eta_seconds)} left" if status.eta_seconds is not None else ""
    return f"{status.state}, {_rows(status)}, {status.speed:.1f}x real time{left}"
