"""When a run shall stop: on a signal, at a deadline. Stopping is always resumable."""

import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from types import FrameType
from typing import Self

from batchtts.errors import Exit, StoppedError, UsageError

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ASKED_SECONDS = 2.0
"""Whoever watches a run asks whether to stop more often than this."""
CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def parse_deadline(text: str, now: datetime) -> float:
    """Seconds from `now` until a deadline: "6h", "90m", or the next "07:00" of the local clock.

    Raises:
        UsageError: it is neither.
    """
    if duration := DURATION.fullmatch(text):
        return float(duration[1]) * UNITS[duration[2]]
    if clock := CLOCK.fullmatch(text):
        wall = now.replace(tzinfo=None)  # what a clock on the wall says, whatever its zone does
        end = wall.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        if end <= wall:
            end += timedelta(days=1)
        return end.timestamp() - now.timestamp()
    message = (
        f"deadline: {text!r} is no time; write a duration (90m, 6h, 1.5d) or a clock time (07:00)"
    )
    raise UsageError(message)


class Stopper:
    """Listens to SIGINT and SIGTERM and to the clock; a context manager around a run.

    The first signal asks for an orderly stop, the second for one at once. Where nobody asks, as
    while a long input is read, there is nothing on the devices: the first one ends the run.
    """

    def __init__(self, deadline_seconds: float | None) -> None:
        self._end = None if deadline_seconds is None else time.monotonic() + deadline_seconds
        self._signals = 0
        self._asked = -ASKED_SECONDS
        self.exit_code: Exit | None = None
        """Why the run was stopped; None while it was not."""
        self._before: dict[int, signal.Handlers | Callable[..., object] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self.exit_code is None or self.exit_code is Exit.DEADLINE:
            self.exit_code = Exit.SIGINT if number == signal.SIGINT else Exit.SIGTERM
        if time.monotonic() - self._asked >= ASKED_SECONDS:
            raise StoppedError(signal.Signals(number).name, self.exit_code)

    def stage(self) -> int:
        """0: go on; 1: finish what is on the devices; 2: at once. See `coordinator.Stop`."""
        self._asked = time.monotonic()
        if self._end is not None and self._asked > self._end and self.exit_code is None:
            self.exit_code = Exit.DEADLINE
        if self.exit_code is None:
            return 0
        return 2 if self._signals > 1 else 1
