"""What a person sees while a run works: a bar on a terminal, plain lines everywhere else.

Everything goes to standard error. Cron mails what a command prints, so without a terminal there is
one line at a time, ever more rarely, and no control character.
"""

import time
from dataclasses import dataclass, field
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from batchtts.data import Record
from batchtts.times import clock

PLAIN_SECONDS = (5.0, 10.0, 20.0, 30.0)
"""Pauses between the first plain lines; the last one repeats."""


@dataclass(slots=True)
class Tally:
    """What has come so far, and what is still to come."""

    utterances: int
    """To speak in this run."""
    seconds: float
    """Expected seconds of audio in them."""
    done: int = 0
    failed: int = 0
    audio: float = 0.0
    """Seconds of audio written."""
    _expected_done: float = 0.0
    _started: float = field(default_factory=time.monotonic)
    _first: float | None = None

    def add(self, record: Record, expected: float) -> None:
        """Count an utterance that ended, and the seconds that were expected of it."""
        if self._first is None:
            self._first = time.monotonic()
        self.done += 1
        self.failed += record.status == "failed"
        self.audio += record.duration
        self._expected_done += expected

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def speed(self) -> float:
        """Audio seconds per second since the first utterance ended."""
        passed = time.monotonic() - self._first if self._first else 0.0
        return self.audio / passed if passed > 0 else 0.0

    def eta(self) -> float | None:
        """Seconds until the end at the speed so far; None while unknown."""
        passed = time.monotonic() - self._first if self._first else 0.0
        if passed <= 0 or self._expected_done <= 0:
            return None
        return passed * max(0.0, self.seconds - self._expected_done) / self._expected_done

    def line(self) -> str:
        """All of it in one line."""
        parts = [f"{self.audio:.0f} s of audio", f"{self.speed():.1f}x real time"]
        eta = self.eta()
        if eta is not None and self.done < self.utterances:
            parts.append(f"{clock(eta)} left")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return ", ".join(parts)


class Screen(Protocol):
    """Shows a tally; a context manager around the run."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(self, *args: object) -> None:
        """Show the last state, and end."""
        ...

    def refresh(self, tally: Tally, note: str = "") -> None:
        """Show where the run stands; `note`: one more fact, such as the load of the devices."""
        ...

    def say(self, text: str) -> None:
        """Show a line that stays."""
        ...


class BarScreen:
    """A live bar at the bottom of a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[line]}"),
            console=console,
            transient=True,
            expand=True,
            refresh_per_second=8,
        )
        self._task = self._progress.add_task("", total=None, line="starting the workers")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def refresh(self, tally: Tally, note: str = "") -> None:
        """See `Screen`."""
        line = tally.line() if tally.done else f"starting, {clock(tally.elapsed())}"
        if note:
            line = f"{line}, {note}"
        self._progress.update(
            self._task, total=tally.utterances, completed=tally.done, line=escape(line)
        )

    def say(self, text: str) -> None:
        """See `Screen`."""
        self._progress.console.print(escape(text), soft_wrap=True, highlight=False)


class LineScreen:
    """A plain line now and then, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines = 0
        self._next = time.monotonic() + PLAIN_SECONDS[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def refresh(self, tally: Tally, note: str = "") -> None:
        """See `Screen`."""
        if time.monotonic() < self._next:
            return
        self._lines += 1
        pause = PLAIN_SECONDS[min(self._lines, len(PLAIN_SECONDS) - 1)]
        self._next = time.monotonic() + pause
        more = f", {note}" if note else ""
        line = tally.line() if tally.done else f"starting, {clock(tally.elapsed())}"
        self.say(f"{tally.done} of {tally.utterances} utterances, {line}{more}")

    def say(self, text: str) -> None:
        """See `Screen`."""
        self._console.print(escape(text), soft_wrap=True, highlight=False)


class NoScreen:
    """Shows nothing: `--quiet`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def refresh(self, tally: Tally, note: str = "") -> None:
        """See `Screen`."""

    def say(self, text: str) -> None:
        """See `Screen`."""


def screen_for(console: Console, *, quiet: bool) -> Screen:
    """The screen that suits where the output goes."""
    if quiet:
        return NoScreen()
    return BarScreen(console) if console.is_terminal else LineScreen(console)
