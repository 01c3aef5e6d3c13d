"""All that a worker is told at its start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchtts.config import Config
from batchtts.data import Utterance
from batchtts.devices import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Plain data, picklable."""

    slot: Slot
    folder: Path
    """The output folder, or where its files wait for their upload."""
    source: str
    """Name of the input, for records."""
    config: Config
    models: Mapping[str, str]
    """Voice -> name and fingerprint of its weights; the first one is loaded at the start."""
    samples: Mapping[str, Sequence[Utterance]]
    """Voice -> texts of this run for the probe, the longest among them."""
    shares: Mapping[str, int]
    """Voice -> about how many utterances of it this worker will speak."""
    cache: Path | None
    """Folder for what the probe learns; None: nowhere."""
    remote: str = ""
    """URL of the object store that the files go to; "": they stay in the folder."""
    prepare_processes: int = 0
    """G2P in this many processes; 0: in a thread."""
    limit_scale: float = 1.0
    """Part of the batch limit to use: lowered after the host killed this worker."""
