"""A device slot with the worker that sits on it: how it fares, and how long to wait for it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from batchtts.devices import Slot

SAME_START_FAILURES = 2
"""A slot is given up when so many starts in a row fail for the same reason, unless the host's
out-of-memory killer did it: that passes."""
LONGEST_BACKOFF = 60.0
"""Seconds between two starts at most."""
LEAST_LIMIT_SCALE = 0.1
SPEED_SECONDS = 1.0
"""A worker's speed is known when it has worked for so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the coordinator waits for what; seconds."""

    start: float = 300.0
    """For a worker to load a voice, the probe included."""
    silence: float = 60.0
    """For a word from a worker that has work, whatever the work."""
    times: float = 20.0
    """Beyond that: this many times what the batches on its device should take."""
    grace: float = 20.0
    """For what is on the devices when the run is told to stop."""
    end: float = 10.0
    """For a worker that has nothing left to say goodbye."""
    backoff: float = 1.0
    """Before the first restart of a worker; doubled for each one that brought nothing."""
    fruitless_starts: int = 8
    """A slot is given up after so many starts in a row without one record."""


@dataclass(slots=True)
class Seat:
    """A device slot and the worker that sits on it now."""

    slot: Slot
    patience: Patience
    worker: int = 0
    """Number of the worker; 0 when the seat is empty."""
    starts: int = 0
    fruitless: int = 0
    """Starts in a row without a record."""
    ready: bool = False
    draining: bool = False
    """The worker was told that no more leases come."""
    failure: str = ""
    """What the worker said before its end."""
    end_reason: str = ""
    """Why the worker before ended."""
    same_start_failures: int = 0
    """Starts in a row that failed before they were ready, all for `end_reason`."""
    lost: bool = False
    """Given up for good."""
    restart_at: float = 0.0
    """When the next worker may start."""
    deadline: float = inf
    """When the worker is taken for hung; inf while it has nothing to do."""
    limit_scale: float = 1.0
    """Part of the batch limit that its workers may use."""
    figures: dict[int, Any] = field(default_factory=dict)
    """Worker number -> its newest figures."""
    speed: float | None = None
    """Audio seconds per second of its workers, up to their last record; None while unknown."""
    _on_device: dict[int, float] = field(default_factory=dict)
    """`Utterance.index` -> audio seconds expected of it."""
    _audio: float = 0.0
    """Audio seconds that the worker delivered since it was ready."""
    _ready_at: float = 0.0

    def start(self, worker: int, now: float) -> None:
        """A worker takes the seat."""
        self.worker = worker
        self.starts += 1
        self.fruitless += 1
        self.ready = self.draining = False
        self.failure = ""
        self._on_device = {}
        self._audio = 0.0
        self.load(now)

    def load(self, now: float) -> None:
        """The worker loads a voice."""
        self.deadline = now + self.patience.start

    def make_ready(self, now: float) -> None:
        """The worker has its first voice."""
        self.ready, self._ready_at = True, now
        self.load(now)

    def busy(self, indexes: Iterable[int], seconds: float, now: float, peers: float | None) -> None:
        """Utterances with so many seconds of audio went to the device; `peers`: see `wait`."""
        indexes = list(indexes)
        self._on_device |= dict.fromkeys(indexes, seconds / max(1, len(indexes)))
        self.wait(now, peers)

    def done(self, index: int, audio: float, now: float) -> None:
        """An utterance has its record, with so many seconds of audio."""
        self._on_device.pop(index, None)
        self._audio += audio
        self.fruitless = 0
        if self._audio and now > self._ready_at + SPEED_SECONDS:
            self.speed = self._audio / (now - self._ready_at)

    def wait(self, now: float, peers: float | None) -> None:
        """Until when the worker may keep silent over what is on its device.

        `peers` is the speed of the slowest other worker on such a device, None while unknown.
        """
        speed = self.speed or peers or 1.0
        due = self.patience.times * sum(self._on_device.values()) / speed
        self.deadline = now + max(self.patience.silence, due)

    def rest(self, now: float) -> None:
        """The worker holds nothing: it may keep silent, unless it was told to end."""
        self.deadline = now + self.patience.end if self.draining else inf

    def leave(self, reason: str, now: float, *, out_of_memory: bool) -> None:
        """The worker died: decide when the next one may start, and whether one may at all."""
        self.worker, self.deadline = 0, inf
        same = not self.ready and reason == self.end_reason
        self.same_start_failures = self.same_start_failures + 1 if same else int(not self.ready)
        self.end_reason = reason
        hopeless = self.same_start_failures >= SAME_START_FAILURES and not out_of_memory
        self.lost = hopeless or self.fruitless >= self.patience.fruitless_starts
        if out_of_memory:
            self.limit_scale = max(LEAST_LIMIT_SCALE, self.limit_scale / 2)
        wait = self.patience.backoff * 2 ** (self.fruitless - 1) if self.fruitless else 0.0
        self.restart_at = now + min(wait, LONGEST_BACKOFF)
