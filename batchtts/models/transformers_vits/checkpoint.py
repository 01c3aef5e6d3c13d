"""A Hugging Face VITS checkpoint on disk: found, read and checked; nothing is ever downloaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from batchtts.errors import MissingExtraError, VoiceError
from batchtts.models.vits.disk import voice_folders

CONFIG, VOCABULARY, TOKENIZER, WEIGHTS = FILES = (
    "config.json",
    "vocab.json",
    "tokenizer_config.json",
    "model.safetensors",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder and what its small files say; picklable."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    vocabulary: Mapping[str, int]

    @property
    def is_romanised(self) -> bool:
        """Whether it reads Latin letters, whatever its language is written in."""
        return bool(self.tokenizer.get("is_uroman"))


def read_checkpoint(name: str) -> Checkpoint:
    """Read the small files of a checkpoint.

    Raises:
        VoiceError: there is none, files are missing, or it is of a kind that batchtts cannot speak.
        MissingExtraError: it needs uroman, which is not installed.
    """
    folder = _find(name)
    missing = [file for file in FILES if not (folder / file).is_file()]
    if missing:
        message = f"{folder}: not a VITS checkpoint: {', '.join(missing)} missing"
        raise VoiceError(message)
    try:
        config, vocabulary, tokenizer = (
            json.loads((folder / file).read_text(encoding="utf-8"))
            for file in (CONFIG, VOCABULARY, TOKENIZER)
        )
    except ValueError as error:
        message = f"{folder}: not a VITS checkpoint: {error}"
        raise VoiceError(message) from error
    checkpoint = Checkpoint(
        name=name, folder=folder, config=config, tokenizer=tokenizer, vocabulary=vocabulary
    )
    _check(checkpoint)
    return checkpoint


def _find(name: str) -> Path:
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    for folder in voice_folders():
        if (folder / name / CONFIG).is_file():
            return folder / name
    if find_spec("huggingface_hub") and name.count("/") == 1:
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(name, CONFIG)
        if isinstance(config, str):
            return Path(config).parent
    message = (
        f"there is no folder {name!r}, and no checkpoint of this name in the Hugging Face cache; "
        f"fetch it first: pip install 'batchtts[transformers]' && hf download {name}"
    )
    raise VoiceError(message)


def _check(checkpoint: Checkpoint) -> None:
    """Refuse what would be spoken wrongly."""
    config = checkpoint.config
    strides = config.get("upsample_rates", [])
    expected: dict[str, Any] = {
        "model_type": "vits",
        "hidden_act": "relu",
        "use_stochastic_duration_prediction": True,
        "wavenet_dilation_rate": 1,
        "upsample_kernel_sizes": [2 * stride for stride in strides],
    }
    for key, value in expected.items():
        if config.get(key, value) != value:
            message = f"{checkpoint.folder}: {key} is {config[key]}, batchtts speaks only {value}"
            raise VoiceError(message)
    if checkpoint.tokenizer.get("phonemize", True):
        message = f"{checkpoint.folder}: its tokenizer wants phonemes, which is not supported"
        raise VoiceError(message)
    if checkpoint.is_romanised and not find_spec("uroman"):
        raise MissingExtraError(
            f"{checkpoint.name}, which reads Latin letters only,", "transformers"
        )
