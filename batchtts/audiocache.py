"""`output.cache`: audio that outlives its run, found again by the key of its utterance.

An entry is two files, `ab/<key>.wav` with the audio and `ab/<key>.json` with what a record says of
it; the second comes last, so that an entry with both is whole. Only audio that passed its checks is
kept. Files are hard links where the file system has them: they cost no disk.
"""

import json
import secrets
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from batchtts import manifest, storage
from batchtts.data import Record, Utterance
from batchtts.errors import UsageError
from batchtts.places import Place
from batchtts.plan import record_of

CHUNK = 1000
"""Records that are committed at once."""
FACTS: Mapping[str, type | tuple[type, ...]] = {
    "duration": (int, float),
    "sample_rate": int,
    "model": str,
    "seed": int,
    "device": str,
    "checks": dict,
    "finished_at": str,
}
"""The fields of a record that go with the audio, not with the row."""


class AudioCache:
    """A cache folder; several runs and workers may use it at once."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, when it is missing.

        Raises:
            StorageError: it cannot be made.
        """
        self._folder = folder
        self._writer = secrets.randbits(32)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage.storage_error(folder.parent, error) from error

    def keep(self, record: Record, path: Path) -> None:
        """Keep the file of a record that is ok; one that is suspect, or says less than all, is not.

        Raises:
            StorageError: the cache cannot be written.
        """
        if record.checks.get("verdict") != "ok" or "dropped" in record.checks:
            return
        audio, facts = self._entry(record.key, path.suffix)
        known = {name: getattr(record, name) for name in FACTS}
        storage.copy(path, audio, self._writer)
        storage.replace(facts, [json.dumps(known, default=str).encode()], self._writer)

    def fetch(self, utterance: Utterance, source: str, target: Path) -> Record | None:
        """Put the file of an utterance in place; None where the cache has none that is whole.

        Args:
            utterance: what it says.
            source: name of the input, for the record.
            target: the file.

        Raises:
            StorageError: the output folder cannot be written.
        """
        audio, path = self._entry(utterance.key, target.suffix)
        facts = storage.read_object(path)
        if not all(isinstance(facts.get(name), kind) for name, kind in FACTS.items()):
            return None
        if not _is_whole(audio, facts["checks"]):
            return None
        storage.copy(audio, target, self._writer)
        known = {name: facts[name] for name in FACTS}
        known["checks"] = {**facts["checks"], "cached": True}
        return record_of(utterance, source, status="ok", file=utterance.file, attempts=0, **known)

    def _entry(self, key: str, suffix: str) -> tuple[Path, Path]:
        folder = self._folder / key[:2]
        return folder / f"{key}{suffix}", folder / f"{key}.json"


def open_cache(folder: str | None) -> AudioCache | None:
    """The cache that the config names, if it names one.

    Raises:
        UsageError: it is not on a disk.
        StorageError: it cannot be made.
    """
    if folder is None:
        return None
    if "://" in folder:
        message = f"output.cache cannot be {folder}: it must be a folder of this machine"
        raise UsageError(message)
    return AudioCache(Path(folder))


def fetch_all(
    cache: AudioCache,
    todo: Sequence[Utterance],
    source: str,
    books: Path,
    place: Place,
    stopped: Callable[[], int],
) -> list[Utterance]:
    """Take from the cache what it has, and commit it.

    Args:
        cache: the cache.
        todo: what is to be spoken.
        source: name of the input, for records.
        books: folder of the journal.
        place: where the audio goes.
        stopped: not 0 when the run is to stop.

    Returns:
        What is left to speak.

    Raises:
        StorageError: the output folder cannot be written.
    """
    left: list[Utterance] = []
    waiting = iter(todo)
    with manifest.Journal(books) as journal:
        while not stopped() and (chunk := list(islice(waiting, CHUNK))):
            records = []
            for utterance in chunk:
                record = cache.fetch(utterance, source, place.folder / utterance.file)
                if record is None:
                    left.append(utterance)
                else:
                    place.put(utterance.file)
                    records.append(record)
            journal.append_all(records)
    return [*left, *waiting]


def _is_whole(audio: Path, checks: Mapping[str, Any]) -> bool:
    """Whether the file is the one that was kept, to the last byte: a link may have been edited."""
    crc = 0
    try:
        if audio.stat().st_size != checks.get("bytes"):
            return False
        with audio.open("rb") as file:
            while data := file.read(1 << 20):
                crc = zlib.crc32(data, crc)
    except OSError:
        return False
    return f"{crc:08x}" == checks.get("crc32")
