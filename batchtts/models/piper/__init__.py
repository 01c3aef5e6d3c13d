"""Piper voices: any .onnx with its .json, spoken by batchtts' own VITS instead of onnxruntime.

"piper:path/to/voice.onnx", or "piper:name" for one in a folder that BATCHTTS_VOICES names; either
with "#speaker", by name or number. Options: speaker, length_scale, noise_scale, noise_w,
sentence_silence (seconds between the sentences of one text).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from batchtts.errors import MissingExtraError
from batchtts.models.base import VoiceInfo
from batchtts.models.piper import espeak
from batchtts.models.piper.frontend import PiperFrontend
from batchtts.models.piper.voice import (
    PiperVoice,
    found_voices,
    json_of,
    license_of,
    read_voice,
)
from batchtts.models.precisions import precisions
from batchtts.models.vits.disk import digest, is_non_commercial

if TYPE_CHECKING:
    from batchtts.models.vits.model import VitsModel

_READING = 1
"""Counted up when the same text becomes other ids, or the same ids another sound."""


@dataclass(frozen=True)
class PiperAdapter:
    """See `batchtts.models.base.Adapter`."""

    name: str = "piper"
    weights_license: str = "per voice"

    def voices(self) -> Mapping[str, VoiceInfo]:
        """Voices in the folders that BATCHTTS_VOICES names; any other is named by its path."""
        return {name: _describe(name) for name in found_voices()}

    def voice(self, name: str) -> VoiceInfo:
        """See `batchtts.models.base.Adapter`; says at once when espeak-ng is missing."""
        if read_voice(name).phoneme_type == "espeak" and not find_spec("piper"):
            raise MissingExtraError(f"the Piper voice {name}, read by espeak-ng,", "piper")
        return _describe(name)

    def precisions(self, device: str) -> tuple[str, ...]:
        """See `batchtts.models.base.Adapter`."""
        return precisions(device)

    def frontend(self, voice: str) -> PiperFrontend:
        """See `batchtts.models.base.Adapter`."""
        known = read_voice(voice)
        if known.phoneme_type == "espeak":
            espeak.read(known.espeak_voice, "")  # a voice it does not have is said here, once
        return PiperFrontend(known)

    def load(self, voice: str, device: str, precision: str) -> "VitsModel":
        """See `batchtts.models.base.Adapter`."""
        from batchtts.models.piper import store
        from batchtts.models.vits.model import VitsModel
        from batchtts.models.vits.weights import check_tables

        known = read_voice(voice)
        tensors, geometry = store.load(known.path)
        num_symbols = 1 + max(max(ids, default=0) for ids in known.symbols.values())
        check_tables(tensors, num_symbols, known.num_speakers)
        return VitsModel(tensors, geometry, known.sample_rate, device, precision)


def _describe(name: str) -> VoiceInfo:
    """What the .json and the model card say; hashes the .onnx, once."""
    voice = read_voice(name)
    license_name = license_of(voice.path)
    speakers = f", {voice.num_speakers} speakers" if voice.num_speakers > 1 else ""
    return VoiceInfo(
        name=name,
        languages=(voice.language,) if voice.language else (),
        sample_rate=voice.sample_rate,
        license=license_name,
        fingerprint=_fingerprint(voice),
        description=f"Piper{speakers}",
        non_commercial=is_non_commercial(license_name),
    )


def _fingerprint(voice: PiperVoice) -> str:
    """Weights, .json, espeak-ng and our own reading; not the path."""
    reader = "none"
    if voice.phoneme_type == "espeak":
        try:
            reader = version("piper-tts")
        except PackageNotFoundError:
            reader = "missing"
    parts = [digest(voice.path), digest(json_of(voice.path)), reader, str(_READING)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


adapter: Any = PiperAdapter()
