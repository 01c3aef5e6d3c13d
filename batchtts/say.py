"""`batchtts say`: one utterance in this process, through the same stages as in a run."""

from pathlib import Path

from batchtts import audio, devices, models, output
from batchtts.config import Config
from batchtts.data import Utterance
from batchtts.errors import InputError
from batchtts.output import Written
from batchtts.plan import seed_of
from batchtts.prepare import Refused, prepare
from batchtts.text import clean


def say(text: str, config: Config, path: Path) -> Written:
    """Speak a text into a file; `config.output` is resolved.

    Raises:
        InputError: the voice cannot say it.
        VoiceError: there is no such voice.
    """
    family, name = models.split(config.voice)
    adapter = models.adapter(family)
    spoken = clean(text, config.text).text
    utterance = Utterance(
        index=0,
        line=1,
        id="say",
        text=spoken,
        voice=f"{family}:{name}",
        lang=config.lang,
        speed=config.speed,
        seed=seed_of(config.seed, f"{family}:{name}", spoken),
        file=path.name,
        key="",
    )
    segments = prepare(adapter.frontend(name), utterance, config)
    if isinstance(segments, Refused):
        raise InputError(segments.reason)
    device = devices.slots(config.devices)[0].device
    allowed = adapter.precisions(device)
    precision = config.precision if config.precision in allowed else allowed[0]
    model = adapter.load(name, device, precision)
    waves = [model.synthesize([segment.features])[0].wave for segment in segments]
    wave = audio.join(waves, [segment.pause_ms for segment in segments], model.sample_rate)
    finished, sample_rate = audio.finish(wave, model.sample_rate, config.output)
    return output.write(path, finished, sample_rate, config.output, 0)
