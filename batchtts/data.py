"""The nouns that flow: row -> utterance -> lease -> record. Frozen, a unit under every field."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the input, as written; None where the row leaves it to the config."""

    index: int
    """Place in the input, from 0: the order of manifest.csv."""
    line: int
    """Physical line where the row begins, from 1."""
    id: str
    text: str
    """After the template, before cleaning."""
    voice: str | None = None
    lang: str | None = None
    speed: float | None = None
    seed: int | None = None
    file: str | None = None
    """File name asked for, without a folder."""
    problem: str = ""
    """Why this row cannot be spoken (too many cells, say): it ends as failed, the others go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One text + id + voice + options = one audio file. Small: a run holds millions."""

    index: int
    """Place in the input, from 0."""
    line: int
    """Physical line of the input where it begins, from 1."""
    id: str
    text: str
    """Cleaned: what is spoken."""
    voice: str
    """"adapter:name"."""
    lang: str
    speed: float
    """2.0 is twice as fast."""
    seed: int
    """Seed of its noise, 0 <= seed < 2**63."""
    file: str
    """Path of the audio file, relative to the output folder."""
    key: str
    """Hash of everything that shapes the audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Utterances handed to a worker as one unit of work and retry."""

    id: int
    utterances: tuple[Utterance, ...]
    attempt: int = 1
    """1 for the first worker that gets them, then counted up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A manifest line: how one utterance ended."""

    id: str
    status: Status
    reason: str = ""
    """Why it is not ok; empty when it is."""
    file: str = ""
    """Relative to the output folder; empty when there is none."""
    duration: float = 0.0
    """Seconds of audio in the file."""
    sample_rate: int = 0
    """Hz of the file."""
    text: str = ""
    voice: str = ""
    model: str = ""
    """Name and fingerprint of the weights."""
    lang: str = ""
    speed: float = 1.0
    seed: int = 0
    """The seed that this audio was made with."""
    key: str = ""
    source: str = ""
    """"file:line" of the input."""
    attempts: int = 1
    """How often it was spoken before this result."""
    device: str = ""
    checks: Mapping[str, Any] = field(default_factory=dict)
    """verdict "ok" or "suspect:<why>", bytes and crc32 of the file, levels, front-end notes."""
    finished_at: str = ""
    """UTC, ISO 8601, ends in Z."""

    def as_dict(self) -> dict[str, Any]:
        """The fields in the order of the manifest."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimit:
    """When a batch is full; made by the probe or by the config, obeyed by the worker."""

    max_items: int
    """Most utterances or segments in a batch."""
    max_cost: int | None = None
    """Throughput knee in units of `Features.size`; None: only the count limits."""
    memory: "MemoryFit | None" = None
    """The guard; None where memory was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """Peak bytes of a batch: base + sum over items of (linear * size + quadratic * size**2).

    For a model that pads, every item counts with the longest size of its batch.
    """

    base: float
    """Bytes held whatever the batch: weights, workspaces."""
    linear: float
    """Bytes per unit of size."""
    quadratic: float
    """Bytes per squared unit of size: attention."""
    budget: float
    """Bytes a batch may reach, margin and fragmentation already taken off."""
