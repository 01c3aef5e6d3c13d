"""How a run ended: summary.json for machines, a table for people."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from batchtts import storage
from batchtts.errors import Exit
from batchtts.times import clock

FILE = "summary.json"
IDLE_SHARE = 0.3
"""A device that is idle for more than this share of its time is worth a line of advice."""
SHOWN_REASONS = 5


@dataclass(slots=True, kw_only=True)
class Summary:
    """The figures of one run."""

    outcome: str
    """"done", or "stopped" before the end (resumable)."""
    exit_code: Exit
    counts: dict[str, int]
    """Rows of the input by status, in the whole manifest; "unfinished" where the run stopped."""
    spoken: int = 0
    """Utterances that this run spoke."""
    kept: int = 0
    """Rows that earlier runs had finished."""
    copied: int = 0
    """Rows that say what another one says, or what the cache has: their file is a copy."""
    gone: int = 0
    """Ids of the manifest that are no longer in the input; their files were left."""
    audio_seconds: float = 0.0
    """Audio written by this run."""
    wall_seconds: float = 0.0
    """From the start of the command to its end."""
    rtf: float = 0.0
    """Processing seconds / audio seconds: lower is better."""
    speed: float = 0.0
    """Audio seconds / wall seconds."""
    padding_share: float = 0.0
    """Padded / total positions in all batches."""
    positions: int = 0
    """Of all batches, padding included."""
    batches: int = 0
    batch_sizes: dict[str, int] = field(default_factory=dict)
    """Size of a batch -> how many there were."""
    batch_choice: str = ""
    """How the batch size was found."""
    ooms: int = 0
    """Batches that were split because memory ran out."""
    retries: int = 0
    """Utterances spoken again because their audio was suspect."""
    suspects: int = 0
    """Files that are ok but suspect; their records say why."""
    restarts: int = 0
    """Workers that had to be replaced."""
    precision: str = ""
    """Effective number type of the models."""
    devices: dict[str, dict[str, float]] = field(default_factory=dict)
    """Slot -> shares of its time: busy, wait_prepare, wait_write, load, probe."""
    shard: dict[str, Any] = field(default_factory=dict)
    """Of a shard: its name, and the rows and the digest of the whole input."""
    load: dict[str, Any] = field(default_factory=dict)
    """What the device monitor saw; empty where there is none."""
    energy: float = 0.0
    """Joules per second of audio, all monitored devices; 0.0 where they do not tell."""
    changes: dict[str, int] = field(default_factory=dict)
    """What was changed in the texts before they were spoken, and how often: see `text.Cleaned`."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why rows failed or were skipped -> how many."""
    timeline: list[tuple[float, int, float]] = field(default_factory=list)
    """(seconds since the start, utterances so far, audio seconds so far)."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, as summary.json has it."""
        return {**asdict(self), "exit_code": int(self.exit_code)}

    def write(self, folder: Path, name: str = FILE) -> None:
        """Write summary.json into the output folder, whole or not at all."""
        text = json.dumps(self.as_dict(), ensure_ascii=False, indent=2)
        storage.replace(folder / name, [f"{text}\n".encode()])

    def add_times(self, audio_seconds: float, wall_seconds: float) -> None:
        """Take in how much audio came in how long."""
        self.audio_seconds = round(audio_seconds, 3)
        self.wall_seconds = round(wall_seconds, 3)
        if audio_seconds and wall_seconds:
            self.rtf = round(wall_seconds / audio_seconds, 6)
            self.speed = round(audio_seconds / wall_seconds, 3)
            joules = sum(load.get("energy", 0.0) for load in self.load.values())
            self.energy = round(joules / audio_seconds, 4)

    def add_figures(self, workers: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Take in what the workers say of themselves: slot -> figures of each that sat there."""
        sizes: Counter[int] = Counter()
        real = padded = 0
        for slot, lives in workers.items():
            for figures in lives:
                sizes.update(figures["batch_sizes"])
                real += figures["real"]
                padded += figures["padded"]
                self.ooms += figures["ooms"]
                self.retries += figures["retries"]
                self.batches += figures["batches"]
                self.precision = figures.get("precision", self.precision)
                self.batch_choice = figures.get("batch_choice", self.batch_choice)
            if lives:
                self.devices[slot] = _shares(lives)
        self.batch_sizes = {str(size): count for size, count in sorted(sizes.items())}
        self.positions = padded
        self.padding_share = round(1 - real / padded, 4) if padded else 0.0

    def advice(self) -> str:
        """One line on what holds the devices up; empty when nothing does."""
        for slot, shares in self.devices.items():
            if shares["wait_prepare"] > IDLE_SHARE:
                return (
                    f"{slot} waited for the text front end {shares['wait_prepare']:.0%} of the time"
                )
            if shares["wait_write"] > IDLE_SHARE:
                return f"{slot} waited for the disk {shares['wait_write']:.0%} of the time"
        return ""


def _shares(lives: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    total = sum(figures["alive_seconds"] for figures in lives) or 1.0
    parts = {
        "busy": "busy_seconds",
        "wait_prepare": "wait_prepare_seconds",
        "wait_write": "wait_write_seconds",
        "load": "load_seconds",
        "probe": "probe_seconds",
    }
    return {
        name: round(sum(figures[field] for figures in lives) / total, 4)
        for name, field in parts.items()
    }


def render(summary: Summary, target: str) -> Table:
    """The summary as a person reads it; `target` is the output folder, or its URL."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, value: str) -> None:
        table.add_row(name, escape(value))

    counts = [f"{count} {status}" for status, count in summary.counts.items() if count]
    row("rows", ", ".join(counts) or "none")
    done = [(summary.spoken, "spoken"), (summary.copied, "copied"), (summary.kept, "kept")]
    parts = [] if summary.spoken or summary.copied else ["nothing to do"]
    row("this run", ", ".join(parts + [f"{count} {word}" for count, word in done if count]))
    if summary.spoken:
        row(
            "audio",
            f"{clock(summary.audio_seconds)} in {clock(summary.wall_seconds)}: "
            f"{summary.speed:.1f}x real time (RTF {summary.rtf:.4f})",
        )
        row("batches", _batches(summary))
    if summary.devices:
        busy = (f"{slot} {shares['busy']:.0%} busy" for slot, shares in summary.devices.items())
        row("devices", ", ".join((*busy, summary.precision)))
    for device, load in summary.load.items():
        row("load", f"{device}: {', '.join(f'{name} {value:.4g}' for name, value in load.items())}")
    if summary.energy:
        row("energy", f"{summary.energy:.2f} J per second of audio")
    events = [
        (summary.ooms, "out of memory"),
        (summary.restarts, "workers restarted"),
        (summary.retries, "spoken again"),
        (summary.suspects, "suspect"),
        (summary.gone, "no longer in the input"),
    ]
    if any(count for count, _ in events):
        row("events", ", ".join(f"{count} {word}" for count, word in events if count))
    if any(summary.changes.values()):
        changed = (f"{count} {name}" for name, count in summary.changes.items() if count)
        row("text changes", ", ".join(changed))
    for reason, count in list(summary.reasons.items())[:SHOWN_REASONS]:
        row("reason", f"{count} x {reason}")
    if summary.advice():
        row("advice", summary.advice())
    if summary.shard:
        row("shard", f"{summary.shard['name']}; when all have ended: batchtts merge {target}")
    row("folder", target)
    return table


def _batches(summary: Summary) -> str:
    mean = sum(int(size) * count for size, count in summary.batch_sizes.items()) / max(
        1, summary.batches
    )
    text = f"{summary.batches}, {mean:.1f} utterances each, {summary.padding_share:.1%} padding"
    return f"{text}; {summary.batch_choice}" if summary.batch_choice else text
