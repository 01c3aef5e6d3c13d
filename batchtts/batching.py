"""Which utterances share a batch, when a batch is full, and what happens when it does not fit.

Pure: no threads, no torch, nothing of files or devices. Sizes are `Features.size`.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Generic, TypeVar

from batchtts.data import BatchLimit, MemoryFit
from batchtts.models.base import Features

T = TypeVar("T")
F = TypeVar("F")
A = TypeVar("A")

FIXED_SHARE = 0.05
"""Fixed cost of a forward pass as a share of the knee, which is at 95 % of the best speed."""


def cost(sizes: Sequence[int], ragged: bool) -> int:
    """Work of a batch in units of size: the sum, or count x longest for a model that pads."""
    return sum(sizes) if ragged else len(sizes) * max(sizes, default=0)


def peak_bytes(sizes: Sequence[int], fit: MemoryFit, ragged: bool) -> float:
    """Predicted peak of a batch in bytes."""
    counted = sizes if ragged else [max(sizes, default=0)] * len(sizes)
    return fit.base + sum(fit.linear * size + fit.quadratic * size**2 for size in counted)


def fits(sizes: Sequence[int], limit: BatchLimit, ragged: bool) -> bool:
    """Whether a batch of these sizes stays within the limit."""
    if len(sizes) > limit.max_items:
        return False
    if limit.max_cost is not None and cost(sizes, ragged) > limit.max_cost:
        return False
    return limit.memory is None or peak_bytes(sizes, limit.memory, ragged) <= limit.memory.budget


def padding_share(batches: Sequence[Sequence[int]], ragged: bool) -> float:
    """Share of the work of some batches that is padding: 0.0 where nothing is padded."""
    padded = sum(cost(sizes, ragged) for sizes in batches)
    return 1 - sum(map(sum, batches)) / padded if padded else 0.0


class Packer(Generic[T]):
    """A pool of things to speak, from which batches are taken, longest first."""

    def __init__(self) -> None:
        # Per group, sorted: (-size, order of arrival, thing). The order is unique, so that things
        # are never compared and equal sizes leave as they came.
        self._pools: dict[Hashable, list[tuple[int, int, T]]] = {}
        self._order = count()
        self._cost = 0

    def __len__(self) -> int:
        return sum(map(len, self._pools.values()))

    def add(self, thing: T, size: int, group: Hashable) -> None:
        """Put a thing of this size into the pool; only things of one group share a batch."""
        insort(self._pools.setdefault(group, []), (-size, next(self._order), thing))
        self._cost += size

    def pending_cost(self) -> int:
        """Sum of the sizes in the pool."""
        return self._cost

    def take(self, limit: BatchLimit, ragged: bool) -> list[T]:
        """Take the next batch out of the pool; empty when the pool is.

        It starts with the longest thing of all, even where that alone is over the limit, and is
        filled with shorter ones of its group while they fit, and while their padding costs less
        than starting another batch.
        """
        if not self._pools:
            return []
        group = min(self._pools, key=lambda group: self._pools[group][0][:2])
        pool = self._pools[group]
        size, _, thing = pool.pop(0)
        batch = [thing]
        room = _Room(-size, limit, ragged)
        place = 0
        while (place := room.next(pool, place)) < len(pool):
            size, _, thing = pool.pop(place)
            room.add(-size)
            batch.append(thing)
        self._cost -= room.total
        if not pool:
            del self._pools[group]
        return batch


class _Room:
    """How much a batch can still take, in constant time per question."""

    def __init__(self, longest: int, limit: BatchLimit, ragged: bool) -> None:
        self.total = 0
        self._longest = longest
        self._limit = limit
        self._ragged = ragged
        self._num = 0
        self._bytes = limit.memory.base if limit.memory else 0.0
        self.add(longest)

    def add(self, size: int) -> None:
        self.total += size
        self._num += 1
        self._bytes += self._bytes_of(size)

    def next(self, pool: Sequence[tuple[int, int, object]], place: int) -> int:
        """Index of the first thing, at `place` or after it, that joins; len(pool) if none does."""
        if self._num >= self._limit.max_items:
            return len(pool)
        if self._ragged:
            # Sizes fall along the pool: what is too big now is followed by what may still fit.
            return bisect_left(pool, True, lo=place, key=lambda entry: self._fits(-entry[0]))
        # For a model that pads, a shorter one takes as much room: only the next is worth asking.
        return 0 if pool and self._fits(-pool[0][0]) else len(pool)

    def _bytes_of(self, size: int) -> float:
        fit = self._limit.memory
        counted = size if self._ragged else self._longest
        return fit.linear * counted + fit.quadratic * counted**2 if fit else 0.0

    def _fits(self, size: int) -> bool:
        fit, most = self._limit.memory, self._limit.max_cost
        if fit and self._bytes + self._bytes_of(size) > fit.budget:
            return False
        if most is None:
            return True
        real = self.total + size
        if self._ragged:
            return real <= most
        padded = (self._num + 1) * self._longest
        return padded <= most and padded - real <= most * FIXED_SHARE


def packed(features: Sequence[Features], limit: BatchLimit, ragged: bool) -> list[list[Features]]:
    """The batches that a worker would make of all these, had it them at once."""
    packer: Packer[Features] = Packer()
    for item in features:
        packer.add(item, item.size, item.group)
    batches = []
    while batch := packer.take(limit, ragged):
        batches.append(batch)
    return batches


class AdaptiveLimit:
    """A limit that gives way after running out of memory and slowly comes back."""

    LOWER = 0.75
    RAISE = 1.05
    LOWEST = 0.05
    CLEAN_BATCHES = 50

    def __init__(self, limit: BatchLimit, share: float = 1.0) -> None:
        """`share`: never take more than this part of the limit."""
        self._limit = limit
        self._most = self._share = share
        self._clean = 0
        self.ooms = 0
        """Batches that had to be split."""

    @property
    def current(self) -> BatchLimit:
        """The limit to obey now; never above the one it was made with."""
        share, limit = self._share, self._limit
        if share == 1.0:
            return limit
        fit = limit.memory
        # All bounds move: which of them let the batch grow too large is not known.
        return BatchLimit(
            max_items=max(1, int(limit.max_items * share)),
            max_cost=None if limit.max_cost is None else max(1, int(limit.max_cost * share)),
            memory=replace(fit, budget=fit.base + (fit.budget - fit.base) * share) if fit else None,
        )

    def on_oom(self) -> None:
        """A batch of several had to be split: make the next ones smaller."""
        self.ooms += 1
        self._clean = 0
        self._share = max(self.LOWEST, self._share * self.LOWER)

    def on_success(self) -> None:
        """A batch went through whole: after enough of them, try larger ones again."""
        self._clean += 1
        if self._clean == self.CLEAN_BATCHES:
            self._clean = 0
            self._share = min(self._most, self._share * self.RAISE)


OOM_TYPES = frozenset({"OutOfMemoryError", "MemoryError"})
# NOT_SUPPORTED is what cuDNN says when no algorithm fits, INTERNAL_ERROR what cuFFT says of a plan.
OOM_TEXT = re.compile(
    "out of memory|CUDNN_STATUS_NOT_SUPPORTED|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED"
    "|CUFFT_INTERNAL_ERROR|CUFFT_ALLOC_FAILED|DefaultCPUAllocator|Cannot allocate memory"
    "|std::bad_alloc|Failed to allocate memory for requested buffer",
    re.IGNORECASE,
)
STICKY_TEXT = re.compile(
    "device-side assert|illegal memory access|illegal instruction|misaligned address"
    "|invalid program counter|unspecified launch failure|launch timed out|hardware stack error"
    "|uncorrectable ECC error|CUDA error: unknown error",
    re.IGNORECASE,
)


def looks_like_oom(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on the device or on the host."""
    if any(kind.__name__ in OOM_TYPES for kind in type(error).__mro__):
        return True
    # Only errors of a runtime count: a text that says "out of memory" may be quoted in others.
    return isinstance(error, RuntimeError | OSError) and bool(OOM_TEXT.search(str(error)))


