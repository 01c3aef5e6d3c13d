"""A made-up device for the probe: model, memory and clock in one, as exact as a CUDA device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from batchtts.batching import cost
from batchtts.config import BatchConfig
from batchtts.models.base import Audio, Features
from batchtts.probe import ProbeResult, find_limit
from batchtts.probe_cache import ProbeKey

KEY = ProbeKey(adapter="made-up", fingerprint="1", precision="fp32")
MIB = 2**20


class OutOfMemoryError(RuntimeError):
    """Named as torch's own."""


@dataclass
class Device:
    """A model, its memory and its clock: all made up, and as exact as a CUDA device."""

    base: float = 100 * MIB
    linear: float = 0.1 * MIB
    quadratic: float = 0.0
    workspace: Callable[[int], float] = lambda _cost: 0.0
    """Bytes on top, by the cost of the batch."""
    memory: int = 16_000 * MIB
    fixed_seconds: float = 0.02
    unit_seconds: float = 1e-6
    ragged: bool = False
    sample_rate: int = 100
    max_size: int = 10_000
    precision: str = "fp32"
    exact: bool = True
    tried: list[list[int]] = field(default_factory=list)
    ooms: int = 0
    seconds: float = 0.0
    top: float = 0.0

    def peak_of(self, sizes: Sequence[int]) -> float:
        counted = sizes if self.ragged else [max(sizes)] * len(sizes)
        items = sum(self.linear * size + self.quadratic * size**2 for size in counted)
        return self.base + items + self.workspace(cost(sizes, self.ragged))

    def dummy(self, size: int) -> Features:
        return Features(size=size, seconds=size / 10, seed=0)

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        sizes = [features.size for features in batch]
        self.tried.append(sizes)
        self.seconds += self.fixed_seconds + self.unit_seconds * cost(sizes, self.ragged)
        peak = self.peak_of(sizes)
        if peak > self.memory:
            self.ooms += 1
            message = "CUDA out of memory. (made up)"
            raise OutOfMemoryError(message)
        self.top = max(self.top, peak)
        return [Audio(wave=np.zeros(size * 10, np.float32)) for size in sizes]

    def now(self) -> float:
        return self.seconds

    def identity(self) -> dict[str, str]:
        return {"name": "a made-up device"}

    def guard(self) -> None:
        return

    def capacity(self) -> int:
        return self.memory

    def reset(self) -> None:
        self.top = 0.0

    def peak(self) -> int:
        return int(self.top)

    def reserved(self) -> int:
        return int(self.top)

    def free(self) -> None:
        return


def features_of(sizes: Sequence[int], group: object = None) -> list[Features]:
    return [
        Features(size=size, seconds=size / 10, seed=seed, group=group)
        for seed, size in enumerate(sizes)
    ]


def probe(
    device: Device,
    sizes: Sequence[int] = (40, 60, 80, 100),
    folder: Path | None = None,
    job_size: int | None = None,
    **batch: Any,
) -> ProbeResult:
    return find_limit(
        device,
        features_of(sizes),
        BatchConfig(**batch),
        KEY,
        device,
        device,
        folder,
        lambda _line: None,
        job_size=job_size,
    )
