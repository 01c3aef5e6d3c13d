"""One voice in this process, without workers: for `say`, `probe-batch-size` and `bench`."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from batchtts import audio, checks, cpu_split, devices, inputs, meters, output, plan, probe
from batchtts import bench as benchmark
from batchtts import models as families
from batchtts.config import Config
from batchtts.data import Row, Utterance
from batchtts.devices import CpuSplit, Slot
from batchtts.errors import InputError
from batchtts.models.base import Adapter, Audio, Features, Frontend, Model
from batchtts.output import Written
from batchtts.prepare import Refused, Segment, prepare
from batchtts.probe import ProbeResult
from batchtts.probe_cache import ProbeKey, default_folder
from batchtts.voices import voice as find_voice
from batchtts.voices import voice_finder

TYPICAL_SECONDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Audio of the texts that are made up where no input is given."""
TEXTS_OF_EACH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Solo:
    """A voice, loaded."""

    name: str
    """"adapter:name"."""
    adapter: Adapter
    frontend: Frontend
    model: Model
    slot: Slot

    @property
    def key(self) -> ProbeKey:
        """What a measurement of it holds for."""
        family, _, short = self.name.partition(":")
        return ProbeKey(
            adapter=family,
            fingerprint=self.adapter.voice(short).fingerprint,
            precision=self.model.precision,
            share=self.slot.share,
            threads=self.slot.threads,
        )


def load(config: Config) -> Solo:
    """Load the config's voice on its first device.

    Raises:
        VoiceError: there is no such voice.
        DeviceError: there is no such device.
    """
    family, short = families.split(config.voice)
    adapter = families.adapter(family)
    slot = devices.slots(config.devices)[0]
    os.environ.update(slot.env)  # before torch reads them
    return Solo(
        name=f"{family}:{short}",
        adapter=adapter,
        frontend=adapter.frontend(short),
        model=adapter.load(
            short, slot.device, families.precision(adapter, slot.device, config.precision)
        ),
        slot=slot,
    )


def say(text: str, config: Config, path: Path) -> Written:
    """Speak a text into a file; `config.output` is resolved.

    Raises:
        InputError: the voice cannot say it.
    """
    row = Row(index=0, line=1, id="say", text=text)
    voice = find_voice(config.voice)
    utterance, _ = next(plan.utterances([row], config, lambda _: voice, folders=False))
    solo = load(config)
    segments = prepare(solo.frontend, utterance, config)
    if isinstance(segments, Refused):
        raise InputError(segments.reason)
    waves = [solo.model.synthesize([segment.features])[0].wave for segment in segments]
    pauses = [segment.pause_ms for segment in segments]
    wave = audio.join(waves, pauses, solo.model.sample_rate)
    finished, sample_rate = audio.finish(wave, solo.model.sample_rate, config.output)
    return output.write(path, finished, sample_rate, config.output, 0)


def segments_of(
    source: str, solo: Solo, config: Config, limit: int | None, log: Callable[[str], None]
) -> list[Segment]:
    """The segments of an input's rows; rows that cannot be spoken by this voice are left out.

    Raises:
        InputError: nothing in it can be spoken.
    """
    rows = list(inputs.read_rows(source, config.input, log))[:limit]
    utterances = plan.utterances(rows, config, voice_finder(source, config), folders=False)
    found = [
        segment
        for utterance, reason in utterances
        if not reason and utterance.voice == solo.name
        for segment in _prepared(solo, utterance, config)
    ]
    if not found:
        message = f"{source}: the voice {solo.name} can speak none of its rows"
        raise InputError(message)
    return found


def _prepared(solo: Solo, utterance: Utterance, config: Config) -> list[Segment]:
    segments = prepare(solo.frontend, utterance, config)
    return [] if isinstance(segments, Refused) else segments


def typical(model: Model) -> Iterator[Features]:
    """Features of made-up texts of common lengths, for a probe without an input."""
    probe_size = min(100, model.max_size)
    per_second = probe_size / model.dummy(probe_size).seconds
    for seconds in TYPICAL_SECONDS:
        size = max(1, min(model.max_size, round(seconds * per_second)))
        for _ in range(TEXTS_OF_EACH):
            yield model.dummy(size)


def find_limit(
    solo: Solo, features: list[Features], config: Config, log: Callable[[str], None]
) -> ProbeResult:
    """Measure how large a batch may be, as a worker does."""
    meter, clock = meters.for_device(solo.slot.device, solo.slot.share)
    return probe.find_limit(
        solo.model, features, config.batch, solo.key, meter, clock, default_folder(), log
    )


def find_split(
    solo: Solo, features: list[Features], config: Config, log: Callable[[str], None]
) -> CpuSplit | None:
    """Measure how the cores are best used; None where the device is no CPU or was named."""
    if solo.slot.device != "cpu" or config.devices != "auto":
        return None
    kept = cpu_split.kept_split(solo.key, default_folder())
    if kept and config.batch.probe != "force":
        return kept
    return cpu_split.cpu_split(solo.name, features, solo.key, default_folder(), log)


def bench(
    source: str, config: Config, limit: int | None, log: Callable[[str], None]
) -> benchmark.BenchResult:
    """Measure one text at a time against batches, and what the stages around them cost."""
    solo = load(config)
    segments = segments_of(source, solo, config, limit, log)
    features = [segment.features for segment in segments]
    found = find_limit(solo, features, config, log)
    _, clock = meters.for_device(solo.slot.device, solo.slot.share)

    def prepare_all(_: Sequence[Audio]) -> None:
        for segment in segments:
            prepare(solo.frontend, segment.utterance, config)

    def post_all(audios: Sequence[Audio]) -> None:
        for spoken, segment in zip(audios, segments, strict=True):
            checks.check(spoken.wave, solo.model.sample_rate, segment.features.seconds)
            audio.finish(spoken.wave, solo.model.sample_rate, config.output)

    def write_all(audios: Sequence[Audio]) -> None:
        with TemporaryDirectory(prefix="batchtts-") as folder:
            for number, spoken in enumerate(audios):
                path = Path(folder) / f"{number}.{output.extension(config.output)}"
                output.write(path, spoken.wave, solo.model.sample_rate, config.output, 0)

    return benchmark.run(
        solo.model,
        features,
        found.limit,
        clock,
        before={"prepare": prepare_all},
        after={"post": post_all, "write": write_all},
    )
