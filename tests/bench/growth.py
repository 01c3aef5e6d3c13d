"""Ten times the work: ten times the time, and what grows faster than that."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from time import process_time
from typing import Any

import numpy as np

from batchtts import manifest
from batchtts.data import Record
from tests.bench.processes import environment, python, run
from tests.bench.texts import texts


def measure(
    voice: str,
    counts: Sequence[int],
    slots: Sequence[int],
    folder: Path,
    log: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Runs of growing size on different numbers of CPU slots, and how their figures grow."""
    found = []
    for number in slots:
        runs = []
        for count in counts:
            runs.append(_one(voice, count, number, folder))
            log(f"{voice}, {count} utterances, {number} slots: {runs[-1]['wall']:.1f} s")
        found.append({"voice": voice, "slots": number, "runs": runs, **growth(counts, runs)})
    return found


def _one(voice: str, count: int, slots: int, folder: Path) -> dict[str, Any]:
    source, place = folder / "texts.txt", folder / "grown"
    source.write_text("\n".join(texts(count)) + "\n", encoding="utf-8")
    options = ("-q", "-o", place, "--voice", voice, "--devices", ",".join(["cpu"] * slots))
    command = python("tests.bench.metered", "generate", source, *options)
    done = run([command], environment(folder / "cache"))
    answer = {
        "utterances": count,
        "wall": done.wall,
        "coordinator_cpu": done.output["coordinator"]["cpu"],
        "coordinator_peak": done.output["coordinator"]["peak_bytes"],
        "workers_cpu": done.output["workers"]["cpu"],
        "worker_peak": done.output["workers"]["peak_bytes"],
        "manifest_bytes": (place / "manifest.jsonl").stat().st_size,
    }
    rmtree(place)
    return answer


def growth(counts: Sequence[int], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Fixed part and cost per utterance of each figure; and, of three sizes, how the cost moves."""
    fits: dict[str, dict[str, float | None]] = {}
    if len(counts) < 2:
        return {"fits": fits}
    for name in ("wall", "coordinator_cpu", "workers_cpu", "coordinator_peak", "worker_peak"):
        values = [run[name] for run in runs]
        fixed, each = line(counts, values)
        fits[name] = {"fixed": fixed, "each": each, "bend": bend(counts, values)}
    return {"fits": fits}


def line(counts: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Least squares of value = fixed + each * count, by relative error."""
    weights = 1 / np.maximum(np.asarray(values, float), 1e-9)
    work = np.stack([np.ones(len(counts)), np.asarray(counts, float)], axis=1)
    fixed, each = np.linalg.lstsq(
        work * weights[:, None], np.asarray(values, float) * weights, rcond=None
    )[0]
    return float(fixed), float(each)


def bend(counts: Sequence[int], values: Sequence[float]) -> float | None:
    """What an utterance adds between the two largest sizes, over what it adds below them.

    1.0 is a straight line, 10 what a quadratic term does to sizes of 1:10:100; None: two sizes
    have no bend, and what does not grow at first has none either.
    """
    if len(counts) < 3:
        return None
    before = (values[-2] - values[-3]) / (counts[-2] - counts[-3])
    after = (values[-1] - values[-2]) / (counts[-1] - counts[-2])
    return after / before if before > 0 else None


def manifest_costs(counts: Sequence[int], folder: Path) -> dict[str, Any]:
    """Microseconds per record of everything that is done with a manifest, at growing sizes."""
    record = Record(
        id="0",
        status="ok",
        file="audio/00000.wav",
        duration=4.5,
        sample_rate=24_000,
        text="The parcel from the north gate is ready, because nobody answered the telephone.",
        voice="hibari:heart",
        model="hibari:heart 5f70741d4e900f4e-0.2.1-1",
        key="1b563b376f767d98ea678fb9272774ff",
        source="texts.txt:1",
        device="cpu/1",
        checks={"verdict": "ok", "bytes": 216_044, "crc32": "74b07cd4", "peak_dbfs": -11.5},
        finished_at="2026-01-01T00:00:00Z",
    )
    costs: dict[str, list[float]] = {}
    for count in counts:
        ids = [f"{number:05}" for number in range(count)]
        records = [replace(record, id=id, file=f"audio/{id}.wav") for id in ids]
        place = folder / f"journal-{count}"
        place.mkdir()
        for name, seconds in _manifest_work(place, ids, records):
            costs.setdefault(name, []).append(1e6 * seconds / count)
        rmtree(place)
    return {"records": list(counts), "microseconds": costs}


def _manifest_work(
    place: Path, ids: Sequence[str], records: Sequence[Record]
) -> Iterable[tuple[str, float]]:
    def append() -> None:
        with manifest.Journal(place) as journal:
            for first in range(0, len(records), 16):  # as many as come at once from a CPU
                journal.append_all(records[first : first + 16])

    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("append", append),
        ("read for a resume", lambda: manifest.read_prior(place)),
        ("compact", lambda: manifest.compact(place, manifest.read_in_order(place, ids))),
        ("write manifest.csv", lambda: manifest.write_csv(place, records)),
    )
    for name, work in steps:
        started = process_time()
        work()
        yield name, process_time() - started
