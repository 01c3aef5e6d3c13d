"""The YAML file as strict pydantic models; each default stands here and nowhere else."""

import codecs
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from batchtts.configcheck import check, no_misread
from batchtts.configfile import ConfigFile, Keys, read_config_file

MIN_SPEED = 0.25
MAX_SPEED = 4.0
MAX_SEED = 2**63 - 1


def _known_encoding(name: str) -> str:
    try:
        known = codecs.lookup(name)
    except LookupError:
        known = None
    if known is None or name.lower() in {
        "rot13",
        "base64",
        "hex",
        "zip",
        "bz2",
        "idna",
        "punycode",
    }:
        message = "is no encoding; such as utf-8, cp949, cp1252, cp932, gb18030, utf-16"
        raise ValueError(message)
    return name


def _one_mark(delimiter: str) -> str:
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in "\"'\r\n":
        message = 'must be one character that parts the cells, such as "," or ";" or "|" or "\\t"'
        raise ValueError(message)
    return delimiter


def _device_list(devices: Any) -> Any:  # noqa: ANN401
    """Make one form of the two that may be written: `cuda:0,cuda:2` and `[cuda:0, cuda:2]`."""
    names = devices if isinstance(devices, list) else str(devices).split(",")
    names = [name.strip() if isinstance(name, str) else "" for name in names]
    if (
        not names
        or not all(names)
        or any(name.isdigit() for name in names)
        or isinstance(devices, int)
    ):
        message = "must be auto, cpu or devices by name: cuda:0 or cuda:0,cuda:2 or [cuda:0, cpu]"
        raise ValueError(message)
    return ",".join(names)


class Section(BaseModel):
    """A mapping of the config: unknown keys are errors, values keep the type they were written in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, data: Any) -> Any:  # noqa: ANN401
        """A section whose keys are all commented out is an empty one."""
        return {} if data is None else data


class Columns(Section):
    """Which column of the input holds what; only the text must exist.

    Names are matched without regard to case. In a file without a header, "1" is the first column.
    """

    id: StrictStr = "id"
    text: StrictStr = "text"
    voice: StrictStr = "voice"
    speed: StrictStr = "speed"
    lang: StrictStr = "lang"
    seed: StrictStr = "seed"
    file: StrictStr = "file"


class InputConfig(Section):
    """How the file of texts is read."""

    kind: Literal["auto", "txt", "csv", "tsv", "psv", "jsonl", "xlsx"] = "auto"
    """What the file is; auto goes by its name, and takes standard input as one text a line."""
    columns: Columns = Columns()
    template: StrictStr | None = None
    """Jinja2 text that makes the text of a row from its columns: "Hello {{ name }}"."""
    encoding: Annotated[StrictStr, AfterValidator(_known_encoding)] | None = None
    """Used where a file has no byte-order mark and is not UTF-8; null: such a file is refused."""
    delimiter: Annotated[StrictStr, AfterValidator(_one_mark)] | None = None
    """What parts the cells; null: tab in .tsv, | in .psv, and in .csv as its first line shows."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first row names the columns; auto: it does, where it names the text column."""
    on_duplicate: Literal["error", "suffix"] = "error"
    """An id used twice: stop before anything is done, or call the second one "id-2"."""
    allow_empty: StrictBool = False
    """A file without texts is fine: nothing to do, exit 0."""


class TextConfig(Section):
    """What happens to a text before the voice gets it."""

    on_unspeakable: Literal["fail", "skip", "strip"] = "fail"
    """A text with characters that the voice cannot say: fail it, skip it, or say the rest."""
    markup: Literal["literal", "strip"] = "literal"
    """HTML and SSML tags and entities: kept as they are, or taken out and decoded."""
    urls: Literal["literal", "domain", "skip"] = "literal"
    """Web addresses: as they are, the domain alone, or left out with e-mail addresses."""
    numbers: Literal["digits", "voice"] = "digits"
    """Phone numbers and codes with leading zeros digit by digit, 34,50 in English as 34.50; or all
    left to the voice's front end."""
    max_repeat: Annotated[StrictInt, Field(ge=1)] = 20
    """Longest run of one letter or of a short repeated syllable; digits are never cut."""
    sentence_pause_ms: Annotated[StrictInt, Field(ge=0, le=10_000)] = 350
    """Silence between two sentences, and at a line break."""
    paragraph_pause_ms: Annotated[StrictInt, Field(ge=0, le=10_000)] = 800
    """Silence at an empty line."""
    lexicon: dict[Annotated[StrictStr, Field(min_length=1)], StrictStr] = {}
    """Word -> how to say it. A lower-case word matches any case, one with capitals exactly."""


