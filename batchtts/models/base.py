"""The contract between the core and a model family; a plug-in imports this file and nothing else.

The core owns seeds, order, packing, memory, out-of-memory splits, splitting and joining, retries,
checks and writing. An adapter owns text -> features, one forward pass, and exact lengths. It knows
nothing of files, batch sizes or manifests. `batchtts.models.contract` tests that it keeps its part.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Waveform = NDArray[np.float32]
"""Mono audio, float32 [num_samples] in [-1, 1]."""

Finish = Literal["ok", "limit", "empty"]
"""How a synthesis ended: by itself, at its length limit (cut), or with nothing to speak."""


class TooLongError(Exception):
    """A text is longer than the model can speak at once; the core then splits it."""

    def __init__(self, limit: int, size: int) -> None:
        super().__init__(f"size {size} is over the model's limit of {limit}")
        self.limit = limit
        """The largest size that works, in the unit of `Features.size`."""
        self.size = size
        """The size of the refused text, in the same unit."""

    def __reduce__(self) -> tuple[type, tuple[int, int]]:
        return type(self), (self.limit, self.size)


class UnspeakableError(Exception):
    """A text holds something that the voice cannot say; never dropped in silence."""

    def __init__(self, what: str, reason: str = "the voice cannot say") -> None:
        super().__init__(f"{reason}: {what}")
        self.what = what
        """The characters that cannot be said, in order of appearance, each once."""
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.what, self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What an adapter's front end is given: one segment of text and how to say it."""

    text: str
    """Cleaned text, NFC, without control characters."""
    voice: str
    """The voice's name without the adapter's prefix."""
    lang: str = ""
    """Language tag such as "en-US"; empty means the voice's own."""
    speed: float = 1.0
    """Speaking rate; 2.0 is twice as fast. Always > 0."""
    seed: int = 0
    """Seed of this item's noise, 0 <= seed < 2**63."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's own options, as written under `options:` in the config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a front end makes of an item: plain CPU data, picklable, no tensors."""

    size: int
    """Sort key and unit of cost and memory: ids or frames, whatever scales with the work."""
    seconds: float
    """Expected seconds of audio: used for order, checks and the ETA."""
    seed: int
    """Seed of this item's noise; taken over from the item."""
    group: Hashable = None
    """Features of different groups never share a batch."""
    data: Any = None
    """What the model needs, in the adapter's own form."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the record's checks, such as {"dropped_symbols": 1}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """What a model makes of features."""

    wave: NDArray[Any]
    """Mono, cut to its own length: float32 [num_samples] in [-1, 1], or int16 where asked for."""
    finish: Finish = "ok"
    info: Mapping[str, Any] = field(default_factory=dict)
    """Facts for the record's checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceInfo:
    """What is known of a voice without loading its weights."""

    name: str
    """Name without the adapter's prefix."""
    languages: tuple[str, ...]
    """Language tags that it speaks, the first is its own; empty where unknown."""
    sample_rate: int
    """Hz."""
    license: str
    """Licence of the weights, as an SPDX identifier where there is one."""
    fingerprint: str
    """Changes whenever the weights or the reading of texts change: part of each record's key."""
    seconds_per_char: float = 0.07
    """Expected seconds of audio per character of text: for order and estimates only."""
    description: str = ""
    non_commercial: bool = False
    """The licence forbids commercial use; said aloud at the start of a run."""


@runtime_checkable
class Frontend(Protocol):
    """Text -> features on the CPU: picklable, no torch, called from several threads at once."""

    def prepare(self, item: Item) -> Features:
        """Turn one item into features.

        Raises:
            TooLongError: the text must be split.
            UnspeakableError: the voice cannot say a part of it.
        """
        ...


@runtime_checkable
class Model(Protocol):
    """Weights on one device, used by one thread.

    Optional members, looked up with getattr:
      submit(batch, pcm16) -> Callable[[], list[Audio]]: starts a batch and returns at once; the
        returned function waits for the audio and may be called from another thread. With pcm16
        the samples come down as int16.
      synthesize_in_chunks(features) -> Audio: speaks one item in little memory; used when it does
        not fit alone.
    """

    sample_rate: int
    """Hz."""
    max_size: int
    """Largest `Features.size` that it can speak."""
    ragged: bool
    """Packs items end to end, so that a batch costs the sum of its sizes, not count x longest."""
    precision: str
    """The effective number type of the heavy part: "fp32", "tf32", "bf16" or "fp16"."""

    def dummy(self, size: int) -> Features:
        """Features of exactly this size, for warm-up and the probe."""
        ...

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        """Speak a batch of one group; the answer has the same length and order."""
        ...


@runtime_checkable
class Adapter(Protocol):
    """Makes a model family drivable; importing it must import neither torch nor onnxruntime.

    A plug-in names an object of this kind in the entry-point group "batchtts.models".
    """

    name: str
    """Prefix of its voices: "hibari" in "hibari:heart"."""
    weights_license: str
    """Licence of the weights, or "per voice"."""

    def voices(self) -> Mapping[str, VoiceInfo]:
        """The voices that can be listed without being named, by name."""
        ...

    def voice(self, name: str) -> VoiceInfo:
        """Describe one voice; a name may also be a path, where the adapter says so.

        Raises:
            VoiceError: there is no such voice; the message lists those there are.
        """
        ...

    def precisions(self, device: str) -> tuple[str, ...]:
        """Precisions that are safe on this device; the first is what "auto" means."""
        ...

    def frontend(self, voice: str) -> Frontend:
        """The front end of a voice; light enough to be made once per process."""
        ...

    def load(self, voice: str, device: str, precision: str) -> Model:
        """Load the weights; `precision` is one of `precisions(device)`."""
        ...
