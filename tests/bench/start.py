"""The start and the tail of a run: what passes before devices work, and after they have worked."""

import json
import re
import time
from pathlib import Path
from shutil import rmtree
from statistics import mean
from threading import Event, Thread
from typing import Any, Self

from batchtts.folder import LOG
from tests.bench.endtoend import generate, ours, spread
from tests.bench.processes import environment, run, spoken

HELP_ROUNDS = 5
LOOK_SECONDS = 0.01
"""How often the log is looked at."""
EVENTS = {"started": re.compile("started on"), "ready": re.compile("is ready")}


class LogWatch:
    """Notes when the first line of each kind of event comes into run.log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self.seen: dict[str, float] = {}
        """Event -> seconds since 1970."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            text = self._log.read_text("utf-8") if self._log.exists() else ""
            for event, pattern in EVENTS.items():
                if event not in self.seen and pattern.search(text):
                    self.seen[event] = time.time()


def measure(voice: str, texts: list[str], rounds: int, folder: Path) -> dict[str, Any]:
    """Seconds of `--help`, of each step up to the first file, and of the tail."""
    env = environment(folder / "cache")
    helps = [run([[*ours(), "--help"]], env) for _ in range(HELP_ROUNDS)]
    runs = [_one_run(voice, texts, folder / "start", env) for _ in range(rounds)]
    return {
        "voice": voice,
        "texts": len(texts),
        "help": spread([done.wall for done in helps]),
        "help_cpu": spread([done.cpu for done in helps]),
        **{step: spread([found[step] for found in runs]) for step in runs[0]},
    }


def _one_run(voice: str, texts: list[str], place: Path, env: dict[str, str]) -> dict[str, float]:
    place.mkdir()
    with LogWatch(place / LOG) as watch:
        done = run(generate(voice)(texts, place), env)
    found = spoken(place)
    last = _last_files(place)
    summary = json.loads((place / "summary.json").read_text("utf-8"))
    rmtree(place)
    end = found.written[-1]
    slots = [slot.partition(":")[2] for slot in summary["devices"]]
    return {
        "workers_started": watch.seen["started"] - done.started_at,
        "first_ready": watch.seen["ready"] - done.started_at,
        "first_file": found.written[0] - done.started_at,
        "last_file": end - done.started_at,
        "slots_idle_at_end": mean(end - last.get(slot, watch.seen["ready"]) for slot in slots),
        "after_last_file": done.started_at + done.wall - end,
        "wall": done.wall,
        "busy_share": mean(shares["busy"] for shares in summary["devices"].values()),
    }


def _last_files(folder: Path) -> dict[str, float]:
    """Slot -> when it closed its last file, in seconds since 1970."""
    last: dict[str, float] = {}
    for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        moment = (folder / record["file"]).stat().st_mtime
        last[record["device"]] = max(last.get(record["device"], 0.0), moment)
    return last
