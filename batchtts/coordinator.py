"""Hands out leases, commits records, replaces dead workers: the only writer of the manifest.

It knows the pool only by its contract and the utterances only by their books, so it runs the same
over processes of this machine, over a cluster, and over a fake pool in the tests.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from batchtts.data import Record, Utterance
from batchtts.devices import Slot
from batchtts.errors import DeviceError, StorageError
from batchtts.leases import LeaseBook
from batchtts.messages import Busy, Bye, Died, Done, Drain, Failed, Ready, Remark, Stats, Work
from batchtts.pools.base import Pool

LEASE_WALL_SECONDS = 5.0
"""A lease is about this much work, so that little is done twice when a worker dies."""
FIRST_LEASE_SECONDS = 300.0
"""Seconds of audio in a lease before the speed of a worker is known."""
CLEAN_END_SECONDS = 10.0
"""A worker that has nothing left gets this long to say goodbye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the coordinator waits for what; seconds."""

    start: float = 300.0
    """For a worker to load its first voice, the probe included."""
    silence: float = 60.0
    """For a word from a worker whose device has work, whatever the work."""
    times: float = 20.0
    """Beyond that: this many times what the batch should take."""
    grace: float = 20.0
    """For what is on the devices when the run is told to stop."""
    backoff: float = 1.0
    """Before the first restart of a worker; doubled for each one that brought nothing."""
    fruitless_starts: int = 4
    """A slot is given up after so many starts in a row without one record."""


class Outcome(Enum):
    """How the run ended."""

    DONE = auto()
    STOPPED = auto()
    """By a signal or the deadline; resumable."""


class Stop(Protocol):
    """Asked again and again whether the run shall stop."""

    def stage(self) -> int:
        """0: go on; 1: finish what is on the devices; 2: at once."""
        ...


class Watcher(Protocol):
    """Told of what happens, for the screen, the log and the manifest."""

    def commit(self, utterance: Utterance, record: Record) -> None:
        """An utterance ended; its file is in place. Commit the record."""
        ...

    def give_up(self, utterance: Utterance, reason: str) -> None:
        """An utterance cannot be spoken: it ended every worker that tried."""
        ...

    def event(self, text: str, *, aloud: bool = False) -> None:
        """Something happened; `aloud`: the user should see it now."""
        ...

    def tick(self) -> None:
        """Called several times a second, whatever happens."""
        ...


@dataclass(slots=True)
class _Seat:
    """A device slot and the worker that sits on it now."""

    slot: Slot
    worker: int = 0
    """Number of the worker; 0 when the seat is empty."""
    ready: bool = False
    draining: bool = False
    recycled: bool = False
    fruitless: int = 0
    """Starts in a row without a record."""
    restart_at: float = 0.0
    deadline: float = 0.0
    """When the worker is taken for hung; inf while it has nothing to do."""
    failure: str = ""
    """What it said last before it ended."""
    lost: bool = False
    """Given up for good."""
    limit_scale: float = 1.0
    audio: float = 0.0
    """Seconds of audio that its worker delivered since `since`."""
    since: float = 0.0
    figures: dict[int, Any] = field(default_factory=dict)
    """Worker number -> its newest figures."""

    def speed(self) -> float | None:
        """Audio seconds per second of this worker; None while unknown."""
        passed = time.monotonic() - self.since
        return self.audio / passed if self.audio and passed > 1.0 else None


class Coordinator:
    """One run over one pool."""

    def __init__(
        self,
        book: LeaseBook,
        pool: Pool,
        slots: Sequence[Slot],
        spec_of: Callable[[Slot, float], Any],
        watcher: Watcher,
        stop: Stop,
        *,
        patience: Patience | None = None,
        recycle_bytes: int | None = None,
    ) -> None:
        """Set up; nothing starts before `run`.

        Args:
            book: the utterances to speak.
            pool: starts workers.
            slots: one worker each.
            spec_of: makes a worker's spec from its slot and its limit scale.
            watcher: commits records and tells of events.
            stop: asked whether to stop.
            patience: how long to wait for what.
            recycle_bytes: a worker that holds more memory than this is replaced; None: never.
        """
        self._book = book
        self._pool = pool
        self._seats = [_Seat(slot) for slot in slots]
        self._by_worker: dict[int, _Seat] = {}
        self._spec_of = spec_of
        self._watcher = watcher
        self._stop = stop
        self._patience = patience or Patience()
        self._recycle_bytes = recycle_bytes
        self._workers = 0
        self.restarts = 0
        """Workers started beyond the first of each slot."""

    def run(self) -> Outcome:
        """Speak everything in the book.

        Raises:
            DeviceError: no worker can work.
            StorageError: the output folder cannot be written.
        """
        try:
            while self._book.unsettled and not self._stop.stage():
                self._fill_seats()
                self._feed()
                self._hear(0.2)
                self._end_hung()
            outcome = Outcome.STOPPED if self._book.unsettled else Outcome.DONE
            self._drain(at_once=outcome is Outcome.STOPPED)
            return outcome
        finally:
            self._pool.close()

    def figures(self) -> dict[str, list[Any]]:
        """Per slot label, the figures of each worker that sat there."""
        return {
            f"{number}:{seat.slot.label}": list(seat.figures.values())
            for number, seat in enumerate(self._seats)
        }

    # Starting -----------------------------------------------------------------------------------

    def _fill_seats(self) -> None:
        now = time.monotonic()
        for seat in self._seats:
            if not seat.worker and not seat.lost and now >= seat.restart_at and self._book.waiting:
                self._start(seat)
        if all(seat.lost for seat in self._seats):
            reasons = dict.fromkeys(seat.failure for seat in self._seats)
            message = "no device can work: " + "; ".join(reasons)
            raise DeviceError(message)

    def _start(self, seat: _Seat) -> None:
        self._workers += 1
        if seat.figures or seat.fruitless or seat.failure:
            self.restarts += 1
        seat.worker, seat.ready, seat.draining, seat.recycled = self._workers, False, False, False
        seat.audio, seat.since = 0.0, time.monotonic()
        seat.deadline = time.monotonic() + self._patience.start
        seat.fruitless += 1
        self._by_worker[seat.worker] = seat
        self._pool.start(
            seat.worker, self._spec_of(seat.slot, seat.limit_scale), dict(seat.slot.env)
        )
        self._watcher.event(f"worker {seat.worker} started on {seat.slot.label}")

    def _feed(self) -> None:
        working = [seat for seat in self._seats if seat.worker and not seat.draining]
        for seat in working:
            speed = seat.speed()
            seconds = speed * LEASE_WALL_SECONDS if speed else FIRST_LEASE_SECONDS
            while lease := self._book.take(seat.worker, workers=len(working), seconds=seconds):
                self._pool.send(seat.worker, Work(lease))
                if seat.ready and seat.deadline == float("inf"):
                    seat.deadline = time.monotonic() + self._patience.start

    # Hearing ------------------------------------------------------------------------------------

    def _hear(self, timeout: float) -> None:
        for worker, message in self._pool.poll(timeout):
            seat = self._by_worker[worker]
            match message:
                case Done():
                    self._commit(seat, message)
                case Busy():
                    self._book.announce(worker, message.indexes)
                    self._expect(seat, message.seconds)
                case Ready():
                    seat.ready, seat.since = True, time.monotonic()
                    seat.deadline = time.monotonic() + self._patience.start
                    self._watcher.event(f"worker {worker} is ready, {message.precision}")
                case Remark():
                    text = f"worker {worker} on {seat.slot.label}: {message.text}"
                    self._watcher.event(text, aloud=message.aloud)
                case Stats():
                    seat.figures[worker] = message.figures
                    self._recycle(seat, message)
                case Failed():
                    self._failed(seat, message)
                case Bye():
                    self._book.give_back(worker)
                case Died():
                    self._died(seat, message)
                case _:
                    self._watcher.event(f"worker {worker} said something unknown: {message!r}")
        self._watcher.tick()

    def _commit(self, seat: _Seat, message: Done) -> None:
        for index, record in message.records:
            utterance = self._book.settle(index)
            if utterance is not None:
                seat.audio += record.duration
                self._watcher.commit(utterance, record)
        seat.fruitless = 0
        self._expect(seat, 0.0)

    def _expect(self, seat: _Seat, seconds: float) -> None:
        """Work came or went: until when may the worker keep silent?"""
        if not self._book.held_by(seat.worker):
            seat.deadline = float("inf")
            return
        due = self._patience.times * seconds / (seat.speed() or 1.0)
        seat.deadline = time.monotonic() + max(self._patience.silence, due)

    def _recycle(self, seat: _Seat, message: Stats) -> None:
        """Replace a worker in time that takes more and more memory."""
        held = message.figures.get("resident_bytes", 0)
        if self._recycle_bytes and held > self._recycle_bytes and not seat.draining:
            seat.draining = seat.recycled = True
            self._pool.send(seat.worker, Drain())
            self._watcher.event(f"worker {seat.worker} holds {held / 2**20:.0f} MiB: replacing it")

    # Dying --------------------------------------------------------------------------------------

    def _failed(self, seat: _Seat, message: Failed) -> None:
        seat.failure = message.reason
        self._watcher.event(f"worker {seat.worker} on {seat.slot.label}: {message.reason}")
        if message.kind == "storage":
            raise StorageError(message.reason)

    def _died(self, seat: _Seat, message: Died) -> None:
        worker = seat.worker
        seat.worker = 0
        del self._by_worker[worker]
        if seat.draining and not self._book.held_by(worker):
            return
        reason = seat.failure or message.reason
        seat.failure = reason
        self._watcher.event(f"worker {worker} on {seat.slot.label} died: {reason}", aloud=True)
        for utterance in self._book.lost(worker):
            self._watcher.give_up(utterance, f"crashed the worker: {message.reason}")
        if message.out_of_memory:  # most likely the host's out-of-memory killer
            seat.limit_scale = max(0.1, seat.limit_scale / 2)
        if seat.fruitless >= self._patience.fruitless_starts:
            seat.lost = True
            self._watcher.event(f"{seat.slot.label} is given up: {reason}", aloud=True)
        wait = self._patience.backoff * 2 ** (seat.fruitless - 1) if seat.fruitless else 0.0
        seat.restart_at = time.monotonic() + wait

    def _end_hung(self) -> None:
        now = time.monotonic()
        for seat in self._seats:
            if seat.worker and now > seat.deadline:
                seat.failure = "it hung" if seat.ready else "it did not start in time"
                self._watcher.event(f"worker {seat.worker} on {seat.slot.label}: {seat.failure}")
                self._pool.kill(seat.worker)
                seat.deadline = float("inf")

    # Ending -------------------------------------------------------------------------------------

    def _drain(self, *, at_once: bool) -> None:
        """Let the workers say goodbye: after the last row at leisure, else within the grace."""
        for seat in self._seats:
            if seat.worker:
                seat.draining = True
                self._pool.send(seat.worker, Drain(at_once=at_once))
        end = time.monotonic() + (self._patience.grace if at_once else CLEAN_END_SECONDS)
        while self._by_worker and time.monotonic() < end and self._stop.stage() < 2:
            self._hear(0.1)
