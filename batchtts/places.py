"""Where the audio of a run goes: the one seam between a folder and an object store.

Every file is written locally first, under `Place.folder`. What happens to it then, and how one
learns of it in a later run, is the place's affair.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from batchtts import output, storage
from batchtts.errors import UsageError
from batchtts.manifest import Prior

SCHEMES = ("s3", "gs", "az")


class Place(Protocol):
    """See `Disk` for what each does on a plain folder."""

    @property
    def folder(self) -> Path:
        """Files are written here."""
        ...

    @property
    def writers(self) -> int:
        """Threads of a worker that finish and write files."""
        ...

    def holds(self, prior: Prior) -> bool:
        """Whether the file of an ok record is there, as the record says."""
        ...

    def put(self, file: str) -> None:
        """Bring a file that was written to where it belongs; only then is it recorded.

        Raises:
            StorageError: it cannot be brought there, not even after a while.
        """
        ...

    def copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Give files that are there a second name: (file, its copy).

        Raises:
            StorageError: as for `put`.
        """
        ...

    def fetch(self, books: Path) -> None:
        """Have the journal of earlier runs in the folder `books`."""
        ...

    def collect(self) -> None:
        """Have the books of all shards under `folder`, to merge them."""
        ...

    def publish(self, books: Path) -> None:
        """Bring the tables in the folder `books` to the audio, when a run ends."""
        ...


@dataclass(frozen=True)
class Disk:
    """The output folder itself."""

    folder: Path
    writers: int = 2

    def holds(self, prior: Prior) -> bool:
        """See `Place`."""
        path = self.folder / prior.file
        return output.holds(path, prior.duration, prior.sample_rate, prior.bytes)

    def put(self, file: str) -> None:
        """It is where it belongs."""

    def copy(self, pairs: Sequence[tuple[str, str]]) -> None:
        """A second name where the file system can, else a second body; at once."""
        for source, target in pairs:
            storage.copy(self.folder / source, self.folder / target)

    def fetch(self, books: Path) -> None:
        """It is where it belongs."""

    def collect(self) -> None:
        """They are where they belong."""

    def publish(self, books: Path) -> None:
        """They are where they belong."""


def split(target: str) -> tuple[Path, str]:
    """The local folder of an output folder, and its URL; "" where it is local itself.

    Raises:
        UsageError: it is a URL of a kind that cannot be written to.
    """
    scheme, mark, _ = target.partition("://")
    if not mark:
        return Path(target), ""
    if scheme not in SCHEMES:
        known = ", ".join(f"{known}://" for known in SCHEMES)
        message = f"cannot write to {target}; an output is a folder or begins with {known}"
        raise UsageError(message)
    from batchtts.remote import staging_folder

    return staging_folder(target), target


def to_merge(target: str, say: Callable[[str], None]) -> Place:
    """The place of a run whose shards are to be merged.

    Of an object store all books are brought here, beside those of shards that work here.

    Raises:
        UsageError: see `split` and `at`.
        MissingExtraError: see `at`.
    """
    folder, url = split(target)
    return at(folder / "merge" if url else folder, url, say)


def at(folder: Path, url: str, say: Callable[[str], None]) -> Place:
    """The place of an output folder; `say` is told when it keeps the work waiting.

    Raises:
        UsageError: there is no such object store, or it needs settings that are not there.
        MissingExtraError: object stores need an extra.
    """
    if not url:
        return Disk(folder)
    from batchtts.remote import Bucket

    return Bucket(folder, url, say)
