"""Stopping: by a clock on the wall that may be set forward or back, and by signals."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from batchtts.errors import Exit, StoppedError, UsageError
from batchtts.stop import Stopper, parse_deadline

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = 3600.0


@pytest.fixture
def _new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90m", 1.5 * HOUR), ("6h", 6 * HOUR), ("1.5d", 36 * HOUR), ("2 h", 2 * HOUR)],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert parse_deadline(text, NOON) == seconds


@pytest.mark.usefixtures("_new_york")
@pytest.mark.parametrize(
    ("now", "text", "hours"),
    [
        (datetime(2026, 11, 30, 22, 0), "07:00", 9),
        (datetime(2026, 11, 30, 6, 59), "7:00", 1 / 60),
        (datetime(2026, 11, 30, 7, 0), "07:00", 24),
        (datetime(2026, 10, 31, 22, 0), "07:00", 10),  # clocks go back in this night
        (datetime(2027, 3, 13, 22, 0), "07:00", 8),  # and forward in this one
    ],
)
def test_a_clock_time_is_the_next_one_on_the_wall(now: datetime, text: str, hours: float) -> None:
    assert parse_deadline(text, now.astimezone()) == pytest.approx(hours * HOUR)


@pytest.mark.parametrize("text", ["", "soon", "7", "25:00", "07:60", "-1h", "6 hours", "1h30m"])
def test_what_is_no_time_is_bad_usage(text: str) -> None:
    with pytest.raises(UsageError, match="write a duration"):
        parse_deadline(text, NOON)


def test_the_deadline_asks_for_an_orderly_stop() -> None:
    stopper = Stopper(0.0)
    time.sleep(0.001)
    assert stopper.stage() == 1
    assert stopper.exit_code is Exit.DEADLINE


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, Exit.SIGINT), (signal.SIGTERM, Exit.SIGTERM)]
)
def test_the_second_signal_means_at_once(number: signal.Signals, code: Exit) -> None:
    with Stopper(None) as stopper:
        assert stopper.stage() == 0
        os.kill(os.getpid(), number)
        assert stopper.stage() == 1
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopper.stage() == 2
    assert stopper.exit_code is code, "the first one tells why"


def test_where_nobody_asks_a_signal_ends_the_run() -> None:
    with Stopper(None), pytest.raises(StoppedError, match="stopped by SIGTERM") as caught:
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_code is Exit.SIGTERM


def test_a_signal_after_the_deadline_is_the_reason() -> None:
    with Stopper(0.0) as stopper:
        time.sleep(0.001)
        stopper.stage()
        os.kill(os.getpid(), signal.SIGINT)
        assert stopper.exit_code is Exit.SIGINT
        assert stopper.stage() == 1


def test_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopper(None):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) is before
