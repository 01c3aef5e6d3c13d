"""Where voices lie on this machine, and where what is made of them is kept."""

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDERS = "BATCHTTS_VOICES"
"""Environment variable: folders that hold voices, separated as in PATH."""


def voice_folders() -> Iterator[Path]:
    """The folders in which voices are looked for by name."""
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        yield Path(folder).expanduser()


def cache_folder() -> Path:
    """Where converted voices are kept; may not exist, may not be writable."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "batchtts" / "voices"


def digest(path: Path) -> str:
    """SHA-256 of a file; kept by its size and time, so that a large file is read once."""
    status = path.stat()
    return _digest(path.resolve(), status.st_size, status.st_mtime_ns)


@functools.cache
def _digest(path: Path, size: int, modified: int) -> str:
    name = hashlib.sha256(f"{path}\n{size}\n{modified}".encode()).hexdigest()[:32]
    note = cache_folder() / "digests" / name
    with contextlib.suppress(OSError):
        known = note.read_text()
        if len(known) == 64:
            return known
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    keep(note, found.encode())
    return found


def keep(path: Path, content: bytes) -> None:
    """Write a whole file into the cache, or nothing: without a cache things only take longer."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def is_non_commercial(license_name: str) -> bool:
    """Whether a licence's name says that it forbids commercial use."""
    words = license_name.lower().replace("-", " ").replace("_", " ").split()
    return "nc" in words or "noncommercial" in "".join(words)
