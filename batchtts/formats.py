"""What can be written: formats, their encodings and rates, and the presets made of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchtts.config import OutputConfig
from batchtts.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One value of `output.format`."""

    extension: str
    container: str
    """libsndfile's name of the file format."""
    subtypes: Mapping[str | None, str]
    """`output.encoding` -> libsndfile's name of it; the first is the default."""
    rates: tuple[int, ...] = ()
    """Sample rates in Hz that it can hold; empty where it holds all."""


FORMATS: Mapping[str, Format] = {
    "wav": Format(
        extension="wav",
        container="WAV",
        subtypes={
            "pcm_16": "PCM_16",
            "pcm_24": "PCM_24",
            "float": "FLOAT",
            "mulaw": "ULAW",
            "alaw": "ALAW",
        },
    ),
    "flac": Format(
        extension="flac", container="FLAC", subtypes={"pcm_16": "PCM_16", "pcm_24": "PCM_24"}
    ),
    "ogg": Format(extension="ogg", container="OGG", subtypes={None: "VORBIS"}),
    "opus": Format(
        extension="opus",
        container="OGG",
        subtypes={None: "OPUS"},
        rates=(8_000, 12_000, 16_000, 24_000, 48_000),
    ),
    "mp3": Format(
        extension="mp3",
        container="MP3",
        subtypes={None: "MPEG_LAYER_III"},
        rates=(8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000),
    ),
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "telephony": {
        "format": "wav",
        "encoding": "mulaw",
        "sample_rate": 8_000,
        "loudness": -20.0,
        "true_peak": -3.0,
    },
    "telephony-alaw": {
        "format": "wav",
        "encoding": "alaw",
        "sample_rate": 8_000,
        "loudness": -20.0,
        "true_peak": -3.0,
    },
    "web": {"format": "opus", "loudness": -16.0, "true_peak": -1.0},
    "audiobook": {"sample_rate": 44_100, "loudness": -18.0, "true_peak": -3.0},
    "asr-dataset": {"format": "wav", "encoding": "pcm_16", "sample_rate": 16_000},
}

TAGS = ("title", "artist", "album", "comment", "copyright", "date", "genre", "license", "software")
"""Tags that every format can carry."""

LOUDNESS_CEILING = -1.0
"""dBTP; the ceiling where a loudness is asked for and no ceiling."""


OVERSHOOT = {"mulaw": 0.2, "alaw": 0.2, "mp3": 0.5, "ogg": 1.1, "opus": 1.1}
"""Encoding or format -> dB by which what is decoded passes what was encoded, measured on speech.

Certain for mu-law and A-law; a lossy format goes beyond it, by half a dB, in one file of a hundred.
"""


def resolve(output: OutputConfig) -> OutputConfig:
    """Fill in the preset and the defaults that depend on the format; keys that are written win.

    Raises:
        ConfigError: there is no such preset, or the keys do not fit together.
    """
    if output.preset is not None and output.preset not in PRESETS:
        message = f"output.preset: there is no {output.preset!r}; valid: {', '.join(PRESETS)}"
        raise ConfigError(message)
    written = {key: getattr(output, key) for key in output.model_fields_set}
    keys = dict(PRESETS[output.preset]) if output.preset is not None else {}
    keys |= written | {"preset": None}
    chosen = FORMATS[keys.get("format", output.format)]
    keys.setdefault("encoding", None)
    if keys["encoding"] is None:
        keys["encoding"] = next(iter(chosen.subtypes))
    if keys.get("loudness") is not None and keys.get("true_peak") is None:
        keys["true_peak"] = LOUDNESS_CEILING
    whole = output.model_copy(update=keys)
    _check(whole, f" (preset {output.preset})" if output.preset else "")
    return whole


def _check(output: OutputConfig, origin: str) -> None:
    """Refuse keys that do not fit together."""
    chosen = FORMATS[output.format]
    where = f"output.format {output.format}{origin}"
    if output.encoding not in chosen.subtypes:
        valid = ", ".join(name for name in chosen.subtypes if name) or "none, leave it out"
        message = f"output.encoding: {where} cannot hold {output.encoding}; valid: {valid}"
        raise ConfigError(message)
    if output.sample_rate is not None and chosen.rates and output.sample_rate not in chosen.rates:
        valid = ", ".join(map(str, chosen.rates))
        message = f"output.sample_rate: {where} cannot hold {output.sample_rate} Hz; valid: {valid}"
        raise ConfigError(message)
    unknown = [name for name in output.tags if name not in TAGS]
    if unknown:
        message = f"output.tags: no file can carry {unknown[0]!r}; valid: {', '.join(TAGS)}"
        raise ConfigError(message)


def extension(output: OutputConfig) -> str:
    """The extension of the files, without the dot."""
    return FORMATS[output.format].extension


def output_rate(output: OutputConfig, sample_rate: int) -> int:
    """Hz of the file for a voice of this rate: what is asked for, else the least change that fits.

    Opus, for one, holds no 22 050 Hz: such a voice is written at 24 000 Hz.
    """
    if output.sample_rate is not None:
        return output.sample_rate
    rates = FORMATS[output.format].rates
    if not rates or sample_rate in rates:
        return sample_rate
    return min((rate for rate in rates if rate > sample_rate), default=rates[-1])


def ceiling(output: OutputConfig) -> float | None:
    """True peak in dBTP that brings the decoded file under `true_peak`; None: no ceiling."""
    if output.true_peak is None:
        return None
    return output.true_peak - OVERSHOOT.get(output.encoding or output.format, 0.0)


def subtype(output: OutputConfig) -> str:
    """libsndfile's name of the encoding; the format's default where none is given."""
    subtypes = FORMATS[output.format].subtypes
    default = next(iter(subtypes.values()))
    return default if output.encoding is None else subtypes[output.encoding]
