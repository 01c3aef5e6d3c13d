"""Processes or threads? On a machine without GPU both ways are measured, and the better one kept.

`python -m batchtts.cpu_split` is one of the processes that are measured: it gets its work pickled
on standard input, says "ready" once it is warm, waits for a line, and answers with its speed.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import cycle
from pathlib import Path
from typing import IO

from batchtts import host, models, probe_cache
from batchtts.devices import CpuSplit
from batchtts.errors import DeviceError
from batchtts.meters import CpuMeter
from batchtts.models.base import Features
from batchtts.probe_cache import ProbeKey

MEASURE_SECONDS = 2.0
"""How long each way speaks."""
CLEAR_GAIN = 1.1
"""Threads must be so much faster: a process per core suffers less where others work too."""


def kept_split(key: ProbeKey, folder: Path | None) -> CpuSplit | None:
    """The split that was measured earlier on this machine, for this voice."""
    kept = probe_cache.read(_file(key, folder)) or {}
    try:
        return CpuSplit(processes=int(kept["processes"]), threads=int(kept["threads"]))
    except (KeyError, TypeError, ValueError):
        return None


def cpu_split(
    voice: str,
    features: Sequence[Features],
    key: ProbeKey,
    folder: Path | None,
    log: Callable[[str], None],
) -> CpuSplit:
    """Measure one process with a thread per core against a process per core; keep the better.

    Args:
        voice: "adapter:name", loaded in the key's precision.
        features: texts of this run; each way speaks them one by one for a moment.
        key: what a kept result must agree in; its share and threads do not count.
        folder: where results are kept; None: nowhere.
        log: told what was found, a line for each way.

    Raises:
        DeviceError: a process ended while it was measured.
    """
    cores = host.cores()
    ways = [CpuSplit(processes=1, threads=cores), CpuSplit(processes=cores, threads=1)]
    if cores == 1:
        return ways[0]
    speeds = []
    for way in ways:
        speeds.append(measure(way, voice, key.precision, features))
        log(
            f"CPU, processes x threads {way.processes} x {way.threads}: {speeds[-1]:.0f}x real time"
        )
    best = ways[0] if speeds[0] > CLEAR_GAIN * speeds[1] else ways[1]
    file = _file(key, folder)
    with probe_cache.alone(file):
        probe_cache.write(file, asdict(best))
    return best


def measure(way: CpuSplit, voice: str, precision: str, features: Sequence[Features]) -> float:
    """Seconds of audio per second of all processes together, while all of them speak."""
    env = os.environ | {"OMP_NUM_THREADS": str(way.threads), "CUDA_VISIBLE_DEVICES": ""}
    work = pickle.dumps((voice, precision, MEASURE_SECONDS, list(features)))
    with ExitStack() as stack:
        processes = []
        for _ in range(way.processes):
            process = subprocess.Popen(
                [sys.executable, "-m", "batchtts.cpu_split"],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
            _tell(process, work)
        for process in processes:
            _expect(process, "ready")
        for process in processes:
            _tell(process, b"go\n")
        return sum(float(_expect(process, "speed")) for process in processes)


def _tell(process: "subprocess.Popen[bytes]", message: bytes) -> None:
    assert process.stdin
    try:
        process.stdin.write(message)
        process.stdin.flush()
    except OSError as error:
        raise _death() from error


def _expect(process: "subprocess.Popen[bytes]", word: str) -> str:
    """Read up to the line that begins with this word; what follows it. Others are the model's."""
    assert process.stdout
    for line in process.stdout:
        first, _, rest = line.decode(errors="replace").strip().partition(" ")
        if first == word:
            return rest
    raise _death()


def _death() -> DeviceError:
    return DeviceError("a process on the CPU ended while its speed was measured; see above for why")


def _file(key: ProbeKey, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    any_slot = replace(key, share=1, threads=1)  # these are what is looked for
    return any_slot.file(folder, CpuMeter(1).identity(), "split")


def main(stdin: IO[bytes]) -> None:
    """Be one of the processes that are measured."""
    voice, precision, seconds, features = pickle.load(stdin)
    family, name = models.split(voice)
    model = models.adapter(family).load(name, "cpu", precision)
    for item in features[:3]:
        model.synthesize([item])
    print("ready", flush=True)  # noqa: T201  the protocol
    stdin.readline()
    started, elapsed, samples, items = time.perf_counter(), 0.0, 0, cycle(features)
    while elapsed < seconds:
        samples += sum(len(audio.wave) for audio in model.synthesize([next(items)]))
        elapsed = time.perf_counter() - started
    print("speed", samples / model.sample_rate / elapsed, flush=True)  # noqa: T201  the protocol


if __name__ == "__main__":
    main(sys.stdin.buffer)
