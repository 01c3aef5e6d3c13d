"""How large a batch should be: measured for this model, on this device, with these texts.

A throughput knee, guarded by a fit of the memory. Speed saturates long before memory does, so the
knee is what a run obeys and the fit is what keeps it alive. Three small batches give the fit:
running out of memory is no way to measure here, but an accident.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchtts import probe_cache
from batchtts.config import BatchConfig
from batchtts.data import BatchLimit, MemoryFit
from batchtts.memory import Point, most_items
from batchtts.meters import Clock, MemoryMeter
from batchtts.models.base import Features, Model
from batchtts.probe_cache import ProbeKey
from batchtts.probe_runs import Runs, choose_longest

DEFAULT_KNEE_SECONDS = 60.0
"""Audio in a batch where the knee is not measured: near it on all devices that were published."""
LEAST_BATCHES = 4
"""A job of fewer such batches is done before a measurement would pay."""
TIME_BOX_SECONDS = 30.0
TIME_BOX_SHARE = 0.03
"""Most time of a measurement: the smaller of the two, the second as a share of the job."""
STRETCH = 1.25
"""What was measured holds for texts up to so many times the longest one then, and for jobs up to
so many times the one whose share of time it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What was found, and why this limit was chosen."""

    limit: BatchLimit
    choice: str
    """The choice and its reason in one sentence."""
    device: str = ""
    points: tuple[Point, ...] = ()
    longest: int = 0
    """Size of the longest text that was measured."""
    memory_limit: int | None = None
    """How many of the longest text the memory takes; None: not measured, or only roughly."""
    knee: Point | None = None
    """The smallest batch near the best speed; None: not measured."""
    from_cache: bool = False
    notes: tuple[str, ...] = ()
    """What a reader should know, such as a time box that ended the measurement."""

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data, speeds included."""
        found = asdict(self)
        for point, entry in zip(self.points, found["points"], strict=True):
            entry["speed"] = point.speed
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is kept: it holds for other texts and another day's free memory."""

    points: tuple[Point, ...]
    longest: int
    """Size of the longest text that was measured."""
    verified: int
    """Most of the longest text that were seen to fit."""
    knee: Point | None
    cut_short: bool
    """The time ended first: the knee may lie higher."""
    base: float
    linear: float
    quadratic: float
    """Coefficients of `MemoryFit`."""
    fragmentation: float
    """Bytes held per byte in use; 0.0 where memory was not measured."""
    job_size: int | None
    """The job that its time was a share of, when that cut it short; None: it holds for any job."""
    notes: tuple[str, ...]

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Measured":
        """Undo `asdict`; raises TypeError or KeyError where the file is not ours."""
        knee = Point(**kept["knee"]) if kept["knee"] else None
        points = tuple(Point(**point) for point in kept["points"])
        lists = {"knee": knee, "points": points, "notes": tuple(kept["notes"])}
        return cls(**{**kept, **lists})


def find_limit(
    model: Model,
    samples: Sequence[Features],
    batch: BatchConfig,
    key: ProbeKey,
    meter: MemoryMeter,
    clock: Clock,
    cache_folder: Path | None,
    log: Callable[[str], None],
    *,
    job_size: int | None = None,
    more: Callable[[], Sequence[Features]] | None = None,
) -> ProbeResult:
    """Find when a batch is full, on the device that the model is on.

    Args:
        model: the model, loaded.
        samples: features of this run, the longest included; at least one.
        batch: what the config says of batches; an explicit size is obeyed.
        key: what a kept result must agree in.
        meter: memory of the device.
        clock: synchronised with the device.
        cache_folder: where results are kept; None: nowhere.
        log: told what is going on, a line each time.
        job_size: sum of `Features.size` of all that this worker is to speak; the measurement then
            takes a small share of that. None: the measurement is itself the job.
        more: makes the samples of a measurement, where `samples` are too few; asked only if there
            is one.

    Raises:
        DeviceError: not even one short text fits into the memory.
    """
    meter.guard()
    if batch.size != "auto":
        choice = f"batches of {batch.size}, as the config says: nothing was measured"
        return ProbeResult(limit=BatchLimit(max_items=batch.size), choice=choice)
    default = _default_cost(samples)
    if batch.probe == "off":
        return _unmeasured(batch, default, "the probe is off")
    identity = meter.identity()
    kind = "memory" if batch.probe == "memory" else "batch"
    file = key.file(cache_folder, identity, kind) if cache_folder else None
    with probe_cache.alone(file):
        longest = choose_longest(samples).size
        kept = None if batch.probe == "force" else _read(file, longest, job_size)
        if kept is None and job_size is not None and job_size < LEAST_BATCHES * default:
            return _unmeasured(batch, default, "the job is too small for a measurement to pay")
        if kept is None:
            log(f"measuring how large a batch may be on {identity['name']}")
        measured = kept or _measure(
            model, more() if more else samples, batch, meter, clock, job_size
        )
        if kept is None:
            probe_cache.write(file, asdict(measured))
    memory = _memory_fit(measured, batch.margin, meter.capacity())
    max_cost = _max_cost(measured, batch, default)
    limit = BatchLimit(max_items=batch.max_size, max_cost=max_cost, memory=memory)
    free = BatchLimit(max_items=1_000_000, memory=memory)
    memory_limit = most_items(measured.longest, free) if memory and meter.exact else None
    return ProbeResult(
        limit=limit,
        choice=_choice(measured, limit, memory_limit),
        device=identity["name"],
        points=measured.points,
        longest=measured.longest,
        memory_limit=memory_limit,
        knee=measured.knee,
        from_cache=kept is not None,
        notes=measured.notes,
    )


