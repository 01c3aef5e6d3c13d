"""Which worker holds which utterances; pure bookkeeping, no processes, no clock.

Rows wait in `todo`, are held by one worker, and leave when they are settled. What a dead worker
held comes back: the rows that were on its device are suspects and are run again alone, in halves,
until the row that kills workers stands by itself.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import count

from batchtts.data import Lease, Utterance

DEPTH = 2
"""Leases a worker holds: one on the device, one being prepared."""
MAX_LEASE = 4096
"""Utterances in one lease, so that a message stays small."""
LONE_CRASHES = 2
"""A row that kills this many workers while it is alone on the device is given up."""


@dataclass(slots=True)
class _Held:
    """What one worker holds."""

    leases: dict[int, dict[int, Utterance]] = field(default_factory=dict)
    """Lease id -> its unfinished utterances by index."""
    on_device: set[int] = field(default_factory=set)
    """Indexes that the worker announced as on its device."""
    alone: bool = False
    """It holds one lease of suspects and gets nothing else."""


class LeaseBook:
    """Hands out all utterances of a plan, each until it is settled once."""

    def __init__(self, todo: list[Utterance], seconds_of: Callable[[Utterance], float]) -> None:
        self._todo = todo
        self._next = 0
        self._seconds_of = seconds_of
        self._returned: deque[Utterance] = deque()
        self._suspects: deque[tuple[Utterance, ...]] = deque()
        self._crashes: dict[int, int] = {}
        self._lone_crashes: dict[int, int] = {}
        self._held: dict[int, _Held] = {}
        self._owner: dict[int, tuple[int, int]] = {}
        self._ids = count(1)
        self.unsettled = len(todo)
        """Utterances without a result yet."""

    @property
    def waiting(self) -> int:
        """Utterances that no worker holds."""
        suspects = sum(len(group) for group in self._suspects)
        return len(self._todo) - self._next + len(self._returned) + suspects

    def held_by(self, worker: int) -> int:
        """Number of utterances that this worker holds."""
        held = self._held.get(worker)
        return sum(len(lease) for lease in held.leases.values()) if held else 0

    def take(self, worker: int, *, workers: int, seconds: float) -> Lease | None:
        """Give a worker its next lease, or None when it has enough or nothing waits.

        Args:
            worker: who asks.
            workers: how many share the rest; near the end leases shrink so that all end together.
            seconds: about this much audio.
        """
        held = self._held.setdefault(worker, _Held())
        if held.alone or len(held.leases) >= DEPTH:
            return None
        if self._suspects and not held.leases:
            held.alone = True
            return self._lend(worker, held, self._suspects.popleft())
        most = MAX_LEASE
        if (
            workers > 1
        ):  # at most half of a fair share of all that is open, so that all end together
            unsettled = len(self._todo) - self._next + len(self._returned) + len(self._owner)
            most = min(most, -(-unsettled // (2 * workers)) - self.held_by(worker))
        chosen: list[Utterance] = []
        cost = 0.0
        while len(chosen) < most and cost < seconds:
            utterance = self._peek()
            if utterance is None or (chosen and utterance.voice != chosen[0].voice):
                break
            self._drop()
            chosen.append(utterance)
            cost += self._seconds_of(utterance)
        return self._lend(worker, held, tuple(chosen)) if chosen else None

    def _peek(self) -> Utterance | None:
        if self._returned:
            return self._returned[0]
        return self._todo[self._next] if self._next < len(self._todo) else None

    def _drop(self) -> None:
        if self._returned:
            self._returned.popleft()
        else:
            self._next += 1

    def _lend(self, worker: int, held: _Held, utterances: tuple[Utterance, ...]) -> Lease:
        lease = Lease(
            id=next(self._ids),
            utterances=utterances,
            attempt=1 + max(self._crashes.get(u.index, 0) for u in utterances),
        )
        held.leases[lease.id] = {u.index: u for u in utterances}
        for utterance in utterances:
            self._owner[utterance.index] = (worker, lease.id)
        return lease

    def announce(self, worker: int, indexes: Iterable[int]) -> None:
        """Note which utterances are on the worker's device."""
        self._held.setdefault(worker, _Held()).on_device.update(indexes)

    def settle(self, index: int) -> Utterance | None:
        """Take an utterance off the books; None if it was settled before or is not out."""
        owner = self._owner.pop(index, None)
        if owner is None:
            return None
        worker, lease_id = owner
        held = self._held[worker]
        held.on_device.discard(index)
        lease = held.leases[lease_id]
        utterance = lease.pop(index)
        if not lease:
            del held.leases[lease_id]
            held.alone = held.alone and bool(held.leases)
        self.unsettled -= 1
        return utterance

    def give_back(self, worker: int) -> None:
        """A worker ended in order: what it still holds waits again, without suspicion."""
        held = self._held.pop(worker, None)
        if held:
            self._return(u for lease in held.leases.values() for u in lease.values())

    def lost(self, worker: int) -> list[Utterance]:
        """A worker died: what it held waits again, the suspects apart.

        Returns the utterances to give up: each was alone on a device that died, twice.
        """
        held = self._held.pop(worker, None)
        if held is None or not held.leases:
            return []
        everything = [u for lease in held.leases.values() for u in lease.values()]
        oldest = held.leases[min(held.leases)]
        suspects = [u for u in everything if u.index in held.on_device] or list(oldest.values())
        accused = {u.index for u in suspects}
        self._return(u for u in everything if u.index not in accused)
        return self._suspect(suspects, alone=held.alone)

    def _return(self, utterances: Iterable[Utterance]) -> None:
        back = list(utterances)
        for utterance in back:
            del self._owner[utterance.index]
        self._returned.extendleft(reversed(back))

    def _suspect(self, suspects: Collection[Utterance], *, alone: bool) -> list[Utterance]:
        rows = list(suspects)
        for utterance in rows:
            del self._owner[utterance.index]
            self._crashes[utterance.index] = self._crashes.get(utterance.index, 0) + 1
        if len(rows) > 1:
            middle = len(rows) // 2
            self._suspects.extend((tuple(rows[:middle]), tuple(rows[middle:])))
            return []
        row = rows[0]
        self._lone_crashes[row.index] = self._lone_crashes.get(row.index, 0) + alone
        if self._lone_crashes[row.index] < LONE_CRASHES:
            self._suspects.append((row,))
            return []
        self.unsettled -= 1
        return rows
