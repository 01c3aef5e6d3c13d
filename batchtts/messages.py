"""What the coordinator and a worker say to each other: plain data, no tensors, no exceptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from batchtts.data import Lease, Record


@dataclass(frozen=True, slots=True)
class Work:
    """Coordinator -> worker: speak this lease."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Drain:
    """Coordinator -> worker: no more leases come; finish and say `Bye`."""

    at_once: bool = False
    """Finish only what is on the device; what waits is left to a later run."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Worker -> coordinator: the process runs and the first voice is on its device."""

    precision: str
    """Effective number type of that voice's model."""
    uuid: str = ""
    """Of the GPU, as CUDA gives it; empty on a CPU."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Worker -> coordinator: the storage keeps me waiting, but I am not hung."""

    text: str
    """What it waits for."""


@dataclass(frozen=True, slots=True)
class Loading:
    """Worker -> coordinator: a voice goes to the device now, and is measured: be patient."""

    voice: str


@dataclass(frozen=True, slots=True)
class Busy:
    """Worker -> coordinator: these utterances are on the device from now on."""

    indexes: tuple[int, ...]
    """`Utterance.index` of each: the suspects, should the worker die."""
    seconds: float
    """Expected seconds of audio in the batch."""


@dataclass(frozen=True, slots=True)
class Done:
    """Worker -> coordinator: these utterances ended; their files are in place."""

    records: tuple[tuple[int, Record], ...]
    """(`Utterance.index`, record) pairs."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Worker -> coordinator: a line for the log; with `aloud` also for the screen."""

    text: str
    aloud: bool = False


@dataclass(frozen=True, slots=True)
class Stats:
    """Worker -> coordinator: figures of this worker so far; the newest replaces the older."""

    figures: Mapping[str, Any] = field(default_factory=dict)
    """See `worker.Worker.figures`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Worker -> coordinator: this worker cannot go on, and why; it ends after this."""

    reason: str
    kind: Literal["fault", "poisoned", "storage"] = "fault"
    """"poisoned": the device's context is broken and a fresh process may work; "storage": the
    output folder cannot be written, by anybody."""


@dataclass(frozen=True, slots=True)
class Bye:
    """Worker -> coordinator: nothing is left in this worker; it ends after this."""


@dataclass(frozen=True, slots=True)
class Died:
    """Pool -> coordinator: the worker's process is gone; all it had sent was delivered before."""

    reason: str
    """"killed by signal 9", "exit code 1", ..."""
    out_of_memory: bool = False
    """It was killed by SIGKILL, as the host's out-of-memory killer does."""
