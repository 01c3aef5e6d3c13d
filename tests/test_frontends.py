"""Front ends in processes of their own: they outlive the last row, and nothing else."""

import multiprocessing
import time
from collections.abc import Iterator

from batchtts.config import Config
from batchtts.data import Utterance
from batchtts.frontends import Frontends, Prepared
from tests.fake_pool import utterances

CONFIG = Config(voice="fake:tone")


def texts(prepared: list[Prepared]) -> list[str]:
    return [one[0].utterance.text for one in prepared if isinstance(one, list)]


def test_the_order_is_kept_and_no_process_is_left() -> None:
    rows = utterances(50)
    made = list(Frontends(CONFIG, 2).prepare_all(iter(rows)))
    assert texts(made) == [row.text for row in rows]
    assert not multiprocessing.active_children()


def test_what_waits_when_the_last_row_has_come_is_prepared() -> None:
    """The kernel ends a process with the thread that started it: that thread must stay."""
    rows = utterances(200)

    def late() -> Iterator[Utterance]:
        yield rows[0]
        time.sleep(2.0)  # both processes run by now
        yield from rows[1:]

    made = []
    for one in Frontends(CONFIG, 2).prepare_all(late()):
        made.append(one)
        time.sleep(0.001)
    assert texts(made) == [row.text for row in rows]


def test_a_caller_that_stops_early_leaves_no_process() -> None:
    answers = Frontends(CONFIG, 1).prepare_all(iter(utterances(20)))
    assert isinstance(next(iter(answers)), list)
    answers.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
