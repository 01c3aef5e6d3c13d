"""The reference packages and batchtts on the same texts, in turns, from command to last file."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any

from batchtts import host
from tests.bench.processes import FailedError, Measured, environment, python, run, spoken

Commands = Callable[[list[str], Path], list[list[str]]]
"""Texts and an empty folder for the files -> commands to run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One way to get the texts spoken."""

    name: str
    commands: Commands
    ours: bool
    single: bool = True
    """One process, as people run it; the best of these is what ours are compared with."""


def reference(package: str, threads: int, model: str = "") -> Commands:
    """One process of a reference package."""
    return lambda texts, folder: [_reference(package, threads, model, texts, folder)]


def side_by_side(package: str, processes: int, model: str = "") -> Commands:
    """Processes of one thread, each with a part of the texts, as somebody does by hand."""

    def commands(texts: list[str], folder: Path) -> list[list[str]]:
        parts = [(texts[n::processes], folder / str(n)) for n in range(processes)]
        for _, part in parts:
            part.mkdir()
        return [_reference(package, 1, model, some, part) for some, part in parts]

    return commands


def _reference(package: str, threads: int, model: str, texts: list[str], folder: Path) -> list[str]:
    source = _write(texts, folder / "texts.txt")
    extra = ["--model", model] if model else []
    return python("tests.bench.reference", package, source, folder, "--threads", threads, *extra)


def piper_command(model: str) -> Commands:
    """The `piper` command as it comes."""

    def commands(texts: list[str], folder: Path) -> list[list[str]]:
        source = str(_write(texts, folder / "texts.txt"))
        return [python("piper", "-m", model, "-i", source, "-d", folder)]

    return commands


def generate(voice: str, *options: str) -> Commands:
    """Our command."""

    def commands(texts: list[str], folder: Path) -> list[list[str]]:
        source = str(_write(texts, folder / "texts.txt"))
        return [[*ours(), "generate", source, "-o", str(folder), "--voice", voice, *options]]

    return commands


def on_one_core(commands: Commands) -> Commands:
    """The same, bound to the first core: so it has one worker with one thread."""
    core = str(min(os.sched_getaffinity(0)))
    return lambda texts, folder: [
        ["taskset", "-c", core, *command] for command in commands(texts, folder)
    ]


def ours() -> list[str]:
    """The installed command, as a user calls it."""
    return [str(Path(sys.executable).with_name("batchtts"))]


def _write(texts: list[str], path: Path) -> Path:
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def hibari_contenders() -> list[Contender]:
    """The default voice."""
    cores = host.cores()
    alone = generate("hibari:heart", "--devices", "cpu", "--batch-size", "1")
    return [
        *(
            Contender(
                name=f"hibari, {threads} thread(s)",
                commands=reference("hibari", threads),
                ours=False,
            )
            for threads in dict.fromkeys((1, cores))
        ),
        Contender(
            name=f"hibari, {cores} processes by hand",
            commands=side_by_side("hibari", cores),
            ours=False,
            single=False,
        ),
        Contender(name="batchtts", commands=generate("hibari:heart"), ours=True),
        Contender(name="batchtts, one core, batches of 1", commands=on_one_core(alone), ours=True),
    ]


def piper_contenders(model: str) -> list[Contender]:
    """A Piper voice, by the path of its .onnx file."""
    cores = host.cores()
    return [
        Contender(name="piper command", commands=piper_command(model), ours=False),
        Contender(name="piper, 1 thread", commands=reference("piper", 1, model), ours=False),
        Contender(
            name=f"piper, {cores} processes by hand",
            commands=side_by_side("piper", cores, model),
            ours=False,
            single=False,
        ),
        Contender(name="batchtts", commands=generate(f"piper:{model}"), ours=True),
    ]


def compare(
    contenders: Sequence[Contender],
    texts: list[str],
    rounds: int,
    folder: Path,
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Let all contenders speak all texts, in turns, each round in the other direction."""
    env = environment(folder / "cache")
    results: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            place = folder / "files"
            place.mkdir()
            measured = run(contender.commands(texts, place), env)
            results[contender.name].append(_result(measured, place, len(texts)))
            rmtree(place)
            speed = results[contender.name][-1]["speed"]
            log(f"round {number + 1} of {rounds}, {contender.name}: {speed:.1f}x real time")
    return {"texts": len(texts), "rounds": rounds, **judge(contenders, results)}


def _result(measured: Measured, folder: Path, expected: int) -> dict[str, Any]:
    found = spoken(folder)
    if found.files != expected:
        message = f"{found.files} files where {expected} were asked for"
        raise FailedError(message)
    return {
        "wall": measured.wall,
        "cpu": measured.cpu,
        "peak_bytes": measured.peak_bytes,
        "audio_seconds": found.audio_seconds,
        "speed": found.audio_seconds / measured.wall,
        "speed_per_core": found.audio_seconds / measured.cpu,
        "first_file": found.written[0] - measured.started_at,
        "stages": measured.output,
    }


def judge(
    contenders: Sequence[Contender], results: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Medians and spread; ours against the best single process of the reference, round by round."""
    entries, singles = [], [c.name for c in contenders if c.single and not c.ours]
    best = max(singles, key=lambda name: median(run["speed"] for run in results[name]))
    for contender in contenders:
        runs = results[contender.name]
        ratios = [
            run["speed"] / other["speed"] for run, other in zip(runs, results[best], strict=True)
        ]
        entries.append(
            {
                "name": contender.name,
                "ours": contender.ours,
                "ratio": spread(ratios),
                **{
                    name: spread([run[name] for run in runs])
                    for name in ("speed", "speed_per_core", "wall", "first_file", "peak_bytes")
                },
                "runs": list(runs),
            }
        )
    return {"best_reference": best, "contenders": entries}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": median(values), "min": min(values), "max": max(values)}
