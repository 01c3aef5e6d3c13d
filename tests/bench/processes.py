"""Runs commands from the outside: seconds, CPU time and memory of whole process trees."""

import json
import os
import subprocess
import sys
import time
import wave
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).parents[2]
CLEARED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "BATCHTTS_FAKE")
"""Settings of whoever calls the benchmark that would favour or hinder a contender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A command that ended."""

    wall: float
    """Seconds from its start until the last of its processes ended."""
    cpu: float
    """Seconds of all cores, children included."""
    peak_bytes: int
    """Most memory of its largest process."""
    started_at: float
    """Seconds since 1970."""
    output: Any = None
    """The JSON that it printed; None where it printed none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The files of an output folder."""

    files: int = 0
    audio_seconds: float = 0.0
    written: list[float] = field(default_factory=list)
    """When each file was closed, in seconds since 1970, in order."""


class FailedError(Exception):
    """A command of the benchmark did not do what it should."""


def environment(cache: Path) -> dict[str, str]:
    """For all contenders: nobody's thread settings, and a probe cache of the benchmark's own."""
    kept = {name: value for name, value in os.environ.items() if name not in CLEARED}
    return kept | {"XDG_CACHE_HOME": str(cache), "HF_HUB_OFFLINE": "1"}


def run(commands: Sequence[Sequence[str]], env: dict[str, str]) -> Measured:
    """Run commands side by side and wait for all of them.

    Raises:
        FailedError: one of them failed; the message ends with what it said.
    """
    with ExitStack() as stack:
        started_at, started = time.time(), time.perf_counter()
        running = []
        for command in commands:
            # Files, not pipes: nobody reads while it works, and what it says must not hold it up.
            said = stack.enter_context(TemporaryFile("w+"))
            complaints = stack.enter_context(TemporaryFile("w+"))
            running.append(_Running(command, env, said, complaints))
        for process in running:
            process.wait()
        wall = time.perf_counter() - started
        return Measured(
            wall=wall,
            cpu=sum(process.cpu for process in running),
            peak_bytes=max(process.peak_bytes for process in running),
            started_at=started_at,
            output=_json(running[0].said()),
        )


class _Running:
    def __init__(
        self, command: Sequence[str], env: dict[str, str], said: IO[str], complaints: IO[str]
    ) -> None:
        self._command = " ".join(command)
        self._said, self._complaints = said, complaints
        self._process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=said, stderr=complaints)
        self.cpu, self.peak_bytes = 0.0, 0

    def wait(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu, self.peak_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        if self._process.returncode:
            self._complaints.seek(0)
            complaints = self._complaints.read()[-800:]
            message = f"{self._command} ended with {self._process.returncode}: {complaints}"
            raise FailedError(message)

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read()


def python(module: str, *arguments: object) -> list[str]:
    """The command that runs a module of this project."""
    return [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def spoken(folder: Path) -> Spoken:
    """All WAV files below a folder, by their headers."""
    seconds, written = 0.0, []
    for path in folder.rglob("*.wav"):
        with wave.open(str(path), "rb") as file:
            seconds += file.getnframes() / file.getframerate()
        written.append(path.stat().st_mtime)
    return Spoken(files=len(written), audio_seconds=seconds, written=sorted(written))
