"""The protocol of leases, deaths and stops, over scripted workers and a clock that jumps."""

import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.coordinator import Coordinator, Outcome
from batchtts.data import Utterance
from batchtts.errors import DeviceError, StorageError
from batchtts.leases import LeaseBook
from batchtts.messages import Bye, Drain, Failed, Loading, Ready, Remark, Stats, Work
from batchtts.seats import Patience
from tests.fake_pool import (
    KILLED,
    LOAD_SECONDS,
    SEGFAULT,
    Books,
    FakePool,
    Script,
    busy,
    crashing_on,
    done,
    healthy,
    slots,
    utterances,
)

SILENCE = Patience().silence
START = Patience().start


class StopAt:
    """Asks for a stop at a time of the pool's clock, and for one at once at a later one."""

    def __init__(self, first: float = 1e9, second: float = 1e9) -> None:
        self.first, self.second = first, second
        self.pool: FakePool | None = None

    def stage(self) -> int:
        now = self.pool.clock.now if self.pool else 0.0
        return (now >= self.first) + (now >= self.second)


class Run:
    """A coordinator over a fake pool, and what came of it."""

    def __init__(
        self,
        rows: int | list[Utterance],
        workers: int,
        script: Script,
        stop: StopAt | None = None,
        *,
        device: str = "cpu",
        **options: Any,
    ) -> None:
        self.pool = FakePool(script)
        self.books = Books()
        stop = stop or StopAt()
        stop.pool = self.pool
        self.coordinator = Coordinator(
            LeaseBook(utterances(rows) if isinstance(rows, int) else rows, lambda _: 10.0),
            self.pool,
            slots(workers, device),
            lambda slot, scale: (slot.label, scale),
            self.books,
            stop,
            clock=self.pool.clock,
            **options,
        )

    def outcome(self) -> Outcome:
        outcome = self.coordinator.run()
        assert self.pool.closed
        return outcome


@pytest.mark.parametrize(
    ("rows", "workers"), [(10, 3), (11, 4), (7, 2), (1, 8), (400, 1), (1000, 7)]
)
def test_each_row_is_committed_once_however_it_divides(rows: int, workers: int) -> None:
    run = Run(rows, workers, healthy)
    assert run.outcome() is Outcome.DONE
    assert sorted(run.books.committed) == list(range(rows))
    assert run.coordinator.restarts == 0
    assert run.books.aloud == []


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_all_workers_end_together(workers: int) -> None:
    """Batches of ten that take a second each: the tail is no longer than one of them."""

    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work):
            rows = message.lease.utterances
            for n in range(0, len(rows), 10):
                batch = rows[n : n + 10]
                yield 0.0, busy(*batch)
                yield len(batch) / 10, done(*batch)
        else:
            yield from healthy(worker, message)

    run = Run(1600, workers, act)
    assert run.outcome() is Outcome.DONE
    ideal = LOAD_SECONDS + 160 / workers
    assert run.pool.clock.now < ideal + 1.3, "the last 0.2 s is the goodbye"


def test_a_worker_gets_nothing_before_it_is_ready() -> None:
    run = Run(20, 2, healthy)
    run.outcome()
    assert run.pool.sent
    assert not [m for _, m in run.pool.sent[:2] if not isinstance(m, Work)]
    assert run.pool.clock.now >= LOAD_SECONDS


def test_a_killed_worker_is_replaced_and_its_rows_are_spoken() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if worker == 1 and isinstance(message, Work):
            yield 0.0, busy(*message.lease.utterances)
            yield 0.5, KILLED
        else:
            yield from healthy(worker, message)

    run = Run(40, 2, act)
    assert run.outcome() is Outcome.DONE
    assert sorted(run.books.committed) == list(range(40))
    assert run.coordinator.restarts == 1
    assert run.books.given_up == {}
    assert run.books.aloud == ["worker 1 on cpu/1 died: killed by SIGKILL"]


