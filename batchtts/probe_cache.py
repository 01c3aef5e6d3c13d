"""What the probe learned, kept for the next run on the same kind of device.

A cache that cannot be read or written is no error: then each run measures anew.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)

SCHEMA = 2
"""Counted up when what is measured, or what it is called, changes."""
WAIT_SECONDS = 120.0
"""How long a twin worker waits for the one that measures; then it measures too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeKey:
    """What a measurement holds for, beside the device's own identity."""

    adapter: str
    fingerprint: str
    """Of the voice's weights: `VoiceInfo.fingerprint`."""
    precision: str
    """The effective one: `Model.precision`."""
    share: int = 1
    """Workers on this device."""
    threads: int = 1
    """CPU threads of the worker."""

    def file(self, folder: Path, identity: Mapping[str, str], kind: str = "batch") -> Path:
        """The file in which what was measured for this key on this kind of device is kept."""
        facts = [SCHEMA, kind, asdict(self), dict(identity)]
        digest = sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return folder / f"{kind}-{digest[:32]}.json"


def default_folder() -> Path | None:
    """The user's cache folder for the probe; None where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "batchtts" / "probe"
    try:
        return Path.home() / ".cache" / "batchtts" / "probe"
    except RuntimeError:
        return None


def read(file: Path | None) -> dict[str, Any] | None:
    """What was kept; None when there is nothing that can be used."""
    if file is None:
        return None
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None


def write(file: Path | None, found: Mapping[str, Any]) -> None:
    """Keep what was found, where that is possible."""
    if file is None:
        return
    half = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        half.write_text(json.dumps(found, indent=1), encoding="utf-8")
        half.replace(file)
    except OSError as error:
        log.info("the probe's result is not kept: %s", error)


@contextmanager
def alone(file: Path | None) -> Iterator[None]:
    """Measure alone: twin workers wait here and then find what the first one kept."""
    if file is None:
        yield
        return
    lock = FileLock(file.with_suffix(".lock"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=WAIT_SECONDS)
    except (OSError, Timeout) as error:
        log.info("the probe runs without its cache: %s", error)
    try:
        yield
    finally:
        lock.release()
