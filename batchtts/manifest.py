"""The journal of records: appended as files land, read after any crash, tidied at the end."""

import csv
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from batchtts import storage
from batchtts.data import Record, Status
from batchtts.jsonline import FIELDS, encode, parse

JOURNAL = "manifest.jsonl"
TABLE = "manifest.csv"
METADATA = "metadata.csv"
"""The name under which Hugging Face's audiofolder looks for the table."""
FAILED = "failed.csv"

SYNC_SECONDS = 2.0
"""The journal goes to the disk itself at most this often: what a power cut can cost."""

COLUMNS = (
    *("file_name", "id", "status", "reason", "text", "duration", "sample_rate", "voice", "model"),
    *("lang", "speed", "seed", "key", "source", "attempts", "device", "verdict", "finished_at"),
)
"""Of manifest.csv; `file_name` comes first, as Hugging Face's audiofolder wants it."""

_PRIOR_FIELDS = ("id", "status", "key", "file", "duration", "sample_rate", "checks")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What resuming needs of a record: a run of millions holds one for each row."""

    id: str
    status: Status
    key: str
    file: str
    duration: float
    """Seconds."""
    sample_rate: int
    """Hz."""
    bytes: int | None
    """Size of the file; None where it was not recorded."""


class Journal:
    """Appends records to the manifest of a folder; one writer at a time, as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL
        self._descriptor = -1
        self._synced = 0.0

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            _repair(self._descriptor)
        except OSError as error:
            self._close()
            raise storage.storage_error(self._path.parent, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise storage.storage_error(self._path.parent, error) from error
        finally:
            self._close()

    def append(self, record: Record) -> None:
        """Add one record; it survives the death of this process.

        Raises:
            StorageError: the disk is full, say; what was written before stands.
        """
        self.append_all((record,))

    def append_all(self, records: Iterable[Record]) -> None:
        """Add records in one write.

        Raises:
            StorageError: as for `append`.
        """
        try:
            storage.write_all(self._descriptor, b"".join(map(encode, records)))
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                os.fsync(self._descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            raise storage.storage_error(self._path.parent, error) from error

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _repair(descriptor: int) -> None:
    """Give a journal whose last line was torn by a crash a clean end again."""
    size = os.fstat(descriptor).st_size
    tail, at = b"", size
    while at > 0 and b"\n" not in tail:
        step = min(at, 65_536)
        at -= step
        tail = os.pread(descriptor, step, at) + tail
    torn = tail[tail.rfind(b"\n") + 1 :]
    if not torn:
        return
    if parse(torn) is None:
        os.ftruncate(descriptor, size - len(torn))
    else:
        os.write(descriptor, b"\n")


def _lines(folder: Path, names: Sequence[str] = FIELDS) -> Iterator[tuple[int, dict[str, Any]]]:
    """Offset and these fields of each record; lines that are no records are told of at the end.

    A last line without its line feed is read too, if it is whole.
    """
    path = folder / JOURNAL
    garbage: list[int] = []
    offset = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                known = parse(line, names)
                if known is not None:
                    yield offset, known
                elif line.strip():
                    garbage.append(number)
                offset += len(line)
    except FileNotFoundError:
        return
    if garbage:
        some = ", ".join(map(str, garbage[:5])) + (", ..." if len(garbage) > 5 else "")
        _log.warning("%s: %d lines are no records, ignored (line %s)", path, len(garbage), some)


def records(folder: Path) -> Iterator[Record]:
    """Line by line, as they stand: of a journal that was tidied, each record once, in order."""
    return (Record(**known) for _, known in _lines(folder))


def read(folder: Path) -> dict[str, Record]:
    """All records by id, the last line of an id counts; empty where there is no journal."""
    return {known["id"]: Record(**known) for _, known in _lines(folder)}


def read_prior(folder: Path) -> dict[str, Prior]:
    """What resuming needs, by id: a third of the memory that `read` takes."""
    texts: dict[str, str] = {}
    return {known["id"]: _prior(known, texts) for _, known in _lines(folder, _PRIOR_FIELDS)}


def _prior(known: Mapping[str, Any], shared: dict[str, str]) -> Prior:
    size = known.get("checks", {}).get("bytes")
    status = known["status"]
    return Prior(
        id=known["id"],
        status=shared.setdefault(status, status),  # type: ignore[arg-type]
        key=known.get("key", ""),
        file=known.get("file", ""),
        duration=known.get("duration", 0.0),
        sample_rate=known.get("sample_rate", 0),
        bytes=size if isinstance(size, int) else None,
    )


def read_in_order(folder: Path, ids: Iterable[str]) -> Iterator[Record]:
    """The records of these ids, in this order, read one by one: for millions of rows.

    An id without a record is left out.
    """
    for line in _lines_in_order(folder, ids):
        known = parse(line)
        if known is not None:
            yield Record(**known)


def _lines_in_order(folder: Path, ids: Iterable[str]) -> Iterator[bytes]:
    offsets = {known["id"]: offset for offset, known in _lines(folder, ("id",))}
    if not offsets:
        return
    with (folder / JOURNAL).open("rb") as file:
        for id in ids:
            if id in offsets:
                file.seek(offsets[id])
                yield file.readline()


def forget(folder: Path) -> None:
    """Start a folder over: its records go, its audio is replaced file by file.

    Raises:
        StorageError: the folder cannot be written.
    """
    try:
        (folder / JOURNAL).unlink(missing_ok=True)
    except OSError as error:
        raise storage.storage_error(folder, error) from error


def tidy(folder: Path, ids: Iterable[str]) -> None:
    """Rewrite the journal at once as one line for each of these ids, in this order.

    No `Journal` may be open on it.
    """
    lines = (line.rstrip(b"\n") + b"\n" for line in _lines_in_order(folder, ids))
    storage.replace_by_lines(folder / JOURNAL, lines)


def compact(folder: Path, records: Iterable[Record]) -> None:
    """Rewrite the journal at once as exactly these lines; no `Journal` may be open on it.

    `records` may be read from the journal itself, as `read_in_order` does.
    """
    storage.replace_by_lines(folder / JOURNAL, map(encode, records))


def write_csv(
    folder: Path, records: Iterable[Record], names: Sequence[str] = (TABLE, METADATA)
) -> None:
    """Write manifest.csv: one row a record, in the order given, `file_name` relative to it.

    `names` are those of one and the same file.
    """
    own = attrgetter(*COLUMNS[1:-2])
    rows = (
        (record.file, *own(record), record.checks.get("verdict", ""), record.finished_at)
        for record in records
    )
    first, *others = names
    storage.replace_by_lines(folder / first, _csv_lines(chain([COLUMNS], rows)))
    for name in others:
        storage.copy(folder / first, folder / name)


def write_failed(
    folder: Path, rows: Iterable[Mapping[str, Any]], fieldnames: Sequence[str]
) -> None:
    """Write failed.csv, ready to be mended and run again; absent when there is no row.

    Args:
        folder: The output folder.
        rows: Cells by column.
        fieldnames: The columns, in order: the input's own, then "reason".
    """
    cells = ([row.get(name, "") for name in fieldnames] for row in rows)
    lines = _csv_lines(chain([fieldnames], cells))
    heading = next(lines)
    first = next(lines, None)
    if first is None:
        storage.discard(folder / FAILED)
        return
    mark = b"\xef\xbb\xbf"  # tells a spreadsheet that this is UTF-8
    storage.replace_by_lines(folder / FAILED, chain([mark + heading, first], lines))


def _csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        yield _drain(buffer)


def _drain(buffer: StringIO) -> bytes:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text.encode(errors="backslashreplace")