def test_what_a_worker_said_before_its_death_counts_once() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if worker == 1 and isinstance(message, Work):
            yield 0.0, busy(*message.lease.utterances)
            yield 1.0, done(*message.lease.utterances)
            yield 0.0, done(*message.lease.utterances[:1])  # said twice
            yield 0.0, SEGFAULT
        else:
            yield from healthy(worker, message)

    run = Run(9, 1, act)
    assert run.outcome() is Outcome.DONE
    assert sorted(run.books.committed) == list(range(9))


def test_the_same_failure_at_the_start_twice_ends_the_run_with_it_once() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if message is None:
            yield 0.1, Failed("the weights are not what they should be")
            yield 0.1, SEGFAULT
        else:
            yield from healthy(worker, message)

    run = Run(5, 3, act)
    with pytest.raises(DeviceError) as caught:
        run.outcome()
    assert str(caught.value) == "no device can work: the weights are not what they should be"
    assert len(run.pool.started) == 6
    assert run.pool.closed


def test_a_slot_that_cannot_start_is_given_up_and_the_others_do_the_work() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if message is None and run.pool.started[-1][2][0] == "cpu/1":
            yield 0.1, Failed("CUDA out of memory")
            yield 0.1, SEGFAULT
        else:
            yield from healthy(worker, message)

    run = Run(200, 2, act)
    assert run.outcome() is Outcome.DONE
    assert sorted(run.books.committed) == list(range(200))
    assert [spec[0] for _, _, spec in run.pool.started] == ["cpu/1", "cpu/2", "cpu/1"]
    assert "cpu/1 is given up: CUDA out of memory" in run.books.aloud


def test_restarts_back_off_and_are_bounded() -> None:
    def act(_worker: int, _message: object) -> Iterable[tuple[float, object]]:
        yield 0.0, KILLED  # the host is out of memory: that may pass, so it is tried for longer

    run = Run(5, 1, act)
    with pytest.raises(DeviceError, match="killed by SIGKILL"):
        run.outcome()
    starts = [when for when, _, _ in run.pool.started]
    assert len(starts) == Patience().fruitless_starts
    pauses = [round(b - a) for a, b in itertools.pairwise(starts)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60]


def test_a_record_forgives_the_starts_before_it() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work):
            first, *_ = message.lease.utterances
            yield 0.0, busy(*message.lease.utterances)
            yield 0.1, done(first)
            yield 0.0, SEGFAULT
        else:
            yield from healthy(worker, message)

    run = Run(30, 1, act)
    assert run.outcome() is Outcome.DONE
    assert sorted([*run.books.committed, *run.books.given_up]) == list(range(30))
    assert len(run.pool.started) > Patience().fruitless_starts


@pytest.mark.parametrize("poison", [{0}, {13}, {39}, {3, 4}, {0, 20, 39}])
@pytest.mark.parametrize("workers", [1, 3])
def test_poison_rows_fail_and_all_others_are_made(poison: set[int], workers: int) -> None:
    run = Run(40, workers, crashing_on(poison))
    assert run.outcome() is Outcome.DONE
    assert run.books.given_up == dict.fromkeys(poison, "crashed the worker: killed by SIGSEGV")
    assert sorted(run.books.committed) == sorted(set(range(40)) - poison)
    assert run.coordinator.restarts <= 9 * len(poison)


def test_a_poisoned_context_costs_its_row_only_and_says_what_it_was() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work) and 7 in {u.index for u in message.lease.utterances}:
            yield 0.0, busy(*message.lease.utterances)
            yield 0.5, Failed("CUDA error: device-side assert triggered", kind="poisoned")
            yield 0.0, SEGFAULT
        else:
            yield from healthy(worker, message)

    run = Run(20, 1, act)
    assert run.outcome() is Outcome.DONE
    reason = "crashed the worker: CUDA error: device-side assert triggered"
    assert run.books.given_up == {7: reason}
    assert len(run.books.committed) == 19


def test_a_hang_ends_after_the_silence_and_is_no_lack_of_memory() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if worker == 1 and isinstance(message, Work):
            yield 0.0, busy(message.lease.utterances[0])  # 10 s of audio at 1x, 20 times: 200 s
        else:
            yield from healthy(worker, message)

    run = Run(4, 1, act)
    assert run.outcome() is Outcome.DONE
    assert [(round(when), worker) for when, worker in run.pool.killed] == [(201, 1)]
    assert run.pool.started[1][2] == ("cpu/1", 1.0), "its batches are not made smaller"
    assert run.books.aloud == ["worker 1 on cpu/1 died: it hung"]


