"""A voice that speaks step by step, as language models do; now and then one does not stop."""

from collections.abc import Mapping, Sequence

import numpy as np

from batchtts.errors import VoiceError
from batchtts.models.base import (
    Audio,
    Features,
    Finish,
    Item,
    TooLongError,
    UnspeakableError,
    VoiceInfo,
    Waveform,
)

VOICES = {"deep": 110.0, "bright": 220.0}  # Hz
SAMPLE_RATE, STEP, MAX_SIZE = 8000, 160, 400
NEVER_STOPS = 0.02  # share of seeds
MAX_OVERRUN = 3  # steps for each step that was expected


class BabbleFrontend:
    def prepare(self, item: Item) -> Features:
        unknown = [c for c in dict.fromkeys(item.text) if not c.isascii()]
        if unknown:
            raise UnspeakableError(" ".join(unknown))
        if not any(map(str.isalnum, item.text)):
            raise UnspeakableError(item.text, "nothing to speak")
        if len(item.text) > MAX_SIZE:
            raise TooLongError(MAX_SIZE, len(item.text))
        steps = 5 + round(3 * len(item.text) / item.speed)
        seconds = steps * STEP / SAMPLE_RATE
        return Features(size=len(item.text), seconds=seconds, seed=item.seed, data=steps)


class BabbleModel:
    sample_rate, max_size, ragged, precision = SAMPLE_RATE, MAX_SIZE, False, "fp32"

    def __init__(self, pitch: float) -> None:
        self.pitch = pitch

    def dummy(self, size: int) -> Features:
        return BabbleFrontend().prepare(Item(text="a" * size, voice=""))

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        chances = [np.random.default_rng(features.seed) for features in batch]
        stops = [chance.random() >= NEVER_STOPS for chance in chances]
        spoken: list[list[Waveform]] = [[] for _ in batch]
        finish: dict[int, Finish] = {}
        while len(finish) < len(batch):
            for i in set(range(len(batch))) - finish.keys():
                steps, expected = len(spoken[i]), batch[i].data
                spoken[i].append(self._step(steps, chances[i]))
                if stops[i] and steps >= expected and chances[i].random() < 0.5:
                    finish[i] = "ok"
                elif steps >= MAX_OVERRUN * expected:
                    finish[i] = "limit"  # the core speaks it again, with another seed
        return [Audio(wave=np.concatenate(spoken[i]), finish=finish[i]) for i in range(len(batch))]

    def _step(self, number: int, chance: np.random.Generator) -> Waveform:
        time = (number * STEP + np.arange(STEP)) / SAMPLE_RATE
        tone = 0.2 * np.sin(2 * np.pi * self.pitch * time) + 0.02 * chance.standard_normal(STEP)
        return tone.astype(np.float32)


class BabbleAdapter:
    name, weights_license = "babble", "Apache-2.0"

    def voices(self) -> Mapping[str, VoiceInfo]:
        return {name: self.voice(name) for name in VOICES}

    def voice(self, name: str) -> VoiceInfo:
        if name not in VOICES:
            message = f"babble has no voice {name!r}; there are: {', '.join(VOICES)}"
            raise VoiceError(message)
        return VoiceInfo(
            name=name,
            languages=("en",),
            sample_rate=SAMPLE_RATE,
            license=self.weights_license,
            fingerprint=f"{name}-1",
        )

    def precisions(self, device: str) -> tuple[str, ...]:
        del device
        return ("fp32",)

    def frontend(self, voice: str) -> BabbleFrontend:
        self.voice(voice)
        return BabbleFrontend()

    def load(self, voice: str, device: str, precision: str) -> BabbleModel:
        del device, precision
        return BabbleModel(VOICES[voice])


adapter = BabbleAdapter()
