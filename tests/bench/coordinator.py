"""What one coordinator can do, and what that means for ten million rows on 64 GPUs.

    python -m tests.bench.coordinator [--rows 100000] [--simulate 10000000]

First it is measured: the real plan, coordinator, pipes and journal, with workers that speak in no
time. Then the real coordinator drives simulated GPUs under a clock that jumps, and what its work
took in truth is laid over the simulated hours. Prints JSON.
"""

import argparse
import heapq
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from batchtts import plan
from batchtts.config import load_config
from batchtts.coordinator import Coordinator
from batchtts.data import Record, Row, Utterance
from batchtts.devices import Slot
from batchtts.leases import LeaseBook
from batchtts.messages import Busy, Bye, Died, Done, Drain, Ready, Stats, Work
from batchtts.monitor import Monitor
from batchtts.places import Disk
from batchtts.plan import record_of
from batchtts.pools.base import Channel
from batchtts.pools.local import LocalPool
from batchtts.progress import NoScreen
from batchtts.recorder import Recorder
from batchtts.voices import voice
from tests.bench.texts import texts as sentences

BATCH = 64
"""Utterances in a batch of the instant workers."""
BATCH_SECONDS = 60.0
"""Audio in a batch of the simulated GPUs: the knee of a fast model."""
SPEEDS = (250.0, 1000.0, 4000.0)
"""Audio seconds per second of one simulated GPU."""
CHECKS = {"verdict": "ok", "bytes": 131116, "crc32": "9a1b2c3d", "peak_dbfs": -3.1, "rms_dbfs": -21}


class NeverStop:
    """See `batchtts.coordinator.Stop`."""

    def stage(self) -> int:
        return 0


def record(utterance: Utterance) -> Record:
    """As long as a real one."""
    return record_of(
        utterance,
        "texts.csv",
        status="ok",
        file=utterance.file,
        duration=3.4567,
        sample_rate=24000,
        model="hibari:heart 0123456789abcdef",
        device="cuda:0",
        checks=CHECKS,
        finished_at="2026-01-01T00:00:00Z",
    )


def slots(number: int) -> list[Slot]:
    return [Slot(device="cpu", label=f"g{n}", env={}, threads=1, share=1) for n in range(number)]


# Measured -----------------------------------------------------------------------------------------


def instant(channel: Channel, _spec: object) -> None:
    """The body of a worker that speaks in no time, batch by batch."""
    channel.send(Ready("fp32", ""))
    while isinstance(message := channel.recv(), Work):
        rows = message.lease.utterances
        for first in range(0, len(rows), BATCH):
            batch = rows[first : first + BATCH]
            channel.send(Busy(tuple(u.index for u in batch), 3.0 * len(batch)))
            channel.send(Done(tuple((u.index, record(u)) for u in batch)))
    channel.send(Bye())


class CountingPool(LocalPool):
    """Counts what it hears."""

    messages = 0

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        heard = super().poll(timeout)
        self.messages += len(heard)
        return heard


def measure(rows: int, workers: int = 2) -> dict[str, float]:
    """Rows and messages per second of a whole coordinator, and what a row costs it."""
    config = load_config(None, {"voice": "fake:tone"})
    texts = sentences(2000)
    started = time.process_time()
    lines = (
        Row(index=n, line=n + 2, id=f"{n:08d}", text=f"{texts[n % 2000]} {n}") for n in range(rows)
    )
    items = plan.utterances(lines, config, lambda _: voice("fake:tone"), folders=True)
    work = plan.make_plan(items, {}, lambda _: True, lambda u: float(len(u.text)), "texts.csv")
    planned = time.process_time() - started
    with TemporaryDirectory() as folder:
        books = Path(folder)
        recorder = Recorder(
            books, Disk(books), "texts.csv", work, lambda _: 3.0, NoScreen(), Monitor()
        )
        # Of the module, not of the script that runs: a worker imports it by its name.
        pool = CountingPool(import_module("tests.bench.coordinator").instant)
        with recorder:
            coordinator = Coordinator(
                LeaseBook(work.todo, lambda _: 3.0),
                pool,
                slots(workers),
                lambda _slot, _scale: None,
                recorder,
                NeverStop(),
            )
            wall, cpu = time.perf_counter(), time.process_time()
            coordinator.run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        num_bytes = (books / "manifest.jsonl").stat().st_size
    return {
        "rows": rows,
        "rows_per_second": round(rows / wall),
        "messages_per_second": round(pool.messages / wall),
        "cpu_share": round(cpu / wall, 3),
        "cpu_us_per_row": round(1e6 * cpu / rows, 1),
        "plan_us_per_row": round(1e6 * planned / rows, 1),
        "manifest_bytes_per_row": round(num_bytes / rows),
    }


# Simulated ----------------------------------------------------------------------------------------