def test_a_hang_is_measured_by_the_speed_so_far() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work) and 199 in {u.index for u in message.lease.utterances}:
            yield 0.0, busy(*message.lease.utterances)
        else:
            yield from healthy(worker, message)

    run = Run(200, 1, act, patience=Patience(silence=5.0))
    assert run.outcome() is Outcome.DONE
    assert run.books.given_up == {199: "crashed the worker: it hung"}
    first = run.pool.killed[0][0]
    assert first < 100.0, "20 times what the batch should take, not 20 times its audio"


def test_work_in_time_is_never_taken_for_a_hang() -> None:
    """A long batch whose neighbours' records come in the meantime, and a voice that loads long."""

    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        match message:
            case Work(lease):
                first, *rest = lease.utterances
                yield 0.0, busy(first)
                yield 0.1, busy(*rest)
                yield 1.0, done(first)
                yield SILENCE + 15, done(*rest)
                yield 1.0, Loading("fake:other")
                yield START - 1, Remark("that took long")
            case _:
                yield from healthy(worker, message)

    run = Run(9, 1, act)
    run.coordinator._seats[0].speed = 10.0  # leases of 50 s; 20 x 40 s / 10 = 80 s
    assert run.outcome() is Outcome.DONE
    assert run.pool.killed == []


def test_a_worker_that_does_not_start_is_ended() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        return () if worker == 1 else healthy(worker, message)

    run = Run(4, 1, act)
    assert run.outcome() is Outcome.DONE
    assert [round(when) for when, _ in run.pool.killed] == [START]
    assert "worker 1 on cpu/1 died: it did not start in time" in run.books.aloud


def test_an_idle_worker_may_keep_silent() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        match message:
            case Work(lease) if worker == 1:
                for u in lease.utterances:
                    yield 0.0, busy(u)
                    yield SILENCE - 1, done(u)
            case _:
                yield from healthy(worker, message)

    run = Run(40, 2, act)
    assert run.outcome() is Outcome.DONE
    assert run.pool.killed == []


def test_a_worker_that_leaks_is_replaced_in_order_without_suspicion() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        yield from healthy(worker, message)
        if isinstance(message, Work):
            yield 0.0, Stats({"resident_bytes": 2_000_000 if worker == 1 else 1_000})

    run = Run(4000, 1, act, recycle_bytes=1_000_000)
    assert run.outcome() is Outcome.DONE
    assert sorted(run.books.committed) == list(range(4000))
    assert len(run.books.committed) == 4000
    assert run.coordinator.restarts == 1
    assert (1, Drain(at_once=False)) in run.pool.sent
    assert run.books.aloud == []
    assert run.pool.killed == []


def test_a_worker_that_does_not_go_when_told_is_ended() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if worker == 1 and isinstance(message, Drain):
            yield 0.0, Bye()
            return
        yield from healthy(worker, message)
        if isinstance(message, Work) and worker == 1:
            yield 0.0, Stats({"resident_bytes": 2})

    run = Run(4000, 1, act, recycle_bytes=1)
    assert run.outcome() is Outcome.DONE
    assert [worker for _, worker in run.pool.killed] == [1]


def test_a_death_by_sigkill_makes_the_batches_smaller() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work) and worker <= 2:
            yield 0.1, KILLED
        else:
            yield from healthy(worker, message)

    run = Run(9, 1, act)
    assert run.outcome() is Outcome.DONE
    assert [spec[1] for _, _, spec in run.pool.started] == [1.0, 0.5, 0.25]


def test_a_folder_that_cannot_be_written_ends_the_run() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work):
            yield 0.1, Failed("cannot write into out: No space left on device", kind="storage")
        else:
            yield from healthy(worker, message)

    run = Run(9, 2, act)
    with pytest.raises(StorageError, match="No space left"):
        run.outcome()
    assert run.pool.closed


