"""Hands out leases, commits records, replaces dead workers: the only writer of the manifest.

It knows the pool only by its contract and the utterances only by their books, so it runs the same
over processes of this machine, over a cluster, and over a fake pool in the tests.
"""

import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from batchtts.data import Record, Utterance
from batchtts.devices import Slot
from batchtts.errors import DeviceError, StorageError
from batchtts.leases import LeaseBook
from batchtts.messages import (
    Busy,
    Bye,
    Died,
    Done,
    Drain,
    Failed,
    Loading,
    Ready,
    Remark,
    Stats,
    Waiting,
    Work,
)
from batchtts.pools.base import Pool
from batchtts.seats import Patience, Seat

LEASE_WALL_SECONDS = 5.0
"""A lease is about this much work, so that little is done twice when a worker dies."""
FIRST_LEASE_SECONDS = 300.0
"""Seconds of audio in a lease before the speed of a worker is known."""


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

    def device(self, label: str, uuid: str) -> None:
        """A worker is on its device; `uuid` is empty where that is no GPU."""
        ...

    def event(self, text: str, *, aloud: bool = False) -> None:
        """Something happened; `aloud`: the user should see it now."""
        ...

    def tick(self) -> None:
        """Called several times a second, whatever happens."""
        ...


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
        joined: Callable[[], Sequence[Slot]] = tuple,
        clock: Callable[[], float] = time.monotonic,
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
            joined: asked again and again for slots that have come during the run.
            clock: seconds, for all waiting.
        """
        self._book = book
        self._pool = pool
        self._patience = patience or Patience()
        self._seats = [Seat(slot, self._patience) for slot in slots]
        self._by_worker: dict[int, Seat] = {}
        self._spec_of = spec_of
        self._watcher = watcher
        self._stop = stop
        self._recycle_bytes = recycle_bytes
        self._joined = joined
        self._clock = clock

    @property
    def restarts(self) -> int:
        """Workers started beyond the first of each slot."""
        return sum(max(0, seat.starts - 1) for seat in self._seats)

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
            self._drain(at_once=bool(self._book.unsettled))
            return Outcome.STOPPED if self._book.unsettled else Outcome.DONE
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
        now = self._clock()
        for slot in self._joined():
            self._seats.append(Seat(slot, self._patience))
            self._watcher.event(f"{slot.label} has joined", aloud=True)
        for seat in self._seats:
            if not seat.worker and not seat.lost and now >= seat.restart_at and self._book.waiting:
                self._start(seat)
        if all(seat.lost for seat in self._seats):
            reasons = dict.fromkeys(seat.end_reason for seat in self._seats)
            message = "no device can work: " + "; ".join(reasons)
            raise DeviceError(message)

    def _start(self, seat: Seat) -> None:
        worker = sum(seat.starts for seat in self._seats) + 1
        self._by_worker[worker] = seat
        seat.start(worker, self._clock())
        self._pool.start(worker, self._spec_of(seat.slot, seat.limit_scale), dict(seat.slot.env))
        self._watcher.event(f"worker {worker} started on {seat.slot.label}")

    def _feed(self) -> None:
        """Give each worker that is ready its next leases; one that still loads holds nothing.

        So a death at the start accuses no utterance, and nobody waits at the end for a late one.
        """
        working = [seat for seat in self._seats if seat.worker and not seat.draining]
        for seat in working:
            seconds = seat.speed * LEASE_WALL_SECONDS if seat.speed else FIRST_LEASE_SECONDS
            idle = not self._book.held_by(seat.worker)
            while seat.ready and (
                lease := self._book.take(seat.worker, workers=len(working), seconds=seconds)
            ):
                self._pool.send(seat.worker, Work(lease))
                if idle:  # until its first words on it: it may have to read a dictionary
                    seat.load(self._clock())

    # Hearing ------------------------------------------------------------------------------------

    def _hear(self, timeout: float) -> None:
        for worker, message in self._pool.poll(timeout):
            seat = self._by_worker[worker]
            match message:
                case Done():
                    self._commit(seat, message)
                case Busy():
                    self._book.announce(worker, message.indexes)
                    seat.busy(message.indexes, message.seconds, self._clock(), self._peers(seat))
                case Waiting():
                    self._watcher.event(message.text, aloud=True)
                    seat.wait(self._clock(), self._peers(seat))
                case Loading():
                    seat.load(self._clock())
                case Ready():
                    seat.make_ready(self._clock())
                    self._watcher.device(seat.slot.label, message.uuid)
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
                    seat.rest(self._clock())
                case Died():
                    self._died(seat, message)
                case _:
                    self._watcher.event(f"worker {worker} said something unknown: {message!r}")
        self._watcher.tick()

    def _commit(self, seat: Seat, message: Done) -> None:
        for index, record in message.records:
            seat.done(index, record.duration, self._clock())
            utterance = self._book.settle(index)
            if utterance is not None:
                self._watcher.commit(utterance, record)
        if self._book.held_by(seat.worker):
            seat.wait(self._clock(), self._peers(seat))
        else:
            seat.rest(self._clock())

    def _peers(self, seat: Seat) -> float | None:
        """Speed of the slowest other worker on a device of this kind; None while unknown."""
        speeds = (
            peer.speed
            for peer in self._seats
            if peer is not seat and peer.slot.device == seat.slot.device
        )
        return min((speed for speed in speeds if speed), default=None)

    def _recycle(self, seat: Seat, message: Stats) -> None:
        """Replace a worker in time that takes more and more memory."""
        held = message.figures.get("resident_bytes", 0)
        leaks = self._recycle_bytes is not None and held > self._recycle_bytes
        if leaks and self._book.waiting and not seat.draining:
            self._tell_to_end(seat, at_once=False)
            self._watcher.event(f"worker {seat.worker} holds {held / 2**20:.0f} MiB: replacing it")

    # Dying --------------------------------------------------------------------------------------

    def _failed(self, seat: Seat, message: Failed) -> None:
        seat.failure = message.reason
        self._watcher.event(f"worker {seat.worker} on {seat.slot.label}: {message.reason}")
        if message.kind == "storage":
            raise StorageError(message.reason)

    def _died(self, seat: Seat, message: Died) -> None:
        worker = seat.worker
        del self._by_worker[worker]
        reason = seat.failure or message.reason
        seat.leave(reason, self._clock(), out_of_memory=message.out_of_memory and not seat.failure)
        if seat.draining and not self._book.held_by(worker):
            return
        self._watcher.event(f"worker {worker} on {seat.slot.label} died: {reason}", aloud=True)
        for utterance in self._book.lost(worker):
            self._watcher.give_up(utterance, f"crashed the worker: {reason}")
        if seat.lost:
            self._watcher.event(f"{seat.slot.label} is given up: {reason}", aloud=True)

    def _end_hung(self) -> None:
        now = self._clock()
        for seat in self._seats:
            if seat.worker and now > seat.deadline:
                seat.failure = "it hung" if seat.ready else "it did not start in time"
                seat.deadline = float("inf")
                self._pool.kill(seat.worker)

    # Ending -------------------------------------------------------------------------------------

    def _tell_to_end(self, seat: Seat, *, at_once: bool) -> None:
        seat.draining = True
        self._pool.send(seat.worker, Drain(at_once=at_once))
        if not self._book.held_by(seat.worker):
            seat.rest(self._clock())

    def _drain(self, *, at_once: bool) -> None:
        """Let the workers say goodbye: after the last row at leisure, else within the grace."""
        for seat in self._by_worker.values():
            self._tell_to_end(seat, at_once=at_once)
            if not seat.ready:
                self._pool.kill(seat.worker)
        end = self._clock() + (self._patience.grace if at_once else self._patience.end)
        while self._by_worker and self._clock() < end and self._stop.stage() < 2:
            self._hear(0.1)
