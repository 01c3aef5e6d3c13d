"""What a person sees while a run works: a bar on a terminal, plain lines elsewhere."""

import io

import pytest
from rich.console import Console

from batchtts import progress
from batchtts.data import Record, Status
from batchtts.progress import BarScreen, LineScreen, NoScreen, Tally, screen_for
from batchtts.times import clock


def tally(done: int = 0, failed: int = 0) -> Tally:
    made = Tally(utterances=10, seconds=100.0)
    for n in range(done):
        status: Status = "failed" if n < failed else "ok"
        made.add(Record(id=str(n), status=status, duration=10.0), 10.0)
    return made


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (61, "1 min 01 s"), (3600, "1 h 00 min"), (11100, "3 h 05 min")],
)
def test_durations_as_people_read_them(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_tally_tells_speed_rest_and_failures() -> None:
    line = tally(done=5, failed=2).line()
    assert line.startswith("50 s of audio, ")
    assert "x real time" in line
    assert "left" in line
    assert line.endswith("2 failed")


def test_nothing_is_known_before_the_first_utterance() -> None:
    empty = tally()
    assert (empty.speed(), empty.eta()) == (0.0, None)


class Clock:
    """Stands in for the time module."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_plain_lines_come_ever_more_rarely(time: Clock) -> None:
    out = io.StringIO()
    screen = LineScreen(Console(file=out))
    for second in range(1, 301):
        time.now = float(second)
        screen.refresh(tally(done=3))
    lines = out.getvalue().splitlines()
    assert 8 <= len(lines) <= 13
    assert all(line.startswith("3 of 10 utterances, 30 s of audio") for line in lines)
    assert "\r" not in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_a_start_is_called_a_start(time: Clock) -> None:
    out = io.StringIO()
    screen, empty = LineScreen(Console(file=out)), Tally(utterances=10, seconds=9.0, _started=0.0)
    time.now = 6.0
    screen.refresh(empty)
    assert out.getvalue() == "0 of 10 utterances, starting, 6 s\n"


def test_square_brackets_and_voices_are_shown_as_they_are() -> None:
    out = io.StringIO()
    LineScreen(Console(file=out, emoji=False)).say("pip install 'batchtts[ray]' for hibari:heart:")
    assert out.getvalue() == "pip install 'batchtts[ray]' for hibari:heart:\n"


@pytest.mark.parametrize("width", [30, 80, 200])
def test_a_bar_fits_its_terminal(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width)
    with BarScreen(console) as screen:
        screen.refresh(tally(done=5), "cuda:0: 97% busy")
        screen.say("worker 1 died")
    assert "worker 1 died" in out.getvalue()


def test_the_screen_suits_where_the_output_goes() -> None:
    plain, terminal = Console(file=io.StringIO()), Console(force_terminal=True)
    assert isinstance(screen_for(plain, quiet=False), LineScreen)
    assert isinstance(screen_for(terminal, quiet=False), BarScreen)
    assert isinstance(screen_for(terminal, quiet=True), NoScreen)
