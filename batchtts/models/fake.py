"""A voice without weights or torch: instant, deterministic, and able to fail on command.

It stands behind the same contract as the real voices, so everything around a voice is tested on
it: each waveform begins with a mark that says which text it speaks, so that a test can prove that
a file holds its own row. The environment variable BATCHTTS_FAKE holds the switches of `Sabotage`
as JSON; it reaches spawned workers by itself.
"""

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from batchtts.errors import VoiceError
from batchtts.models.base import (
    Audio,
    Features,
    Item,
    TooLongError,
    UnspeakableError,
    VoiceInfo,
    Waveform,
)

SAMPLE_RATE = 8000
MAX_SIZE = 1000
SECONDS_PER_CHAR = 0.01
MARK_BITS = 64
UNSPEAKABLE = frozenset("☢👍🎉")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sabotage:
    """What shall go wrong; a text triggers a fault when it contains the given word."""

    batch_seconds: float = 0.0
    """Sleep per batch, as a device's fixed cost."""
    item_seconds: float = 0.0
    """Sleep per item of a batch."""
    load_seconds: float = 0.0
    load_error: str = ""
    """Loading fails with this message."""
    oom_above: int = 0
    """A batch of more than this total size runs out of memory; 0 is never."""
    oom_item_above: int = 0
    """An item of more than this size runs out of memory even alone; 0 is never."""
    error_on: str = ""
    kill_on: str = ""
    """The process kills itself with SIGKILL, as the host's out-of-memory killer does."""
    kill_once: str = ""
    """A path: the first process to find it missing makes it and kills itself on its first batch."""
    hang_on: str = ""
    sticky_on: str = ""
    """The device is poisoned: this and every later batch of the process fails."""
    nan_on: str = ""
    silent_share: float = 0.0
    """Share of seeds whose audio is silent: another seed mends it."""
    runaway_share: float = 0.0
    """Share of seeds whose audio is five times too long and ends at the limit."""
    leak_bytes: int = 0
    """Bytes that the process keeps for each batch."""

    @classmethod
    def from_environment(cls) -> "Sabotage":
        """The switches in BATCHTTS_FAKE."""
        return cls(**json.loads(os.environ.get("BATCHTTS_FAKE", "{}")))


