"""What a batch took, and the model of its memory: peak = base + sum of (linear x size + quadratic x size squared)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from batchtts.data import BatchLimit, MemoryFit


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One batch that was measured."""

    stage: str
    """Why: "memory", "knee" or "validate"."""
    items: int
    longest: int
    """Units of `Features.size`."""
    cost: int
    """Units of `Features.size`, padding counted."""
    squares: int
    """Sum of the squared sizes, padding counted."""
    seconds: float
    """Median of the timed runs."""
    audio_seconds: float
    """0.0 when it ran out of memory."""
    peak: int
    """Most bytes in use; the capacity when it ran out of memory."""
    reserved: int
    """Most bytes held, idle pieces included."""
    oom: bool = False

    @property
    def speed(self) -> float:
        """Seconds of audio per second."""
        return self.audio_seconds / self.seconds if self.seconds > 0 else 0.0


def fit_points(points: Sequence[Point], budget: float) -> MemoryFit:
    """Fit the memory model to what was measured: least squares, no coefficient below zero.

    The base is then raised until no measured peak is above the model: workspaces come in steps,
    and a guard must not be below what was seen.
    """
    work = np.array([[1, p.cost, p.squares] for p in points], float)
    seen = np.array([p.peak for p in points], float)
    # A batch that ran out of memory only says that its peak is not below the capacity.
    exact = np.array([not p.oom for p in points])
    # Relative errors, and columns of like magnitude: the squares are millions of times larger.
    scale = work.max(axis=0)
    scaled = (work / scale / seen[:, None])[exact]
    wanted = np.ones(len(scaled))
    best, least = np.zeros(3), np.inf
    for num in (1, 2, 3):
        for columns in map(list, combinations(range(3), num)):
            found = np.linalg.lstsq(scaled[:, columns], wanted, rcond=None)[0]
            error = float(np.sum((scaled[:, columns] @ found - wanted) ** 2))
            if np.all(found >= 0) and error < least * (1 - 1e-9) - 1e-15:
                best, least = np.zeros(3), error
                best[columns] = found
    base, linear, quadratic = (best / scale).tolist()
    base += max(0.0, float(np.max(seen - work @ [base, linear, quadratic])))
    return MemoryFit(base=base, linear=linear, quadratic=quadratic, budget=budget)


def most_items(size: int, limit: BatchLimit) -> int:
    """How many of this size fit into a batch; 0 when not even one does."""
    bounds = [float(limit.max_items)]
    if limit.max_cost is not None:
        bounds.append(limit.max_cost // size)
    fit = limit.memory
    if fit and fit.base > fit.budget:
        return 0
    if fit and (per_item := fit.linear * size + fit.quadratic * size**2):
        bounds.append((fit.budget - fit.base) // per_item)
    return int(min(bounds))
