"""How the work of one slot divides over many: devices are simulated, a synthesis sleeps.

    python -m tests.bench.scaling --rows 3200

A simulated device needs 100 ms per utterance and no core, so that two cores can stand in for a
machine with eight GPUs; spawning, leases, checks and files are real. `work` is the time from the
first batch to the last file, and the speed-up is the ratio of that; `start-up` is what went before,
`skew` is the time between the first and the last slot to begin, `tail` between the first and the
last slot to end: what a longer job pays only once.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from batchtts import manifest
from tests import night

ITEM_SECONDS = 0.1
BATCH = 10
WANTED = {1: 0.0, 2: 1.9, 4: 3.8, 8: 7.5}
"""Slots -> the speed-up over one slot that is the aim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """One run; all in seconds."""

    slots: int
    startup: float
    skew: float
    work: float
    tail: float
    total: float


def measure(slots: int, rows: int, place: Path) -> Scaled:
    """Run the job on so many simulated devices."""
    folder = place / f"out-{slots}"
    source = night.write_rows(place / "in.csv", rows)
    started = time.time()
    options = ("--devices", ",".join(["cpu"] * slots), "--batch-size", str(BATCH))
    fake: dict[str, object] = {"item_seconds": ITEM_SECONDS}
    done = night.generate(source, folder, *options, fake=fake, patience=3600.0)
    ended = time.time()
    if done.returncode:
        raise SystemExit(done.stderr)
    by_slot: dict[str, list[float]] = {}
    for record in manifest.read(folder).values():
        written = (folder / record.file).stat().st_mtime
        by_slot.setdefault(record.device, []).append(written)
    first = [min(times) - BATCH * ITEM_SECONDS for times in by_slot.values()]
    last = [max(times) for times in by_slot.values()]
    return Scaled(
        slots=slots,
        startup=min(first) - started,
        skew=max(first) - min(first),
        work=max(last) - min(first),
        tail=max(last) - min(last),
        total=ended - started,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3200)
    parser.add_argument("--slots", type=int, nargs="+", default=list(WANTED))
    asked = parser.parse_args(arguments)
    with TemporaryDirectory() as place:
        runs = [measure(slots, asked.rows, Path(place)) for slots in asked.slots]
    ideal = asked.rows * ITEM_SECONDS
    columns = ("slots", "start-up", "skew", "work", "tail", "total", "speed-up", "aim", "of ideal")
    print(*(f"{column:>8}" for column in columns))  # noqa: T201
    for run in runs:
        speedup = runs[0].work / run.work * runs[0].slots
        numbers = (run.startup, run.skew, run.work, run.tail, run.total, speedup)
        cells = [f"{run.slots:8}", *(f"{number:8.2f}" for number in numbers)]
        cells += [f"{WANTED.get(run.slots, 0):8.1f}", f"{ideal / run.slots / run.work:8.1%}"]
        print(*cells)  # noqa: T201
    print(json.dumps([asdict(run) for run in runs]))  # noqa: T201


if __name__ == "__main__":
    main()