def mark_of(text: str) -> int:
    """The number of MARK_BITS bits with which the audio of a text begins."""
    return int.from_bytes(blake2b(text.encode(), digest_size=MARK_BITS // 8).digest(), "big")


def read_mark(wave: Waveform) -> int:
    """Read the mark back from a waveform, [num_samples] float32, or from its int16 twin."""
    bits = (np.asarray(wave[:MARK_BITS]) > 0).astype(int)
    return int("".join(map(str, bits)), 2)


def duration_of(text: str, speed: float = 1.0) -> float:
    """Seconds of audio that a text gets."""
    return 0.05 + SECONDS_PER_CHAR * len(text) / speed


class FakeFrontend:
    """Text -> features: one unit of size for each character."""

    def prepare(self, item: Item) -> Features:
        """See `batchtts.models.base.Frontend`."""
        refused = [c for c in dict.fromkeys(item.text) if c in UNSPEAKABLE]
        if refused:
            raise UnspeakableError(" ".join(refused))
        if not any(c.isalnum() for c in item.text):
            raise UnspeakableError(item.text, "nothing to speak")
        if len(item.text) > MAX_SIZE:
            raise TooLongError(MAX_SIZE, len(item.text))
        seconds = duration_of(item.text, item.speed)
        return Features(
            size=len(item.text), seconds=seconds, seed=item.seed, data=(item.text, seconds)
        )


class FakeModel:
    """Features -> a marked tone with noise from the seed."""

    sample_rate = SAMPLE_RATE
    max_size = MAX_SIZE
    ragged = False
    precision = "fp32"

    def __init__(self, sabotage: Sabotage) -> None:
        self._sabotage = sabotage
        self._poisoned = False
        self._leak: list[bytearray] = []

    def dummy(self, size: int) -> Features:
        """See `batchtts.models.base.Model`."""
        text = "a" * size
        return Features(
            size=size, seconds=duration_of(text), seed=0, data=(text, duration_of(text))
        )

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        """See `batchtts.models.base.Model`."""
        self._fail_on_command(batch)
        pause = self._sabotage.batch_seconds + self._sabotage.item_seconds * len(batch)
        if pause:
            time.sleep(pause)
        return [self._speak(features) for features in batch]

    def _fail_on_command(self, batch: Sequence[Features]) -> None:
        wanted = self._sabotage
        spoken = "\n".join(features.data[0] for features in batch)
        if wanted.kill_once and not Path(wanted.kill_once).exists():
            Path(wanted.kill_once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if wanted.kill_on and wanted.kill_on in spoken:
            os.kill(os.getpid(), signal.SIGKILL)
        if wanted.hang_on and wanted.hang_on in spoken:
            time.sleep(3600)
        if self._poisoned or (wanted.sticky_on and wanted.sticky_on in spoken):
            self._poisoned = True
            message = "CUDA error: device-side assert triggered (fake)"
            raise RuntimeError(message)
        if wanted.error_on and wanted.error_on in spoken:
            message = f"the fake voice was told to fail on {wanted.error_on!r}"
            raise RuntimeError(message)
        if wanted.leak_bytes:
            self._leak.append(bytearray(wanted.leak_bytes))
        self._check_memory([features.size for features in batch])

    def _check_memory(self, sizes: list[int]) -> None:
        total, largest = len(sizes) * max(sizes), max(sizes)
        over = self._sabotage.oom_above and total > self._sabotage.oom_above and len(sizes) > 1
        if over or (self._sabotage.oom_item_above and largest > self._sabotage.oom_item_above):
            message = f"CUDA out of memory. (fake: {len(sizes)} x {largest})"
            raise RuntimeError(message)

    def _speak(self, features: Features) -> Audio:
        text, seconds = features.data
        chance = np.random.default_rng(features.seed)
        fate = chance.random()
        wanted = self._sabotage
        runaway = fate < wanted.runaway_share
        num_samples = round((5 if runaway else 1) * seconds * SAMPLE_RATE)
        time_axis = np.arange(num_samples, dtype=np.float32) / SAMPLE_RATE
        pitch = 200 + mark_of(text) % 400
        wave = 0.3 * np.sin(2 * np.pi * pitch * time_axis)
        wave += 0.01 * chance.standard_normal(num_samples)
        if wanted.runaway_share <= fate < wanted.runaway_share + wanted.silent_share:
            wave[:] = 0
        if wanted.nan_on and wanted.nan_on in text:
            wave[num_samples // 2] = np.nan
        wave *= np.minimum(1, np.minimum(time_axis, time_axis[::-1]) / 0.01)  # no abrupt ends
        bits = np.array([int(bit) for bit in f"{mark_of(text):0{MARK_BITS}b}"])
        wave[:MARK_BITS] = 0.1 * (2 * bits - 1)
        return Audio(wave=wave.astype(np.float32), finish="limit" if runaway else "ok")


@dataclass(frozen=True)
class FakeAdapter:
    """See `batchtts.models.base.Adapter`."""

    name: str = "fake"
    weights_license: str = "Apache-2.0"

    def voices(self) -> Mapping[str, VoiceInfo]:
        """Two voices that differ in name only."""
        return {name: self.voice(name) for name in ("tone", "other")}

    def voice(self, name: str) -> VoiceInfo:
        """Describe "tone" or "other"."""
        if name not in ("tone", "other"):
            message = f"the fake family has no voice {name!r}; there are: tone, other"
            raise VoiceError(message)
        return VoiceInfo(
            name=name,
            languages=(),
            sample_rate=SAMPLE_RATE,
            license=self.weights_license,
            fingerprint=f"fake-{name}-1",
            seconds_per_char=SECONDS_PER_CHAR,
            description="a tone for tests, no speech",
        )

    def precisions(self, device: str) -> tuple[str, ...]:
        """Only fp32, everywhere."""
        del device
        return ("fp32",)

    def frontend(self, voice: str) -> FakeFrontend:
        """The front end, the same for both voices."""
        self.voice(voice)
        return FakeFrontend()

    def load(self, voice: str, device: str, precision: str) -> FakeModel:
        """Load nothing, as slowly as asked."""
        del voice, device, precision
        sabotage = Sabotage.from_environment()
        time.sleep(sabotage.load_seconds)
        if sabotage.load_error:
            raise RuntimeError(sabotage.load_error)
        return FakeModel(sabotage)


adapter: Any = FakeAdapter()
