"""The measurements of the probe: small batches for the memory, growing ones for the speed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from batchtts.batching import OutOfMemory, cost, run_or_free
from batchtts.data import BatchLimit, MemoryFit
from batchtts.errors import DeviceError
from batchtts.memory import Point, fit_points, most_items
from batchtts.meters import Clock, MemoryMeter
from batchtts.models.base import Features, Model

KNEE_SHARE = 0.95
GAIN = 1.05
"""Two doublings in a row below this gain end the search for the knee."""
TIMED_RUNS = 3
VALIDATIONS = 3
JUMP = 8
"""A fit is trusted up to so many times the largest batch that was measured."""
OUTLIER = 4
"""A text longer than so many times the 99th percentile is not what the guard is measured with."""
MAX_FRAGMENTATION = 1.3


class Runs:
    """Measures batches made of the texts of this run, within a time box."""

    def __init__(
        self,
        model: Model,
        samples: Sequence[Features],
        meter: MemoryMeter,
        clock: Clock,
        *,
        margin: float,
        max_items: int,
    ) -> None:
        self.points: list[Point] = []
        self.notes: list[str] = []
        self.complete = True
        """Whether nothing was cut short."""
        self.cut_short = False
        """Whether the time ended before larger batches were seen to be no faster."""
        self.capacity = meter.capacity()
        self._model, self._meter, self._clock = model, meter, clock
        self._margin, self._max_items = margin, max_items
        self._samples = sorted(samples, key=lambda features: features.size)
        group, _ = Counter(features.group for features in samples).most_common(1)[0]
        self._typical = [features for features in self._samples if features.group == group]
        self._longest = choose_longest(samples)
        if self._longest.size < self._samples[-1].size:
            self.notes.append(
                f"texts of more than {self.longest} units may need batches of their own"
            )
        self._end = float("inf")
        self._first_pace = 0.0

    @property
    def longest(self) -> int:
        """Size of the longest text that is measured."""
        return self._longest.size

    def set_time_box(self, seconds: float) -> None:
        """End within this time from now."""
        self._end = self._clock.now() + seconds

    def warm_up(self) -> float:
        """Speak one text twice: what happens only once is left out. Seconds per unit of cost."""
        point = self._run("warm", [self._typical[len(self._typical) // 2]], timed=1)
        if point.oom:
            self._refuse(point)
        self.points.clear()
        self._first_pace = point.seconds / point.cost
        return self._first_pace

    def measure_memory(self) -> None:
        """Three small batches, from which the memory of any other follows."""
        if not self._has_time(_repeat([self._longest], 4), 1):
            return
        while self._run("memory", [self._longest]).oom:
            self.notes.append(f"a text of size {self.longest} does not fit even alone")
            shorter = [f for f in self._samples if f.size <= self.longest // 2]
            if not shorter:
                self._refuse(self.points[-1])
            self._longest = shorter[-1]
        self._run("memory", _repeat([self._longest], 2))
        self._run("memory", [self._half()])

    def find_knee(self) -> Point | None:
        """Double the batch until the speed stops growing: the smallest near the best speed."""
        best, poor, done, num = 0.0, 0, 0, 1
        while poor < 2:
            num = min(num, self._allowed(num))
            batch = self._typical_batch(num)
            if num <= done:
                break
            if not self._has_time(batch, 1 + TIMED_RUNS):
                self.cut_short = True
                break
            point = self._run("knee", batch, timed=TIMED_RUNS)
            poor = poor + 1 if point.speed < best * GAIN else 0
            best = max(best, point.speed)
            if point.oom or not self._may_double(point):
                break
            done, num = num, 2 * num
        good = [p for p in self.points if p.stage == "knee" and p.speed >= KNEE_SHARE * best > 0]
        return min(good, key=lambda point: point.items, default=None)

    def validate(self, max_cost: int | None) -> None:
        """Run the largest batch of the longest text that the limit would allow, as a run would."""
        for _ in range(VALIDATIONS):
            fit = self.fit()
            if fit is None:
                return
            limit = BatchLimit(max_items=self._max_items, max_cost=max_cost, memory=fit)
            largest = max(point.cost for point in self.points if not point.oom)
            allowed = most_items(self.longest, limit)
            num = min(allowed, JUMP * largest // self.longest)
            if num <= self.verified():
                return
            batch = _repeat([self._longest], num)
            if not self._has_time(batch, 1):
                return
            self._run("validate", batch)

    def verified(self) -> int:
        """Most items of the longest text that were seen to fit into one batch."""
        fitted = [p.items for p in self.points if not p.oom and p.longest == self.longest]
        return max(fitted, default=0)

    def fragmentation(self) -> float:
        """Bytes held per byte in use, at the largest batch."""
        top = max(self.points, key=lambda point: point.peak)
        return min(MAX_FRAGMENTATION, max(1.0, top.reserved / max(1, top.peak)))

    def fit(self) -> MemoryFit | None:
        """The memory model of all that was measured so far; None without its three batches."""
        if not any(point.stage == "memory" for point in self.points):
            return None
        budget = (1 - self._margin) * self.capacity / self.fragmentation()
        return fit_points(self.points, budget)

    def _run(self, stage: str, batch: Sequence[Features], timed: int = 0) -> Point:
        """Speak a batch once, then so many times more for the time.

        The shortest counts: what else a machine does can only add to it.
        """
        ragged = self._model.ragged
        sizes = [features.size for features in batch]
        self._meter.reset()
        seconds: list[float] = []
        samples, oom = 0, False
        while len(seconds) <= timed and not oom:
            started = self._clock.now()
            audios = run_or_free(self._model.synthesize, batch, self._meter.free)
            seconds.append(self._clock.now() - started)
            if isinstance(audios, OutOfMemory):
                oom = True
                self.notes.append(f"a batch of {len(batch)} ran out of memory: {audios.text}")
            else:
                samples = sum(len(audio.wave) for audio in audios)
        point = Point(
            stage=stage,
            items=len(batch),
            longest=max(sizes),
            cost=cost(sizes, ragged),
            squares=sum(n * n for n in sizes) if ragged else len(sizes) * max(sizes) ** 2,
            seconds=min(seconds[1:] or seconds),
            audio_seconds=0.0 if oom else samples / self._model.sample_rate,
            peak=self.capacity if oom else self._meter.peak(),
            reserved=self._meter.reserved(),
            oom=oom,
        )
        self.points.append(point)
        return point

    def _allowed(self, num: int) -> int:
        """Most items of typical size, for a batch of about so many."""
        longest = max(features.size for features in self._typical_batch(num))
        return most_items(longest, BatchLimit(max_items=self._max_items, memory=self.fit()))

    def _may_double(self, point: Point) -> bool:
        """Where no error says that memory ran out: whether twice as much stays within budget."""
        return self._meter.exact or 2 * point.peak <= (1 - self._margin) * self.capacity

    def _has_time(self, batch: Sequence[Features], num_runs: int) -> bool:
        """Whether so many runs of a batch end within the time box, at the speed seen so far."""
        work = cost([features.size for features in batch], self._model.ragged)
        paces = (point.seconds / point.cost for point in self.points if not point.oom)
        pace = min(paces, default=self._first_pace)
        if self._clock.now() + pace * work * num_runs <= self._end:
            return True
        self.complete = False
        self.notes.append(f"the time box ended before a batch of {len(batch)}")
        return False

    def _half(self) -> Features:
        """A real text of about half the longest size, or a made-up one of exactly that."""
        half = self.longest // 2
        near = min(self._samples, key=lambda features: abs(features.size - half))
        return near if abs(near.size - half) <= half // 3 else self._model.dummy(max(1, half))

    def _typical_batch(self, num: int) -> list[Features]:
        """Texts of like length around the median, as a run that is sorted by length has them."""
        width = min(num, max(1, len(self._typical) // 8))
        start = (len(self._typical) - width) // 2
        return _repeat(self._typical[start : start + width], num)

    def _refuse(self, point: Point) -> None:
        message = (
            f"not even one text of size {point.longest} fits into the memory of the device: "
            f"{self.capacity / 2**20:.0f} MiB are free for this worker; {self.notes[-1]}"
        )
        raise DeviceError(message)


def choose_longest(samples: Sequence[Features]) -> Features:
    """The longest text, outliers left out: they are not what the guard is measured with."""
    ordered = sorted(samples, key=lambda features: features.size)
    usual = ordered[int(0.99 * (len(ordered) - 1))].size
    return [features for features in ordered if features.size <= OUTLIER * usual][-1]


def _repeat(features: Sequence[Features], num: int) -> list[Features]:
    """So many features, repeated as needed, each with a seed of its own."""
    repeated = (features[place % len(features)] for place in range(num))
    return [replace(f, seed=(f.seed + place) % 2**63) for place, f in enumerate(repeated)]