class Rows:
    """A list of utterances, longest first, that are made when they are asked for."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __len__(self) -> int:
        return self._number

    def __getitem__(self, n: int) -> Utterance:
        return Utterance(
            index=n,
            line=n + 2,
            id=f"{n:08d}",
            text="",
            voice="fake:tone",
            lang="",
            speed=1.0,
            seed=n,
            file="",
            key="",
        )

    def seconds(self, utterance: Utterance) -> float:
        """From 12 s down to 0.5 s, half of the rows under 3 s."""
        return 0.5 + 11.5 * float((1 - utterance.index / self._number) ** 2.2)


@dataclass
class SimulatedPool:
    """See `batchtts.pools.base.Pool`: GPUs of one speed under a clock that jumps."""

    rows: Rows
    speed: float
    """Audio seconds per second of each."""
    now: float = 0.0
    messages: int = 0
    busy: float = 0.0
    """Seconds that GPUs spoke, all together."""
    _events: list[tuple[float, int, int, object]] = field(default_factory=list)
    _free: dict[int, float] = field(default_factory=dict)
    """Worker -> when its device has done all that it was given."""
    _order: Iterator[int] = field(default_factory=count)

    def clock(self) -> float:
        return self.now

    def start(self, worker: int, _spec: object, _environment: dict[str, str]) -> None:
        self._say(self.now + 20.0, worker, Ready("fp32", ""))
        self._free[worker] = self.now + 20.0

    def send(self, worker: int, message: object) -> None:
        at = max(self.now, self._free[worker])
        if isinstance(message, Work):
            for batch, seconds in self._batches(message.lease.utterances):
                self._say(at, worker, Busy(tuple(u.index for u in batch), seconds))
                at += seconds / self.speed
                done = ((u.index, Record(id=u.id, status="ok", duration=1.0)) for u in batch)
                self._say(at, worker, Done(tuple(done)))
                self._say(at, worker, Stats({}))
                self.busy += seconds / self.speed
        elif isinstance(message, Drain):
            self._say(at, worker, Bye())
            self._say(at, worker, Died("ended"))
        self._free[worker] = at

    def _batches(self, rows: tuple[Utterance, ...]) -> Iterator[tuple[list[Utterance], float]]:
        batch: list[Utterance] = []
        seconds = 0.0
        for utterance in rows:
            batch.append(utterance)
            seconds += self.rows.seconds(utterance)
            if seconds >= BATCH_SECONDS:
                yield batch, seconds
                batch, seconds = [], 0.0
        if batch:
            yield batch, seconds

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        if self._events:
            self.now = min(self.now + timeout, max(self.now, self._events[0][0]))
        heard = []
        while self._events and self._events[0][0] <= self.now:
            _, _, worker, message = heapq.heappop(self._events)
            heard.append((worker, message))
        self.messages += len(heard)
        return heard

    def _say(self, when: float, worker: int, message: object) -> None:
        heapq.heappush(self._events, (when, next(self._order), worker, message))

    def kill(self, worker: int) -> None:
        raise AssertionError(worker)

    def close(self) -> None:
        assert not self._events


class Counting:
    """See `batchtts.coordinator.Watcher`."""

    rows = 0

    def commit(self, _utterance: Utterance, _record: Record) -> None:
        self.rows += 1

    def give_up(self, utterance: Utterance, reason: str) -> None:
        raise AssertionError(utterance.id, reason)

    def device(self, label: str, uuid: str) -> None: ...

    def event(self, text: str, *, aloud: bool = False) -> None: ...

    def tick(self) -> None: ...


def simulate(rows: int, gpus: int, speed: float, cpu_us_per_row: float) -> dict[str, Any]:
    """A night of so many GPUs under one coordinator.

    `cpu_us_per_row` is what a row costs a whole coordinator with pipes and journal.
    """
    work = Rows(rows)
    pool, watcher = SimulatedPool(work, speed), Counting()
    book = LeaseBook(work, work.seconds)  # type: ignore[arg-type]
    coordinator = Coordinator(
        book, pool, slots(gpus), lambda _s, _l: None, watcher, NeverStop(), clock=pool.clock
    )
    own = time.process_time()
    coordinator.run()
    own = time.process_time() - own
    assert watcher.rows == rows
    wall = pool.now
    share = cpu_us_per_row * rows / 1e6 / wall
    return {
        "gpu_speed": speed,
        "hours": round(wall / 3600, 2),
        "rows_per_second": round(rows / wall),
        "messages_per_second": round(pool.messages / wall),
        "gpu_busy_share": round(pool.busy / (wall * gpus), 4),
        "coordinator_cpu_share": round(share, 3),
        "rows_per_second_at_full_cpu": round(1e6 / cpu_us_per_row),
        "simulator_us_per_row": round(1e6 * own / rows, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows that are measured")
    parser.add_argument("--simulate", type=int, default=1_000_000, help="rows that are simulated")
    parser.add_argument("--gpus", type=int, default=64)
    options = parser.parse_args()
    measured = measure(options.rows)
    bytes_per_row, cost = measured["manifest_bytes_per_row"], measured["cpu_us_per_row"]
    result = {
        "measured": measured,
        "simulated_rows": options.simulate,
        "gpus": options.gpus,
        "manifest_gb": round(options.simulate * bytes_per_row / 1e9, 2),
        "plan_minutes": round(options.simulate * measured["plan_us_per_row"] / 60e6, 1),
        "simulated": [simulate(options.simulate, options.gpus, s, cost) for s in SPEEDS],
    }
    json.dump(result, sys.stdout, indent=2)
    print()  # noqa: T201


if __name__ == "__main__":
    main()
