"""Audio into an object store: written locally, uploaded, then recorded; resumed by a listing.

The store's settings come from the environment as its own tools read them: AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and the like. The
journal stays on the machine while the run works, and is uploaded with the other tables when it
ends or is stopped; a run on another machine goes on from there.
"""

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from batchtts import folder as output_folder
from batchtts import manifest, probe_cache, shards, storage, summary
from batchtts.errors import MissingExtraError, StorageError, UsageError
from batchtts.manifest import Prior
from batchtts.names import FOLDER as AUDIO

if TYPE_CHECKING:
    from obstore.store import ObjectStore

UPLOADS = 16
"""At the same time, of one worker: a store answers late, but many at once."""
TRY_SECONDS = 15.0
"""The store's client repeats a request for so long, then it is told that the store is away."""
PATIENCE_SECONDS = 1800.0
"""A store that is away for longer ends the run, resumable; at the start only one try is made."""
PAUSE_SECONDS = 1.0
"""Between two such tries."""
TABLES = (
    *(manifest.JOURNAL, manifest.TABLE, manifest.METADATA, manifest.FAILED),
    *(summary.FILE, output_folder.LOG),
)

T = TypeVar("T")


def staging_folder(url: str) -> Path:
    """Where files are written before they are uploaded, and where the journal is kept."""
    cache = probe_cache.default_folder()
    if cache is None:
        message = f"{url} needs a local folder for the journal: set HOME or XDG_CACHE_HOME"
        raise UsageError(message)
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", url.rstrip("/"))[-60:].strip("_")
    digest = blake2b(url.rstrip("/").encode(), digest_size=4).hexdigest()
    return cache.parent / "remote" / f"{name}-{digest}"


class Bucket:
    """See `batchtts.places.Place`."""

    writers = UPLOADS

    def __init__(self, folder: Path, url: str, say: Callable[[str], None]) -> None:
        """`folder` is the staging folder of this machine."""
        self.folder = folder
        self._url = url
        self._say = say
        self._store = _open(url)
        self._said = 0.0
        self._saying = threading.Lock()

    def holds(self, prior: Prior) -> bool:
        """See `Place`: its size is right; nothing is downloaded."""
        size = self._sizes.get(prior.file)
        return size is not None and size > 0 and prior.bytes in (None, size)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """File -> bytes, of all audio that is there."""

        def listing() -> dict[str, int]:
            pages = self._store.list(f"{AUDIO}/", chunk_size=1000)
            return {item["path"]: item["size"] for page in pages for item in page}

        return self._persist("listed", listing)

    def put(self, file: str) -> None:
        """See `Place`; the local file goes when it is uploaded."""
        path = self.folder / file
        self._persist(f"given {file}", partial(self._store.put, file, path))
        storage.discard(path)

    def copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        """See `Place`; the store does it by itself."""
        with ThreadPoolExecutor(UPLOADS) as executor:
            for _ in executor.map(self._copy, pairs):
                pass

    def _copy(self, pair: tuple[str, str]) -> None:
        source, target = pair
        self._persist(f"made to copy {source}", partial(self._store.copy, source, target))

    def fetch(self, books: Path) -> None:
        """See `Place`; a journal that is here is newer than the one that is there."""
        self._persist("written to", partial(self._forget, self._name(books / summary.FILE)), 0.0)
        if books == self.folder:  # what a killed run did not get to upload is spoken again
            shutil.rmtree(self.folder / AUDIO, ignore_errors=True)
        if (books / manifest.JOURNAL).exists():
            return
        name = self._name(books / manifest.JOURNAL)
        data = self._persist("asked for the journal", partial(self._read, name), patience=0.0)
        if data is not None:
            storage.replace_by_lines(books / manifest.JOURNAL, (data,))

    def _forget(self, name: str) -> None:
        """A summary.json that is there is one of a run that ended."""
        with contextlib.suppress(FileNotFoundError):
            self._store.delete(name)

    def _read(self, name: str) -> bytes | None:
        try:
            return bytes(self._store.get(name).bytes())
        except FileNotFoundError:
            next(iter(self._store.list(chunk_size=1)), None)  # or is there no such bucket?
            return None

    def collect(self) -> None:
        """See `Place`."""

        def download() -> None:
            for page in self._store.list(f"{shards.FOLDER}/"):
                for item in page:
                    data = bytes(self._store.get(item["path"]).bytes())
                    path = self.folder / item["path"]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    storage.replace_by_lines(path, (data,))

        shutil.rmtree(self.folder / shards.FOLDER, ignore_errors=True)
        self._persist("asked for the shards", download)

    def publish(self, books: Path) -> None:
        """See `Place`; there is no failed.csv where nothing failed."""
        for table in TABLES:
            path, name = books / table, self._name(books / table)
            if path.exists():
                self._persist(f"given {name}", partial(self._store.put, name, path))
            elif table == manifest.FAILED:
                self._persist(f"rid of {name}", partial(self._forget, name))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _persist(self, what: str, act: Callable[[], T], patience: float = PATIENCE_SECONDS) -> T:
        """Do something with the store, again while it does not answer.

        Raises:
            StorageError: it refuses, or it did not answer for long.
        """
        from obstore.exceptions import BaseError, GenericError

        end = time.monotonic() + patience
        while True:
            try:
                return act()
            except (BaseError, OSError) as error:
                lines = str(error).splitlines() or [type(error).__name__]
                text = f"{self._url} cannot be {what}: {lines[0]}"
                if not isinstance(error, GenericError) or time.monotonic() > end:
                    message = f"{text}; mend that and run the same command again"
                    raise StorageError(message) from None
                self._complain(text)
                time.sleep(PAUSE_SECONDS)

    def _complain(self, text: str) -> None:
        """Once for all the uploads that wait."""
        with self._saying:
            now = time.monotonic()
            if now > self._said + TRY_SECONDS / 2:
                self._said = now
                self._say(f"{text}; trying on")


def _open(url: str) -> "ObjectStore":
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError as error:
        raise MissingExtraError(url, "remote") from error
    try:
        return from_url(
            url,
            retry_config={"max_retries": 1000, "retry_timeout": timedelta(seconds=TRY_SECONDS)},
        )
    except (BaseError, ValueError) as error:
        message = f"cannot write to {url}: {(str(error).splitlines() or [''])[0]}"
        raise UsageError(message) from error
