"""Files that are whole or not there: written under a temporary name, then renamed."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from batchtts.errors import StorageError

TEMPORARY = re.compile(r"\..+\.tmp-\d+")
"""Names of our own unfinished files: `.<name>.tmp-<number>`."""


def temporary(path: Path, number: int) -> Path:
    """The temporary name beside `path` that belongs to the writer of this number."""
    return path.with_name(f".{path.name}.tmp-{number}")


def create(path: Path) -> int:
    """Open an empty file for writing, making its folder when missing; returns its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all the bytes, however the system portions them."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace(path: Path, parts: Sequence[bytes | memoryview], number: int = 0) -> None:
    """Put a file in place at once, replacing what was there; its folder is made when missing.

    Raises:
        StorageError: the folder cannot be written; what was there is still there.
    """
    temp = temporary(path, number)
    try:
        descriptor = create(temp)
        try:
            for part in parts:
                write_all(descriptor, part)
        finally:
            os.close(descriptor)
        temp.replace(path)
    except OSError as error:
        discard(temp)
        raise storage_error(path.parent, error) from error


@contextmanager
def replacing(path: Path, number: int = 0) -> Iterator[Path]:
    """Gives a temporary name beside `path`; what was written there takes its place at the end.

    `number` is the writer's own where there may be others.

    Raises:
        StorageError: the folder cannot be written; what was there is still there.
    """
    temp = temporary(path, number)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temp
        temp.replace(path)
    except OSError as error:
        raise storage_error(path.parent, error) from error
    finally:
        discard(temp)


def replace_by_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Put a file of any length in place at once, synced to the disk.

    Raises:
        StorageError: as for `replacing`.
    """
    with replacing(path) as temp, temp.open("wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def copy(source: Path, target: Path, number: int = 0) -> None:
    """Give a file a second name where the file system can, else a second body; at once.

    `number` is the writer's own where there may be others.

    Raises:
        StorageError: as for `replacing`.
    """
    with replacing(target, number) as temp:
        temp.unlink(missing_ok=True)
        try:
            os.link(source, temp)
        except OSError:
            shutil.copyfile(source, temp)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none, or half of one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def discard(path: Path) -> None:
    """Remove a file, if that can be done."""
    with suppress(OSError):
        path.unlink()


def storage_error(folder: Path, error: OSError) -> StorageError:
    """What to tell when a folder cannot be written: which, why, how much is free, what to do."""
    try:
        free = f"{shutil.disk_usage(folder).free:,} bytes free"
    except OSError:
        free = "free space unknown"
    why = error.strerror or str(error)
    return StorageError(
        f"cannot write into {folder}: {why} ({free}); mend that and run the same command again"
    )


def remove_leftovers(folder: Path) -> int:
    """Delete the unfinished files that a killed run left under a folder; returns how many.

    Only files with our own kind of temporary name; links to folders are not followed.
    """
    removed = 0
    folders = [folder]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink(missing_ok=True)
                    removed += 1
    return removed
