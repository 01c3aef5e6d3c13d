"""The YAML file as strict pydantic models; each default stands here and nowhere else."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr


class Section(BaseModel):
    """A mapping of the config: unknown keys are errors, values keep the type they were written in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Columns(Section):
    """Which column of the input holds what; only the text must exist."""

    id: StrictStr = "id"
    text: StrictStr = "text"
    voice: StrictStr = "voice"
    speed: StrictStr = "speed"
    lang: StrictStr = "lang"
    seed: StrictStr = "seed"
    file: StrictStr = "file"


class InputConfig(Section):
    """How the file of texts is read."""

    columns: Columns = Columns()
    template: StrictStr | None = None
    encoding: StrictStr | None = None
    delimiter: StrictStr | None = None
    header: Literal["auto", "yes", "no"] = "auto"
    on_duplicate: Literal["error", "suffix"] = "error"
    allow_empty: StrictBool = False


class TextConfig(Section):
    """What happens to a text before the voice gets it."""

    on_unspeakable: Literal["fail", "skip", "strip"] = "fail"
    markup: Literal["literal", "strip"] = "literal"
    urls: Literal["literal", "domain", "skip"] = "literal"
    max_repeat: Annotated[StrictInt, Field(ge=1)] = 20
    sentence_pause_ms: Annotated[StrictInt, Field(ge=0, le=10_000)] = 150
    paragraph_pause_ms: Annotated[StrictInt, Field(ge=0, le=10_000)] = 500
    lexicon: dict[StrictStr, StrictStr] = {}


class BatchConfig(Section):
    """How many utterances go through the model at once."""

    size: Literal["auto"] | Annotated[StrictInt, Field(ge=1)] = "auto"
    max_size: Annotated[StrictInt, Field(ge=1)] = 256
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.2
    probe: Literal["off", "memory", "full", "force"] = "full"


class OutputConfig(Section):
    """What is written, where and how."""

    dir: StrictStr | None = None
    preset: StrictStr | None = None
    format: Literal["wav", "flac", "ogg", "opus", "mp3"] = "wav"
    encoding: Literal["pcm_16", "pcm_24", "float", "mulaw", "alaw"] | None = None
    sample_rate: Annotated[StrictInt, Field(ge=8_000, le=192_000)] | None = None
    loudness: Annotated[float, Field(ge=-60, le=0)] | None = None
    true_peak: Annotated[float, Field(ge=-60, le=0)] | None = None
    trim_silence: StrictBool = False
    pad_start_ms: Annotated[StrictInt, Field(ge=0, le=60_000)] = 0
    pad_end_ms: Annotated[StrictInt, Field(ge=0, le=60_000)] = 0
    fade_ms: Annotated[StrictInt, Field(ge=0, le=10_000)] = 0
    tags: dict[StrictStr, StrictStr] = {}
    layout: Literal["auto", "flat", "folders"] = "auto"
    cache: StrictStr | None = None


class ChecksConfig(Section):
    """How suspect audio is treated."""

    retries: Annotated[StrictInt, Field(ge=0, le=10)] = 2
    on_suspect: Literal["keep", "fail"] = "keep"


class Config(Section):
    """A whole run."""

    voice: StrictStr = "hibari:heart"
    lang: StrictStr = ""
    speed: Annotated[float, Field(ge=0.25, le=4.0)] = 1.0
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0
    options: dict[StrictStr, Any] = {}
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "auto"
    devices: StrictStr = "auto"
    deadline: StrictStr | None = None
    input: InputConfig = InputConfig()
    text: TextConfig = TextConfig()
    batch: BatchConfig = BatchConfig()
    output: OutputConfig = OutputConfig()
    checks: ChecksConfig = ChecksConfig()


def load_config(path: Path | None, overrides: dict[str, Any] | None = None) -> Config:
    """Read the YAML file and lay the command line's options over it.

    `overrides` maps dotted keys to values: {"batch.size": 16}.

    Raises:
        ConfigError: file:line:column, key, value and what is allowed, for everything wrong in it.
    """
    raise NotImplementedError(path, overrides)
