"""One run spread over machines that know nothing of each other: each speaks the ids that are its.

Which shard an id belongs to is a hash of the id, the same on every machine and in every run. The
shards share one output folder: audio lies where it always does, since ids have distinct files, and
each shard keeps journal, lock, log and summary in a folder of its own, `shards/<i>-of-<n>`. No
file is ever written by two of them, so no lock between machines is needed. `batchtts merge` makes
one manifest of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from batchtts import manifest
from batchtts.devices import Slot
from batchtts.errors import UsageError

FOLDER = "shards"
"""Under the output folder; holds a folder for each shard."""
NAME = re.compile(r"(\d+)-of-(\d+)")
DIGEST_BITS = 128


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """A part of the input."""

    number: int
    """Counted from 0, as RANK and the indexes of arrays and jobs are."""
    total: int
    """Shards of the run."""

    @property
    def name(self) -> str:
        """As its folder is called: "0-of-4"."""
        return f"{self.number}-of-{self.total}"

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """The shard whose folder is called so; None for any other name."""
        match = NAME.fullmatch(name)
        return cls(int(match[1]), int(match[2])) if match else None

    def folder(self, output: Path) -> Path:
        """Where it keeps its books, under the output folder."""
        return output / FOLDER / self.name

    def owns(self, id: str) -> bool:
        """Whether an utterance of this id is spoken by this shard."""
        return _hash(id) % self.total == self.number


@dataclass(slots=True)
class Coverage:
    """A set of ids in two numbers, whatever their order: shards prove by it what they cover."""

    rows: int = 0
    digest: int = 0
    """Sum of the ids' hashes, modulo 2**128."""

    def add(self, id: str) -> None:
        """Count an id in."""
        self.rows += 1
        self.digest = (self.digest + _hash(id)) % 2**DIGEST_BITS

    def facts(self) -> dict[str, Any]:
        """As a summary.json has it."""
        return {"rows": self.rows, "digest": f"{self.digest:032x}"}


def _hash(id: str) -> int:
    data = id.encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=DIGEST_BITS // 8).digest(), "big")


def from_environment(option: str | None, environ: Mapping[str, str]) -> Shard | None:
    """Which shard this process is; None: there is but one, the whole input.

    Args:
        option: "i/n" as the user wrote it; it beats the environment, and "0/1" is the whole input.
        environ: torchrun tells RANK and WORLD_SIZE, a Slurm array SLURM_ARRAY_TASK_ID, _COUNT,
            _MIN and _STEP; where both do, each task of the array is divided among its ranks.

    Raises:
        UsageError: the option or the variables make no sense.
    """
    number, total = 0, 1
    places = [_slurm(environ), _torchrun(environ)] if option is None else [_parse(option)]
    for place in places:
        if place is not None:
            number, total = number * place[1] + place[0], total * place[1]
    return Shard(number, total) if total > 1 else None


def _parse(option: str) -> tuple[int, int]:
    number, slash, total = option.partition("/")
    if slash and number.isdecimal() and total.isdecimal() and int(number) < int(total):
        return int(number), int(total)
    last = f"{int(total) - 1}/{total}" if total.isdecimal() and int(total) > 0 else "3/4"
    message = f"--shard {option} is no shard; they count from 0, as in 0/{last[2:]} to {last}"
    raise UsageError(message)


def _torchrun(environ: Mapping[str, str]) -> tuple[int, int] | None:
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return None
    rank, world = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if rank >= world:
        message = f"RANK={rank} is not below WORLD_SIZE={world}; --shard i/n overrides both"
        raise UsageError(message)
    return rank, world


def _slurm(environ: Mapping[str, str]) -> tuple[int, int] | None:
    if "SLURM_ARRAY_TASK_ID" not in environ or "SLURM_ARRAY_TASK_COUNT" not in environ:
        return None
    task, count = (
        _number(environ, "SLURM_ARRAY_TASK_ID"),
        _number(environ, "SLURM_ARRAY_TASK_COUNT"),
    )
    first = _number(environ, "SLURM_ARRAY_TASK_MIN", "0")
    step = _number(environ, "SLURM_ARRAY_TASK_STEP", "1") or 1
    number, rest = divmod(task - first, step)
    if rest or not 0 <= number < count:
        message = (
            f"task {task} of a Slurm array of {count} tasks from {first} by {step}: an array with "
            "gaps does not tell which shard a task is; add --shard i/n"
        )
        raise UsageError(message)
    return number, count


def _number(environ: Mapping[str, str], name: str, default: str = "") -> int:
    value = environ.get(name, default)
    if not value.isdecimal():
        message = (
            f"the environment variable {name}={value!r} is no whole number; --shard i/n overrides"
        )
        raise UsageError(message)
    return int(value)


def own_slots(slots: Sequence[Slot], environ: Mapping[str, str]) -> list[Slot]:
    """The device slots of this process, where torchrun starts several on one machine.

    Each takes its share of them; where there are fewer slots than processes, they share.
    """
    if "LOCAL_RANK" not in environ or "LOCAL_WORLD_SIZE" not in environ:
        return list(slots)
    rank, world = _number(environ, "LOCAL_RANK"), _number(environ, "LOCAL_WORLD_SIZE")
    return list(slots[rank::world] or slots[rank % len(slots) :][:1])


def books(output: Path, shard: Shard | None) -> Path:
    """The folder for the journal, lock, log and summary of this process.

    Raises:
        UsageError: the output folder belongs to a run that was divided otherwise.
    """
    found = find(output)
    others = {other.total for other in found if shard is None or other.total != shard.total}
    if others:
        total = min(others)
        message = (
            f"{output} holds the shards of a run that was divided by {total}; go on with "
            f"--shard 0/{total} to {total - 1}/{total}, or choose another --output"
        )
        raise UsageError(message)
    if shard is None:
        return output
    if not found and (output / manifest.JOURNAL).exists():
        message = f"{output} holds a run that was not divided into shards; choose another --output"
        raise UsageError(message)
    return shard.folder(output)


def find(output: Path) -> list[Shard]:
    """The shards that have a folder under an output folder, by number."""
    folder = output / FOLDER
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(shard for name in names if (shard := Shard.from_name(name)))
