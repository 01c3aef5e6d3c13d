"""hibari: the embedded default voice, English, Apache-2.0, read from the package `hibari-tts`."""

import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from batchtts.errors import VoiceError
from batchtts.models.base import Frontend, Model, VoiceInfo
from batchtts.models.precisions import precisions

READING_VERSION = 1
"""Counts up when the reading of texts changes."""


class HibariAdapter:
    """Voices of hibari; "heart" is inside the package, the others are fetched at first use."""

    name = "hibari"
    weights_license = "Apache-2.0"

    def voices(self) -> Mapping[str, VoiceInfo]:
        """All voices of the installed hibari, by name."""
        return {name: _info(name, entry) for name, entry in _registry().items()}

    def voice(self, name: str) -> VoiceInfo:
        """Describe one voice.

        Raises:
            VoiceError: there is no such voice.
        """
        if name not in _registry():
            known = ", ".join(_registry())
            message = f"hibari has no voice {name!r}; there are: {known}"
            raise VoiceError(message)
        return self.voices()[name]

    def precisions(self, device: str) -> tuple[str, ...]:
        """Precisions of the text encoder's, the decoder's and the head's linear layers.

        All else is fp32 or fp64, the text encoder of the prosody included.
        """
        return precisions(device)

    def frontend(self, voice: str) -> Frontend:
        """The front end of a voice."""
        from batchtts.models.hibari.frontend import HibariFrontend

        self.voice(voice)
        return HibariFrontend(british=_registry()[voice]["british"])

    def load(self, voice: str, device: str, precision: str) -> Model:
        """Read the weights onto the device.

        Raises:
            VoiceError: the weights cannot be fetched or read.
        """
        from batchtts.models.hibari.model import HibariModel

        self.voice(voice)
        return HibariModel(_weights_file(voice), device, precision)


def _info(name: str, entry: Mapping[str, Any]) -> VoiceInfo:
    fetched = "" if entry.get("bundled") else ", downloaded where HF_HUB_OFFLINE=0"
    return VoiceInfo(
        name=name,
        languages=(entry["language"],),
        sample_rate=24_000,
        license="Apache-2.0",
        fingerprint=f"{entry['sha256'][:16]}-{version('hibari-tts')}-{READING_VERSION}",
        seconds_per_char=0.073,
        description=f"{entry['accent']} English, {entry['gender']}{fetched}",
    )


@cache
def _registry() -> dict[str, dict[str, Any]]:
    """hibari's list of voices, read without importing the package."""
    from batchtts.models.hibari.reading import hibari_assets

    entries: dict[str, dict[str, Any]] = json.loads(
        (hibari_assets() / "voices.json").read_text("utf-8")
    )
    return entries


def _weights_file(voice: str) -> Path:
    from hibari.voices import voice_path

    may_download = os.environ.get("HF_HUB_OFFLINE") == "0"
    try:
        return Path(voice_path(voice, download_missing=may_download))
    except FileNotFoundError as error:
        message = (
            f"the weights of hibari:{voice} are not on this machine: put them at {error}, or set "
            "HF_HUB_OFFLINE=0 to have them downloaded once"
        )
        raise VoiceError(message) from None
    except (RuntimeError, OSError) as error:
        message = f"the weights of hibari:{voice} cannot be fetched: {error}"
        raise VoiceError(message) from None


adapter = HibariAdapter()
