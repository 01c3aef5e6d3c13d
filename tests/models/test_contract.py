"""The contract test finds each broken clause, and names it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from batchtts.errors import VoiceError
from batchtts.models import adapter
from batchtts.models.base import (
    Audio,
    Features,
    Item,
    TooLongError,
    UnspeakableError,
    VoiceInfo,
)
from batchtts.models.contract import ContractError, check

LIMIT = 400
INFO = VoiceInfo(name="hum", languages=(), sample_rate=1000, license="CC0-1.0", fingerprint="1")


class Hummer:
    """A front end and a model that keep the contract: a hum of 20 samples per character."""

    sample_rate = 1000
    max_size = LIMIT
    ragged = True
    precision = "fp32"

    def prepare(self, item: Item) -> Features:
        if "\N{PARTY POPPER}" in item.text:
            raise UnspeakableError("\N{PARTY POPPER}")
        if not item.text:
            raise UnspeakableError("", "nothing to speak")
        if len(item.text) > LIMIT:
            raise TooLongError(LIMIT, len(item.text))
        seconds = 0.02 * len(item.text) / item.speed
        return Features(size=len(item.text), seconds=seconds, seed=item.seed)

    def dummy(self, size: int) -> Features:
        return Features(size=size, seconds=0.02 * size, seed=0)

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        return [Audio(wave=self.hum(features)) for features in batch]

    def hum(self, features: Features) -> Any:
        noise = np.random.default_rng(features.seed).normal(size=round(1000 * features.seconds))
        return (0.1 * np.tanh(noise)).astype(np.float32)


@dataclass
class Family:
    """An adapter around a hummer."""

    hummer: Any = field(default_factory=Hummer)
    name: str = "hums"
    weights_license: str = "CC0-1.0"

    def voices(self) -> Mapping[str, VoiceInfo]:
        return {"hum": INFO}

    def voice(self, name: str) -> VoiceInfo:
        if name != "hum":
            message = "there is: hum"
            raise VoiceError(message)
        return INFO

    def precisions(self, device: str) -> tuple[str, ...]:
        del device
        return ("fp32",)

    def frontend(self, voice: str) -> Any:
        del voice
        return self.hummer

    def load(self, voice: str, device: str, precision: str) -> Any:
        del voice, device, precision
        return self.hummer


def test_a_good_adapter_passes() -> None:
    check(Family(), "hum")


def test_the_fake_voice_passes() -> None:
    check(adapter("fake"), "tone")


class NoPrecision(Family):
    def precisions(self, device: str) -> tuple[str, ...]:
        del device
        return ()


class AnyVoice(Family):
    def voice(self, name: str) -> VoiceInfo:
        del name
        return INFO


@pytest.mark.parametrize("family", [NoPrecision, AnyVoice])
def test_a_broken_adapter_is_named(family: type[Family]) -> None:
    with pytest.raises(ContractError, match="adapter: "):
        check(family(), "hum")


class Unpicklable(Hummer):
    def __init__(self) -> None:
        self.handle = lambda: None


class WrongSeed(Hummer):
    def prepare(self, item: Item) -> Features:
        return replace(super().prepare(item), seed=0)


class Incomplete(Hummer):
    dummy = None  # type: ignore[assignment]


class WrongRate(Hummer):
    sample_rate = 8000


class Loud(Hummer):
    def hum(self, features: Features) -> Any:
        return 20 * super().hum(features)


class Double(Hummer):
    def hum(self, features: Features) -> Any:
        return super().hum(features).astype(np.float64)


class NotANumber(Hummer):
    def hum(self, features: Features) -> Any:
        return np.append(super().hum(features), np.float32("nan"))


class Endless(Hummer):
    def hum(self, features: Features) -> Any:
        return np.tile(super().hum(features), 10)


class Random(Hummer):
    def hum(self, features: Features) -> Any:
        return super().hum(replace(features, seed=int(np.random.default_rng().integers(2**31))))


class Seedless(Hummer):
    def hum(self, features: Features) -> Any:
        return super().hum(replace(features, seed=0))


class Padded(Hummer):
    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        longest = max(features.seconds for features in batch)
        return [Audio(wave=self.hum(replace(f, seconds=longest))) for f in batch]


class SharedNoise(Hummer):
    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        return super().synthesize([replace(f, seed=batch[0].seed) for f in batch])


class Sorted(Hummer):
    """Gives back a batch in the order of its lengths, when that is not the given one."""

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        if len(batch) > 1 and batch[0].seed > batch[-1].seed:
            return super().synthesize(batch[::-1])
        return super().synthesize(batch)


class MindsNeighbours(Hummer):
    """Two in a batch are louder than four."""

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        gain = np.float32(1.5 if len(batch) in (2, 3) else 1)
        return [Audio(wave=gain * self.hum(features)) for features in batch]


class Submits(Hummer):
    def submit(self, batch: Sequence[Features], pcm16: bool) -> Any:
        del pcm16
        return lambda: self.synthesize(batch)


class Chunks(Hummer):
    def synthesize_in_chunks(self, features: Features) -> Audio:
        return Audio(wave=-self.hum(features))


class OneSpeed(Hummer):
    def prepare(self, item: Item) -> Features:
        return super().prepare(replace(item, speed=1.0))


class Limitless(Hummer):
    def prepare(self, item: Item) -> Features:
        if len(item.text) <= LIMIT:
            return super().prepare(item)
        return self.dummy(len(item.text))


class SpeaksNothing(Hummer):
    def prepare(self, item: Item) -> Features:
        return super().prepare(replace(item, text=item.text or "a"))


class Drops(Hummer):
    def prepare(self, item: Item) -> Features:
        return super().prepare(replace(item, text=item.text.replace("\N{PARTY POPPER}", "")))


class Vague(Hummer):
    def prepare(self, item: Item) -> Features:
        try:
            return super().prepare(item)
        except UnspeakableError:
            raise UnspeakableError("something") from None


class SmallDummy(Hummer):
    def dummy(self, size: int) -> Features:
        return super().dummy(min(size, 100))


class ImportsTorch(Hummer):
    def prepare(self, item: Item) -> Features:
        sys.modules.setdefault("torch", sys)  # as an import would, but at once
        return super().prepare(item)


BROKEN = {
    Unpicklable: "front end",
    WrongSeed: "front end",
    Incomplete: "model",
    WrongRate: "model",
    Loud: "waveforms",
    Double: "waveforms",
    NotANumber: "waveforms",
    Endless: "waveforms",
    Random: "same seed",
    Seedless: "other seed",
    Padded: "lengths",
    SharedNoise: "batch as alone",
    Sorted: "order",
    MindsNeighbours: "neighbours",
    Submits: "submit",
    Chunks: "chunks",
    OneSpeed: "speed",
    Limitless: "long text",
    SpeaksNothing: "empty text",
    Drops: "unspeakable",
    Vague: "unspeakable",
    SmallDummy: "dummy",
    ImportsTorch: "light import",
}


@pytest.mark.parametrize(
    ("hummer", "clause"), BROKEN.items(), ids=lambda x: getattr(x, "__name__", x)
)
def test_a_broken_clause_is_named(hummer: type[Hummer], clause: str) -> None:
    with pytest.raises(ContractError, match=f"^{clause}: ") as caught:
        check(Family(hummer()), "hum")
    assert caught.value.clause == clause