def is_sticky(error: BaseException) -> bool:
    """Whether the device's context is poisoned: every later call of the process would fail."""
    if looks_like_oom(error):
        return False
    if any(kind.__name__ == "AcceleratorError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and bool(STICKY_TEXT.search(str(error)))


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Stands in for the audio of what does not fit on the device even alone."""

    text: str
    """What the device said."""


def run_splitting(
    synthesize: Callable[[Sequence[F]], list[A]],
    batch: Sequence[F],
    on_oom: Callable[[str], None],
    free: Callable[[], None],
) -> list[A | OutOfMemory]:
    """Run a batch, in halves where it does not fit, each thing exactly once.

    Args:
        synthesize: speaks a batch; its answer has the same length and order.
        batch: what to speak.
        on_oom: told once, in the device's words, that a batch of several has to be split.
        free: gives unused memory back; called after each error.

    Returns:
        The answers in the order of the batch.

    Raises:
        Exception: whatever `synthesize` raises that does not mean that memory ran out.
    """
    done: list[A | OutOfMemory] = []
    todo = [batch]
    while todo:
        part = todo.pop()
        outcome = run_or_free(synthesize, part, free)
        if isinstance(outcome, OutOfMemory) and is_fragmented(outcome.text):
            outcome = run_or_free(synthesize, part, free)
        if not isinstance(outcome, OutOfMemory):
            done += outcome
        elif len(part) == 1:
            done.append(outcome)
        else:
            if part is batch:
                on_oom(outcome.text)
            middle = (len(part) + 1) // 2
            todo += [part[middle:], part[:middle]]
    return done


def run_or_free(
    synthesize: Callable[[Sequence[F]], list[A]], part: Sequence[F], free: Callable[[], None]
) -> list[A] | OutOfMemory:
    """Run a part of a batch; memory is given back before this returns an OutOfMemory."""
    try:
        audios = synthesize(part)
    except Exception as error:
        if not looks_like_oom(error):
            raise
        outcome = OutOfMemory(str(error) or type(error).__name__)
    else:
        if len(audios) != len(part):
            message = f"the model answered a batch of {len(part)} with {len(audios)} waveforms"
            raise RuntimeError(message)
        return audios
    # Only here are the error, its frames and the tensors in them gone: inside `except` nothing
    # could be freed (pytorch #18853, #27600).
    free()
    return outcome


_WANTED_AND_IDLE = re.compile(
    r"Tried to allocate ([\d.]+) (\w+).*?([\d.]+) (\w+) is reserved by PyTorch but unallocated",
    re.DOTALL,
)
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def is_fragmented(text: str) -> bool:
    """Whether enough memory was reserved, but in pieces: then the same batch may fit once freed."""
    found = _WANTED_AND_IDLE.search(text)
    if not found:
        return False
    wanted, unit, idle, idle_unit = found.groups()
    return float(idle) * _UNITS[idle_unit] >= float(wanted) * _UNITS[unit]
