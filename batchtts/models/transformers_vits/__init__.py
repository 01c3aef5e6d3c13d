"""Hugging Face `VitsModel` checkpoints, MMS among them, in batchtts' own masked VITS.

"transformers:path/to/folder", or "transformers:facebook/mms-tts-kor" for one that is in the local
Hugging Face cache. The library transformers is not needed: config, vocabulary and weights are read
as they lie.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchtts.models.base import VoiceInfo
from batchtts.models.precisions import precisions
from batchtts.models.transformers_vits.checkpoint import (
    CONFIG,
    FILES,
    Checkpoint,
    read_checkpoint,
)
from batchtts.models.transformers_vits.frontend import CharacterFrontend
from batchtts.models.vits.disk import digest, is_non_commercial, voice_folders

if TYPE_CHECKING:
    from batchtts.models.vits.model import VitsModel

_READING = 1
"""Counted up when the same text becomes other ids, or the same ids another sound."""


@dataclass(frozen=True)
class TransformersAdapter:
    """See `batchtts.models.base.Adapter`."""

    name: str = "transformers"
    weights_license: str = "per voice"

    def voices(self) -> Mapping[str, VoiceInfo]:
        """Checkpoints in the folders that BATCHTTS_VOICES names; any other is named by its path."""
        found: dict[str, VoiceInfo] = {}
        for folder in voice_folders():
            for config in sorted(folder.glob(f"*/{CONFIG}")):
                if json.loads(config.read_text(encoding="utf-8")).get("model_type") == "vits":
                    name = config.parent.name
                    found[name] = self.voice(name)
        return found

    def voice(self, name: str) -> VoiceInfo:
        """See `batchtts.models.base.Adapter`."""
        checkpoint = read_checkpoint(name)
        license_name = _license(checkpoint)
        language = checkpoint.tokenizer.get("language")
        files = " ".join(digest(checkpoint.folder / file) for file in FILES)
        return VoiceInfo(
            name=name,
            languages=(language,) if language else (),
            sample_rate=checkpoint.config["sampling_rate"],
            license=license_name,
            fingerprint=hashlib.sha256(f"{files} {_READING}".encode()).hexdigest()[:16],
            description="Hugging Face VITS" + ", romanised" * checkpoint.is_romanised,
            non_commercial=is_non_commercial(license_name),
        )

    def precisions(self, device: str) -> tuple[str, ...]:
        """See `batchtts.models.base.Adapter`."""
        return precisions(device)

    def frontend(self, voice: str) -> CharacterFrontend:
        """See `batchtts.models.base.Adapter`."""
        return CharacterFrontend(read_checkpoint(voice))

    def load(self, voice: str, device: str, precision: str) -> "VitsModel":
        """See `batchtts.models.base.Adapter`."""
        from batchtts.models.transformers_vits.weights import read_weights
        from batchtts.models.vits.model import VitsModel
        from batchtts.models.vits.weights import check_tables

        checkpoint = read_checkpoint(voice)
        tensors, geometry = read_weights(checkpoint)
        num_symbols = 1 + max(checkpoint.vocabulary.values())
        check_tables(tensors, num_symbols, checkpoint.config.get("num_speakers", 1))
        rate = checkpoint.config["sampling_rate"]
        return VitsModel(tensors, geometry, rate, device, precision)


def _license(checkpoint: Checkpoint) -> str:
    """The licence on the model card; all of MMS is under one, card or no card."""
    card = checkpoint.folder / "README.md"
    if card.is_file():
        match = re.search(r"^license:\s*(\S+)", card.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match[1]
    return "CC-BY-NC-4.0" if "mms-tts" in str(checkpoint.folder) else "unknown"


adapter: Any = TransformersAdapter()
