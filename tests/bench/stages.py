"""Where each millisecond of an utterance goes, on one core, and how near to its limit that is.

    python -m tests.bench.stages VOICE TEXTS

A process of its own for the benchmark, with one thread, as a worker on a CPU has it; JSON.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from batchtts import audio, checks, host, meters, models, output, probe, probe_cache
from batchtts.batching import packed
from batchtts.config import BatchConfig, Config
from batchtts.models.base import Audio, Features, Item, Model
from batchtts.probe_cache import ProbeKey
from tests.bench.parts import Operations, Parts

ROUNDS = 3


class Bench:
    """A voice on one core, and texts for it."""

    def __init__(self, voice: str, texts: Sequence[str]) -> None:
        torch.set_num_threads(1)
        family, name = models.split(voice)
        adapter = models.adapter(family)
        self.model: Model = adapter.load(name, "cpu", adapter.precisions("cpu")[0])
        self.output = output.resolve(Config().output)
        self._pcm16 = not audio.needs_float(self.output)
        frontend = adapter.frontend(name)
        self._items = [Item(text=text, voice=name, seed=n) for n, text in enumerate(texts)]
        self.prepare: Callable[[], list[Features]] = lambda: [
            frontend.prepare(item) for item in self._items
        ]
        self.features = self.prepare()
        self.key = ProbeKey(
            adapter=family,
            fingerprint=adapter.voice(name).fingerprint,
            precision=self.model.precision,
            share=host.cores(),
            threads=1,
        )
        self.parts = Parts()

    def speak(self, batches: Sequence[Sequence[Features]]) -> list[Audio]:
        """As the infer thread does."""
        submit = getattr(self.model, "submit", None)
        spoken: list[Audio] = []
        for batch in batches:
            spoken += submit(batch, self._pcm16)() if submit else self.model.synthesize(batch)
        return spoken

    def limit(self) -> probe.ProbeResult:
        """The batch that a worker here chooses."""
        meter, clock = meters.for_device("cpu", host.cores())
        folder = probe_cache.default_folder()
        batch = BatchConfig()
        return probe.find_limit(
            self.model, self.features, batch, self.key, meter, clock, folder, lambda _: None
        )


def measure(voice: str, texts: Sequence[str]) -> dict[str, Any]:
    """Core milliseconds per utterance of every stage, alone and in batches; operations."""
    bench = Bench(voice, texts)
    found = bench.limit()
    ways = {
        "alone": [[item] for item in bench.features],
        "batches": packed(bench.features, found.limit, bench.model.ragged),
    }
    audios = bench.speak(ways["batches"])
    audio_seconds = sum(len(a.wave) for a in audios) / bench.model.sample_rate
    with TemporaryDirectory(prefix="batchtts-") as folder:
        around = {
            "prepare": _core_seconds(bench.prepare),
            "post": _core_seconds(lambda: _post(bench, audios)),
            "write": _core_seconds(lambda: _write(bench, audios, Path(folder))),
        }
    bench.parts.attach(bench.model)
    parts = _parts(bench, ways)
    return {
        "voice": voice,
        "precision": bench.model.precision,
        "texts": len(texts),
        "audio_seconds": audio_seconds,
        "choice": found.choice,
        "mean_batch": len(texts) / len(ways["batches"]),
        "around": around,
        "infer": {name: sum(found.values()) for name, found in parts.items()},
        "parts": parts,
        "operations": _count(bench, ways["batches"]),
    }


def _core_seconds(work: Callable[[], object]) -> float:
    """Of the median round: what others do on the machine is not counted, but caches are shared."""
    taken = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return median(taken)


def _post(bench: Bench, audios: Sequence[Audio]) -> None:
    for spoken, features in zip(audios, bench.features, strict=False):
        checks.check(spoken.wave, bench.model.sample_rate, features.seconds)
        audio.finish(spoken.wave, bench.model.sample_rate, bench.output)


def _write(bench: Bench, audios: Sequence[Audio], folder: Path) -> None:
    for number, spoken in enumerate(audios):
        path = folder / f"{number}.{output.extension(bench.output)}"
        output.write(path, spoken.wave, bench.model.sample_rate, bench.output, 0)


def _parts(
    bench: Bench, ways: Mapping[str, Sequence[Sequence[Features]]]
) -> dict[str, dict[str, float]]:
    """Core seconds of each part of the model, of the median round; the ways take turns."""
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, batches in ways.items():
            bench.parts.begin()
            bench.speak(batches)
            rounds[name].append(bench.parts.end())
    return {
        name: {part: median(found[part] for found in taken) for part in taken[0]}
        for name, taken in rounds.items()
    }


def _count(bench: Bench, batches: Sequence[Sequence[Features]]) -> list[dict[str, Any]]:
    """Operations by part and number type, the largest first."""
    with Operations(bench.parts) as counter:
        bench.speak(batches)
    return [
        {"part": part, "kind": kind, "operations": count}
        for (part, kind), count in counter.counted.most_common()
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("voice")
    parser.add_argument("texts", type=Path)
    given = parser.parse_args()
    print(json.dumps(measure(given.voice, given.texts.read_text("utf-8").splitlines())))  # noqa: T201


if __name__ == "__main__":
    main()