def slow(worker: int, message: object) -> Iterable[tuple[float, object]]:
    """A batch of one row every five seconds."""
    if isinstance(message, Work):
        for u in message.lease.utterances:
            yield 0.0, busy(u)
            yield 5.0, done(u)
    else:
        yield from healthy(worker, message)


def test_the_first_signal_finishes_what_is_on_the_devices() -> None:
    run = Run(40, 2, slow, StopAt(12.0))
    assert run.outcome() is Outcome.STOPPED
    assert len(run.books.committed) == 6, "two batches each, and the one that was on the device"
    assert run.pool.killed == []
    assert run.pool.clock.now < 17.0
    assert run.books.aloud == []


def test_the_grace_ends_what_takes_too_long() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work):
            yield 0.0, busy(*message.lease.utterances)
            yield 1000.0, done(*message.lease.utterances)
        elif not isinstance(message, Drain):
            yield from healthy(worker, message)

    run = Run(4, 1, act, StopAt(10.0), patience=Patience(grace=7.0))
    assert run.outcome() is Outcome.STOPPED
    assert 17.0 <= run.pool.clock.now < 17.5
    assert run.books.committed == []


def test_the_second_signal_ends_all_at_once() -> None:
    run = Run(40, 2, slow, StopAt(12.0, 13.0))
    assert run.outcome() is Outcome.STOPPED
    assert run.pool.clock.now < 13.5
    assert len(run.books.committed) == 4


def test_a_stop_does_not_wait_for_a_worker_that_loads() -> None:
    def act(_worker: int, message: object) -> Iterable[tuple[float, object]]:
        if message is None:
            yield 200.0, Ready("fp32", "")

    run = Run(40, 2, act, StopAt(3.0))
    assert run.outcome() is Outcome.STOPPED
    assert run.pool.clock.now < 3.5
    assert run.books.aloud == []


def test_a_stop_that_comes_with_the_last_row_is_no_stop() -> None:
    run = Run(2, 1, slow, StopAt(8.0))
    assert run.outcome() is Outcome.DONE


def test_the_device_and_words_of_a_worker_are_passed_on() -> None:
    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if message is None:
            yield 0.0, Remark("mind the gap", aloud=True)
            yield 0.0, ("gibberish",)
            yield 0.0, Ready("bf16", "GPU-1")
            yield 0.0, Stats({"batches": 3})
        else:
            yield from healthy(worker, message)

    run = Run(1, 1, act, device="cuda:0")
    assert run.outcome() is Outcome.DONE
    assert run.books.aloud == ["worker 1 on cuda:0/1: mind the gap"]
    assert run.books.devices == {"cuda:0/1": "GPU-1"}
    assert any("unknown" in event for event in run.books.events)
    assert run.coordinator.figures() == {"0:cuda:0/1": [{"batches": 3}]}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 4),
    st.floats(0.0, 0.4),
    st.sets(st.integers(0, 59)),
    st.integers(0, 2**32),
)
def test_whatever_dies_each_row_ends_once(
    rows: int, workers: int, trouble: float, some: set[int], seed: int
) -> None:
    chance = random.Random(seed)
    poison = {n for n in some if n < rows and n % 5 == 0}

    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if not isinstance(message, Work):
            return healthy(worker, message)
        leased = message.lease.utterances
        said: list[tuple[float, object]] = []
        for n in range(0, len(leased), 4):
            batch = leased[n : n + 4]
            said.append((0.1, busy(*batch)))
            if poison & {u.index for u in batch}:
                return [*said, (0.1, SEGFAULT)]
            if chance.random() < trouble * 0.3:
                said.append((0.1, done(*batch[: chance.randrange(len(batch) + 1)])))
                if chance.random() < 0.7:  # or it hangs
                    said.append((0.1, KILLED))
                return said
            said.append((1.0, done(*batch)))
        return said

    run = Run(rows, workers, act, patience=Patience(fruitless_starts=200))
    assert run.outcome() is Outcome.DONE
    assert sorted([*run.books.committed, *run.books.given_up]) == list(range(rows))
    assert poison <= set(run.books.given_up)