class BatchConfig(Section):
    """How many utterances go through the model at once."""

    size: Literal["auto"] | Annotated[StrictInt, Field(ge=1)] = "auto"
    max_size: Annotated[StrictInt, Field(ge=1)] = 256
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the free memory that stays free."""
    probe: Literal["off", "memory", "full", "force"] = "full"


class OutputConfig(Section):
    """What is written, where and how."""

    dir: StrictStr | None = None
    """Output folder; a relative one begins at the folder of the config file."""
    preset: StrictStr | None = None
    format: Literal["wav", "flac", "ogg", "opus", "mp3"] = "wav"
    encoding: Literal["pcm_16", "pcm_24", "float", "mulaw", "alaw"] | None = None
    sample_rate: Annotated[StrictInt, Field(ge=8_000, le=192_000)] | None = None
    """Hz; null: the voice's own."""
    loudness: Annotated[float, Field(ge=-60, le=0)] | None = None
    """LUFS of every file; null: as the voice speaks."""
    true_peak: Annotated[float, Field(ge=-60, le=0)] | None = None
    """Ceiling in dBTP."""
    trim_silence: StrictBool = False
    pad_start_ms: Annotated[StrictInt, Field(ge=0, le=60_000)] = 0
    pad_end_ms: Annotated[StrictInt, Field(ge=0, le=60_000)] = 0
    fade_ms: Annotated[StrictInt, Field(ge=0, le=10_000)] = 0
    tags: dict[StrictStr, StrictStr] = {}
    layout: Literal["auto", "flat", "folders"] = "auto"
    cache: StrictStr | None = None
    """Folder of audio shared between runs; a relative one begins at the config file's folder."""


class ChecksConfig(Section):
    """How suspect audio is treated."""

    retries: Annotated[StrictInt, Field(ge=0, le=10)] = 2
    on_suspect: Literal["keep", "fail"] = "keep"


class Config(Section):
    """A whole run. Keys that begin with "x-" are free, for anchors and notes."""

    voice: StrictStr = "hibari:heart"
    lang: StrictStr = ""
    """Language tag such as "en-US"; empty: the voice's own."""
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] = 1.0
    """2.0 is twice as fast."""
    seed: Annotated[StrictInt, Field(ge=0, le=MAX_SEED)] = 0
    options: dict[StrictStr, Annotated[Any, AfterValidator(no_misread)]] = {}
    """What the voice's own adapter knows, passed on as written."""
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "auto"
    devices: Annotated[StrictStr, BeforeValidator(_device_list)] = "auto"
    """auto, or names with commas; a list of names may be written as well."""
    deadline: StrictStr | None = None
    input: InputConfig = InputConfig()
    text: TextConfig = TextConfig()
    batch: BatchConfig = BatchConfig()
    output: OutputConfig = OutputConfig()
    checks: ChecksConfig = ChecksConfig()


def load_config(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read the YAML file and lay the command line's options over it.

    Relative paths in the file begin at the file's folder, those of the command line at the
    current folder.

    Args:
        path: the YAML file; None takes the defaults.
        overrides: options by dotted key, {"batch.size": 16}; None is an option that was not given.

    Raises:
        ConfigError: file:line:column, key, value and what is allowed, for everything wrong in it.
    """
    file = ConfigFile("", "") if path is None else read_config_file(path)
    data = {key: value for key, value in file.data.items() if not key.startswith("x-")}
    if path is not None:
        _anchor_paths(data, path.parent)
    given: dict[Keys, Any] = {}
    for name, value in (overrides or {}).items():
        if value is not None:
            keys = tuple(name.split("."))
            _put(data, keys, value)
            given[keys] = value
    return check(Config, data, file, given)


def _put(data: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:  # noqa: ANN401
    for key in keys[:-1]:
        if data.get(key) is None:
            data[key] = {}
        data = data[key]
        if not isinstance(data, dict):  # the check of the file will say so
            return
    data[keys[-1]] = value


def _anchor_paths(data: dict[str, Any], folder: Path) -> None:
    output = data.get("output")
    if isinstance(output, dict):
        for key in ("dir", "cache"):
            if isinstance(output.get(key), str):
                output[key] = _anchored(output[key], folder)
    voice = data.get("voice")
    if isinstance(voice, str):
        family, colon, name = voice.rpartition(":")
        if name.endswith(".onnx") or ("/" in name and (folder / name).exists()):
            data["voice"] = f"{family}{colon}{_anchored(name, folder)}"


def _anchored(path: str, folder: Path) -> str:
    if "://" in path:
        return path
    return str(folder / (Path(path).expanduser() if path.startswith("~/") else path))
