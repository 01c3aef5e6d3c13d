"""One at a time against in batches, on the user's own texts, honestly timed.

Times are read after the device has ended its work, after a warm-up, interleaved, as medians.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchtts.batching import OutOfMemory, packed, padding_share, run_or_free
from batchtts.data import BatchLimit
from batchtts.errors import DeviceError
from batchtts.meters import Clock
from batchtts.models.base import Audio, Features, Model

WARM_UP_SINGLES = 3
LEAST_FIT_BATCH = 4
"""The fit of t(B) needs a few batch sizes, even where the chosen one is 1."""

Stage = Callable[[Sequence[Audio]], object]
"""Does the work of one stage for all texts; given their audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """All texts, spoken in one way."""

    batches: int
    largest: int
    """Items in the largest batch."""
    audio_seconds: float
    seconds: tuple[float, ...]
    """Of each round."""

    @property
    def speed(self) -> float:
        """Seconds of audio per second, by the median round."""
        return self.audio_seconds / median(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """What batches gain, and where the time goes."""

    texts: int
    single: Way
    batch: Way
    speedup: float
    """Median over the rounds of single / batch seconds in the same round."""
    fixed_seconds: float
    """a in t(B) = a + b B: what each call costs, whatever it holds."""
    item_seconds: float
    """b in t(B) = a + b B: what each text of typical length adds."""
    fit_points: tuple[tuple[int, float], ...]
    """(B, seconds) that the two come from."""
    padding_share: float
    """Padded / total positions in the batches."""
    stages: Mapping[str, float]
    """Stage -> seconds for all texts; infer is the median round in batches."""

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data, speeds included."""
        found = asdict(self)
        found["single"]["speed"], found["batch"]["speed"] = self.single.speed, self.batch.speed
        return found


def run(
    model: Model,
    features: Sequence[Features],
    limit: BatchLimit,
    clock: Clock,
    *,
    rounds: int = 3,
    before: Mapping[str, Stage] | None = None,
    after: Mapping[str, Stage] | None = None,
) -> BenchResult:
    """Speak all texts one at a time and in batches, in turns.

    Args:
        model: the model, loaded.
        features: the texts, prepared; at least one.
        limit: when a batch is full, as the probe or the config says.
        clock: synchronised with the model's device.
        rounds: how often each way is timed.
        before: stages that come before infer, such as prepare; each is timed once.
        after: stages that come after it, such as post and write; each is timed once.

    Raises:
        DeviceError: a batch does not fit into the memory.
    """
    batches = packed(features, limit, model.ragged)
    _timed(model, [[item] for item in features[:WARM_UP_SINGLES]], clock)
    audios, _ = _timed(model, batches, clock)
    times = [_round(model, batches, clock) for _ in range(rounds)]
    singles, batched = [alone for alone, _ in times], [together for _, together in times]
    largest = max(map(len, batches))
    audio_seconds = sum(len(audio.wave) for audio in audios) / model.sample_rate
    points = _fit_points(model, features, largest, clock)
    fixed, item = _line(points)
    stages = {name: _time_stage(stage, audios, clock) for name, stage in (before or {}).items()}
    stages["infer"] = median(batched)
    stages |= {name: _time_stage(stage, audios, clock) for name, stage in (after or {}).items()}
    return BenchResult(
        texts=len(features),
        single=Way(
            batches=len(features), largest=1, audio_seconds=audio_seconds, seconds=tuple(singles)
        ),
        batch=Way(
            batches=len(batches),
            largest=largest,
            audio_seconds=audio_seconds,
            seconds=tuple(batched),
        ),
        speedup=median(alone / together for alone, together in times),
        fixed_seconds=fixed,
        item_seconds=item,
        fit_points=tuple(points),
        padding_share=padding_share([[f.size for f in b] for b in batches], model.ragged),
        stages=stages,
    )


def _round(
    model: Model, batches: Sequence[Sequence[Features]], clock: Clock
) -> tuple[float, float]:
    """Seconds of all texts one at a time, and in batches.

    The ways take turns batch by batch, each first as often as the other, so that a device that
    slows down, or a machine that others use too, favours neither.
    """
    seconds = {True: 0.0, False: 0.0}
    for number, batch in enumerate(batches):
        for alone in (True, False) if number % 2 == 0 else (False, True):
            parts = [[item] for item in batch] if alone else [batch]
            seconds[alone] += _timed(model, parts, clock)[1]
    return seconds[True], seconds[False]


def _timed(
    model: Model, batches: Sequence[Sequence[Features]], clock: Clock
) -> tuple[list[Audio], float]:
    """The audio of some batches, and how long they took together."""
    audios: list[Audio] = []
    started = clock.now()
    for batch in batches:
        outcome = run_or_free(model.synthesize, batch, lambda: None)
        if isinstance(outcome, OutOfMemory):
            message = f"a batch of {len(batch)} ran out of memory: {outcome.text}"
            raise DeviceError(message)
        audios += outcome
    return audios, clock.now() - started


def _fit_points(
    model: Model, features: Sequence[Features], largest: int, clock: Clock
) -> list[tuple[int, float]]:
    """Seconds of batches of growing size, made of texts of typical length."""
    ordered = sorted(features, key=lambda item: item.size)
    middle = ordered[len(ordered) // 2]
    points, num = [], 1
    while num <= max(largest, LEAST_FIT_BATCH):
        batch = [middle] * num
        _timed(model, [batch], clock)
        points.append((num, median(_timed(model, [batch], clock)[1] for _ in range(3))))
        num *= 2
    return points


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Least squares of t = a + b B, by relative error, neither below zero."""
    items = np.array([num for num, _ in points], float)
    seconds = np.array([max(taken, 1e-9) for _, taken in points])
    work = np.stack([np.ones_like(items), items], axis=1) / seconds[:, None]
    fixed, item = np.linalg.lstsq(work, np.ones_like(items), rcond=None)[0].tolist()
    if fixed < 0:
        return 0.0, float(np.mean(seconds / items))
    if item < 0:
        return float(np.mean(seconds)), 0.0
    return fixed, item


def _time_stage(stage: Stage, audios: Sequence[Audio], clock: Clock) -> float:
    started = clock.now()
    stage(audios)
    return clock.now() - started


def render(result: BenchResult) -> RenderableType:
    """The two ways side by side, the costs, and where the time goes."""
    table = Table(title=f"{result.texts} texts, median of {len(result.single.seconds)} rounds")
    table.add_column("")
    for name in ("batches", "largest", "seconds", "min..max", "x real time"):
        table.add_column(name, justify="right")
    for name, way in (("one at a time", result.single), ("in batches", result.batch)):
        table.add_row(
            name,
            str(way.batches),
            str(way.largest),
            f"{median(way.seconds):.2f}",
            f"{min(way.seconds):.2f}..{max(way.seconds):.2f}",
            f"{way.speed:.0f}",
        )
    total = sum(result.stages.values())
    shares = ", ".join(f"{name} {took / total:.0%}" for name, took in result.stages.items())
    fixed, item = 1000 * result.fixed_seconds, 1000 * result.item_seconds
    lines = (
        f"speedup {result.speedup:.2f}x, padding share {result.padding_share:.1%}",
        f"a call costs {fixed:.1f} ms, each text of typical length {item:.2f} ms more",
        f"where the time goes, one after the other: {shares}",
    )
    return Group(table, *map(Text, lines))
