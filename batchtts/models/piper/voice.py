"""A Piper voice on disk: an .onnx and its .json, found by path or by name, checked with care."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchtts.errors import VoiceError
from batchtts.models.vits.disk import FOLDERS, voice_folders

PHONEME_TYPES = ("espeak", "text")
BLANK, START, END = "_", "^", "$"


@dataclass(frozen=True, slots=True, kw_only=True)
class PiperVoice:
    """What the .json says; picklable."""

    path: Path
    """The .onnx file."""
    sample_rate: int
    """Hz."""
    phoneme_type: str
    """One of `PHONEME_TYPES`."""
    espeak_voice: str
    language: str
    """Tag such as "en-US"."""
    symbols: Mapping[str, tuple[int, ...]]
    """Symbol -> ids."""
    clusters: frozenset[tuple[str, ...]]
    """Runs of symbols that stand for one."""
    speakers: Mapping[str, int]
    """Speaker's name -> row of the speaker table."""
    num_speakers: int
    speaker: int
    """The speaker that the name asks for, or the voice's own."""
    length_scale: float
    noise_scale: float
    noise_w: float


def find(name: str) -> Path:
    """The .onnx of a voice's name: a path, or the name of a file in the folders.

    Raises:
        VoiceError: there is none.
    """
    if name.endswith(".onnx"):
        path = Path(name).expanduser()
        if path.is_file():
            return path
        message = f"there is no file {name}: a Piper voice is named by the path of its .onnx"
        raise VoiceError(message)
    found = found_voices()
    if name in found:
        return found[name]
    known = ", ".join(found) or f"none: {FOLDERS} names no folder with voices"
    message = f"no Piper voice is called {name!r}; by name there are: {known}; or give its .onnx"
    raise VoiceError(message)


def found_voices() -> dict[str, Path]:
    """Voices in the folders that BATCHTTS_VOICES names, by file name; the first of a name wins."""
    found: dict[str, Path] = {}
    for folder in voice_folders():
        for path in sorted(folder.rglob("*.onnx")):
            if json_of(path).is_file():
                found.setdefault(path.stem, path)
    return found


def json_of(path: Path) -> Path:
    """The .json that belongs to an .onnx."""
    return path.with_name(f"{path.name}.json")


def split_speaker(name: str) -> tuple[str, str]:
    """Split "voice.onnx#speaker" into the voice and the speaker, which may be missing."""
    if name.endswith(".onnx"):
        return name, ""
    base, _, speaker = name.rpartition("#")
    return (base, speaker) if base else (name, "")


def read_voice(name: str) -> PiperVoice:
    """Read the .json of the voice of this name.

    Raises:
        VoiceError: there is no such voice or speaker, or its .json is missing or wrong.
    """
    base, speaker = split_speaker(name)
    path = find(base)
    config = json_of(path)
    try:
        content = json.loads(config.read_text(encoding="utf-8"))
        voice = _parsed(path, content)
    except FileNotFoundError as error:
        message = f"{config} is missing: every Piper voice has two files, put it beside the .onnx"
        raise VoiceError(message) from error
    except (ValueError, OSError) as error:
        message = f"{config}: not the .json of a Piper voice: {error}"
        raise VoiceError(message) from error
    except (KeyError, TypeError, AttributeError) as error:
        message = f"{config}: not the .json of a Piper voice: missing or wrong: {error}"
        raise VoiceError(message) from error
    return replace(voice, speaker=speaker_id(voice, speaker)) if speaker else voice


def _parsed(path: Path, content: Mapping[str, Any]) -> PiperVoice:
    kind = str(content.get("phoneme_type", "espeak"))
    if kind not in PHONEME_TYPES:
        known = ", ".join(PHONEME_TYPES)
        message = f"{path}: phoneme type {kind!r} is not supported; supported: {known}"
        raise VoiceError(message)
    inference = content.get("inference", {})
    espeak_voice = str(content["espeak"]["voice"]) if kind == "espeak" else ""
    symbols = {symbol: tuple(map(int, ids)) for symbol, ids in content["phoneme_id_map"].items()}
    missing = [symbol for symbol in (BLANK, START, END) if symbol not in symbols]
    if missing:
        raise KeyError(f"phoneme_id_map without {' '.join(missing)}")
    return PiperVoice(
        path=path,
        sample_rate=int(content["audio"]["sample_rate"]),
        phoneme_type=kind,
        espeak_voice=espeak_voice,
        language=_language(content, espeak_voice),
        symbols=symbols,
        clusters=frozenset(map(tuple, content.get("vowel_clusters") or ())),
        speakers=dict(content.get("speaker_id_map") or {}),
        num_speakers=int(content.get("num_speakers", 1)),
        speaker=int(content.get("default_speaker_id", 0)),
        length_scale=float(inference.get("length_scale", 1.0)),
        noise_scale=float(inference.get("noise_scale", 0.667)),
        noise_w=float(inference.get("noise_w", 0.8)),
    )


def _language(content: Mapping[str, Any], espeak_voice: str) -> str:
    """ "en_US" or "en-us" -> "en-US"."""
    code = str(content.get("language", {}).get("code") or espeak_voice).replace("_", "-")
    language, dash, region = code.partition("-")
    return language + dash + (region.upper() if len(region) == 2 else region)


def speaker_id(voice: PiperVoice, speaker: str | int) -> int:
    """The row of a speaker, who is named or numbered.

    Raises:
        VoiceError: the voice has no such speaker.
    """
    if speaker in voice.speakers:
        return voice.speakers[str(speaker)]
    if re.fullmatch(r"\d+", str(speaker)) and int(speaker) < voice.num_speakers:
        return int(speaker)
    names = ", ".join(list(voice.speakers)[:20])
    known = f"0 to {voice.num_speakers - 1}" + (f", or by name: {names}" if names else "")
    message = f"{voice.path.name} has no speaker {speaker!r}; there are: {known}"
    raise VoiceError(message)


def license_of(path: Path) -> str:
    """The licence that the model card beside the voice names, "unknown" without one."""
    card = path.with_name("MODEL_CARD")
    if card.is_file():
        match = re.search(
            r"^\W*licen[cs]e\W*:\s*(.+?)\s*$",
            card.read_text(errors="replace"),
            re.IGNORECASE | re.MULTILINE,
        )
        if match:
            return match[1]
    return "unknown"