def _measure(
    model: Model,
    samples: Sequence[Features],
    batch: BatchConfig,
    meter: MemoryMeter,
    clock: Clock,
    job_size: int | None,
) -> Measured:
    runs = Runs(model, samples, meter, clock, margin=batch.margin, max_items=batch.max_size)
    pace = runs.warm_up()
    share = float("inf") if job_size is None else TIME_BOX_SHARE * pace * job_size
    runs.set_time_box(min(TIME_BOX_SECONDS, share))
    if meter.exact:
        runs.measure_memory()
    knee = None if batch.probe == "memory" else runs.find_knee()
    if meter.exact:
        runs.validate(knee.cost if knee else None)
    else:
        runs.measure_memory()  # a rough figure, so it comes last
    fit = runs.fit()
    return Measured(
        points=tuple(runs.points),
        longest=runs.longest,
        verified=runs.verified(),
        knee=knee,
        cut_short=runs.cut_short,
        base=fit.base if fit else 0.0,
        linear=fit.linear if fit else 0.0,
        quadratic=fit.quadratic if fit else 0.0,
        fragmentation=runs.fragmentation() if fit else 0.0,
        job_size=None if runs.complete or share >= TIME_BOX_SECONDS else job_size,
        notes=tuple(runs.notes),
    )


def _read(file: Path | None, longest: int, job_size: int | None) -> Measured | None:
    """What was kept, where it holds for texts of this length and for a job of this size."""
    try:
        kept = Measured.from_dict(probe_cache.read(file) or {})
    except (KeyError, TypeError):
        return None
    if longest > STRETCH * kept.longest:
        return None
    if kept.job_size is not None and (job_size is None or job_size > STRETCH * kept.job_size):
        return None  # with more time it would find more
    return kept


def _memory_fit(measured: Measured, margin: float, capacity: float) -> MemoryFit | None:
    """The guard, with today's free memory."""
    if not measured.fragmentation:
        return None
    return MemoryFit(
        base=measured.base,
        linear=measured.linear,
        quadratic=measured.quadratic,
        budget=(1 - margin) * capacity / measured.fragmentation,
    )


def _max_cost(measured: Measured, batch: BatchConfig, default: int) -> int:
    if measured.knee:
        return max(measured.knee.cost, default if measured.cut_short else 0)
    if batch.probe == "memory" and measured.verified:
        return measured.verified * measured.longest
    return default


def _default_cost(samples: Sequence[Features]) -> int:
    seconds = sum(features.seconds for features in samples)
    size = sum(features.size for features in samples)
    return max(1, round(DEFAULT_KNEE_SECONDS * size / max(seconds, 0.001)))


def _unmeasured(batch: BatchConfig, max_cost: int, why: str) -> ProbeResult:
    limit = BatchLimit(max_items=batch.max_size, max_cost=max_cost)
    choice = f"batches of about {DEFAULT_KNEE_SECONDS:.0f} s of audio: {why}"
    return ProbeResult(limit=limit, choice=choice)


def _choice(measured: Measured, limit: BatchLimit, memory_limit: int | None) -> str:
    """The choice and its reason in one sentence."""
    memory = "" if memory_limit is None else f"; memory takes {memory_limit} of the longest"
    knee = measured.knee
    if knee is None and limit.max_cost == measured.verified * measured.longest:
        return f"batches of up to {measured.verified} of the longest text, as the memory allows"
    about = f"batches of about {DEFAULT_KNEE_SECONDS:.0f} s of audio"
    if knee is None:
        return f"{about}: the knee could not be measured{memory}"
    if measured.cut_short and limit.max_cost != knee.cost:
        return f"{about}: in the time for measuring, {knee.items} texts were not enough{memory}"
    first = next(point for point in measured.points if point.stage == "knee")
    gain = knee.speed / first.speed
    return (
        f"batches of about {knee.items} texts of typical length: the smallest within 95 % of the "
        f"best speed, {knee.speed:.0f}x real time, {gain:.1f}x one at a time{memory}"
    )
