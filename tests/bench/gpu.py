"""One prepared script for a real GPU; all that cannot be measured elsewhere, in under 8 minutes.

    python -m tests.bench.gpu --out gpu.json

Fit of the memory against measured peaks, knee curve, forced out of memory, precisions, single
against batch, cudnn.benchmark on and off, and whole runs with the load of the device. With
`--device cpu` it runs what a CPU can, to see that the script itself works.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from batchtts import bench, meters, models, probe
from batchtts.batching import OutOfMemory, cost, peak_bytes, run_splitting
from batchtts.config import BatchConfig
from batchtts.data import BatchLimit
from batchtts.models.base import Adapter, Features, Item, Model
from batchtts.monitor import Monitor
from batchtts.probe_cache import ProbeKey
from tests.bench.quality import log_mel_distance

DEMO = Path(__file__).parents[2] / "configs" / "demo.csv"
NUM_TEXTS = 256
NUM_ROWS = 2000
"""Rows of the whole run."""
OOM_BATCH = 64


class Subject:
    """The voice under test, and what the sections hand on to each other."""

    def __init__(self, voice: str, device: str) -> None:
        family, self.name = models.split(voice)
        self.voice, self.device = f"{family}:{self.name}", device
        self.adapter: Adapter = models.adapter(family)
        frontend = self.adapter.frontend(self.name)
        with DEMO.open(encoding="utf-8") as file:
            self.texts = [row["text"] for row in csv.DictReader(file)]
        many = islice(cycle(self.texts), NUM_TEXTS)
        self.features = [
            frontend.prepare(Item(text=text, voice=self.name, seed=seed))
            for seed, text in enumerate(many)
        ]
        self.model = self.load(self.adapter.precisions(device)[0])
        self.meter, self.clock = meters.for_device(device, 1)
        self.limit = BatchLimit(max_items=16)

    def load(self, precision: str) -> Model:
        return self.adapter.load(self.name, self.device, precision)


def fit_and_knee(subject: Subject) -> dict[str, Any]:
    """The probe, and its memory model against peaks that it has not seen."""
    key = ProbeKey(adapter="bench", fingerprint="", precision=subject.model.precision)
    found = probe.find_limit(
        subject.model,
        subject.features,
        BatchConfig(),
        key,
        subject.meter,
        subject.clock,
        None,
        print,
    )
    subject.limit = found.limit
    return found.as_dict() | {"unseen": _unseen_peaks(subject, found)}


def _unseen_peaks(subject: Subject, found: probe.ProbeResult) -> list[dict[str, float]]:
    fit, ordered = found.limit.memory, sorted(subject.features, key=lambda f: f.size)
    if fit is None or not subject.meter.exact:
        return []
    answers = []
    for batch in (ordered[:24], ordered[-10:], ordered[len(ordered) // 2 :][:48]):
        subject.meter.reset()
        subject.model.synthesize(batch)
        measured = subject.meter.peak()
        predicted = peak_bytes([f.size for f in batch], fit, subject.model.ragged)
        error = predicted / measured - 1
        answers.append({"items": len(batch), "peak": measured, "error": round(error, 4)})
    return answers


def forced_oom(subject: Subject) -> dict[str, Any]:
    """A memory fraction that half a batch needs: the whole batch is split and all is spoken."""
    if subject.device == "cpu":
        return {"skipped": "a CPU does not say that its memory ran out"}
    import torch

    batch = subject.features[:OOM_BATCH]
    whole = subject.model.synthesize(batch)
    subject.meter.free()
    subject.meter.reset()
    subject.model.synthesize(batch[: OOM_BATCH // 2])
    cap = int(subject.meter.reserved() * 1.1)
    subject.meter.free()
    base = torch.cuda.memory_allocated(subject.device)
    total = torch.cuda.get_device_properties(subject.device).total_memory
    told: list[str] = []
    left: list[int] = []

    def free() -> None:
        subject.meter.free()
        left.append(torch.cuda.memory_allocated(subject.device) - base)

    torch.cuda.set_per_process_memory_fraction(cap / total, subject.device)
    try:
        subject.meter.reset()
        audios = run_splitting(subject.model.synthesize, batch, told.append, free)
        peak = subject.meter.reserved()
    finally:
        torch.cuda.set_per_process_memory_fraction(0.92, subject.device)
    spoken = [audio for audio in audios if not isinstance(audio, OutOfMemory)]
    same = [len(a.wave) == len(b.wave) for a, b in zip(whole, spoken, strict=False)]
    return {
        "told": told,
        "frees": len(left),
        "bytes_left_after_free": left,
        "spoken": len(spoken),
        "asked": len(batch),
        "same_lengths": all(same),
        "peak_over_cap": peak / cap,
    }


def precisions(subject: Subject) -> dict[str, Any]:
    """Log-mel distance to fp32 with the same noise, and the speed of each precision."""
    batch = subject.features[:8]
    reference = subject.load("fp32").synthesize(batch)
    answers = {}
    for precision in subject.adapter.precisions(subject.device):
        model = subject.load(precision)
        audios = model.synthesize(batch)
        distances = [
            log_mel_distance(a.wave, b.wave, model.sample_rate)
            for a, b in zip(reference, audios, strict=True)
        ]
        lengths = [len(a.wave) == len(b.wave) for a, b in zip(reference, audios, strict=True)]
        started = subject.clock.now()
        audios = model.synthesize(subject.features[:OOM_BATCH])
        seconds = subject.clock.now() - started
        audio_seconds = sum(len(audio.wave) for audio in audios) / model.sample_rate
        answers[precision] = {
            "effective": model.precision,
            "log_mel_distance": max(distances),
            "same_lengths": all(lengths),
            "speed": audio_seconds / seconds,
        }
    return answers


def single_against_batch(subject: Subject) -> dict[str, Any]:
    """The benchmark at the probed limit."""
    texts = subject.features[: NUM_TEXTS if subject.device != "cpu" else 16]
    return bench.run(subject.model, texts, subject.limit, subject.clock).as_dict()


def cudnn_benchmark(subject: Subject) -> dict[str, float]:
    """Ten batches of ever new lengths, without and with cudnn.benchmark."""
    import torch

    ordered = sorted(subject.features, key=lambda f: f.size)
    batches = [ordered[10 * n : 10 * n + 4] for n in range(10)]
    answers = {}
    for wanted in (False, True):
        torch.backends.cudnn.benchmark = wanted
        started = subject.clock.now()
        for batch in batches:
            subject.model.synthesize(batch)
        answers[f"benchmark_{wanted}"] = subject.clock.now() - started
    torch.backends.cudnn.benchmark = False
    return answers


def whole_runs(subject: Subject) -> dict[str, Any]:
    """`batchtts generate` with one worker and with two on the device."""
    rows = NUM_ROWS if subject.device != "cpu" else 20
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "texts.csv"
        with source.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text"])
            for number, text in enumerate(islice(cycle(subject.texts), rows)):
                writer.writerow([f"{number:05}", f"{text} Number {number}."])
        for devices in (subject.device, f"{subject.device},{subject.device}"):
            output = Path(folder) / devices.replace(",", "+").replace(":", "")
            answers[devices] = _generate(source, output, devices, subject.voice)
    return answers


def _generate(source: Path, output: Path, devices: str, voice: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "batchtts", "generate", str(source), "--output", str(output)]
    command += ["--devices", devices, "--voice", voice]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    summary = output / "summary.json"
    if not summary.exists():
        return {"exit": done.returncode, "stderr": done.stderr[-2000:]}
    found: dict[str, Any] = json.loads(summary.read_text())
    return found | {"exit": done.returncode, "timeline": len(found.get("timeline", []))}


def load_while(subject: Subject, seconds: float = 5.0) -> dict[str, Any]:
    """What the monitor sees while batches follow each other."""
    if subject.device == "cpu":
        return {"skipped": "no GPU"}
    from batchtts.devices import uuid

    ordered = sorted(subject.features, key=lambda f: f.size)
    most = subject.limit.max_cost or ordered[-1].size
    batch: list[Features] = []
    for item in cycle(ordered[len(ordered) // 2 :]):
        if cost([f.size for f in [*batch, item]], subject.model.ragged) > most:
            break
        batch.append(item)
    with Monitor(interval=0.5) as monitor:
        monitor.watch(subject.device, uuid(subject.device))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            subject.model.synthesize(batch or ordered[-1:])
        return {"latest": [str(load) for load in monitor.latest()]} | dict(monitor.summary())


SECTIONS: Sequence[Callable[[Subject], Any]] = (
    fit_and_knee,
    single_against_batch,
    precisions,
    forced_oom,
    cudnn_benchmark,
    load_while,
    whole_runs,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--voice", default="hibari:heart")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    options = parser.parse_args()
    subject = Subject(options.voice, options.device)
    result: dict[str, Any] = {"device": subject.meter.identity(), "voice": subject.voice}
    for section in SECTIONS:
        started = time.monotonic()
        try:
            result[section.__name__] = section(subject)
        except Exception as error:  # noqa: BLE001  the other sections are worth having
            result[section.__name__] = {"error": f"{type(error).__name__}: {error}"}
        took = round(time.monotonic() - started, 1)
        print(f"{section.__name__}: {took} s", file=sys.stderr)  # noqa: T201
        # After each: a device that is taken away leaves what was measured so far.
        options.out.write_text(json.dumps(result, indent=1, default=str))
    print(json.dumps(result, default=str))  # noqa: T201


if __name__ == "__main__":
    main()
