"""Which adapters there are. A plug-in is one line here, or one entry point of its own package."""

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import cast

from batchtts.errors import ConfigError, VoiceError
from batchtts.models.base import Adapter

BUILT_IN = {
    "hibari": "batchtts.models.hibari:adapter",
    "fake": "batchtts.models.fake:adapter",
    "piper": "batchtts.models.piper:adapter",
    "transformers": "batchtts.models.transformers_vits:adapter",
}
"""Adapter name -> "module:object", imported only when used."""

ENTRY_POINTS = "batchtts.models"


@cache
def table() -> dict[str, str]:
    """All adapters, built in or installed as plug-ins, by name."""
    plugins = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    return plugins | BUILT_IN


@cache
def adapter(name: str) -> Adapter:
    """The adapter of this name.

    Raises:
        VoiceError: there is none; the message lists those there are.
    """
    if name not in table():
        known = ", ".join(sorted(table()))
        message = f"no model family is called {name!r}; there are: {known}"
        raise VoiceError(message)
    module, _, attribute = table()[name].partition(":")
    return cast("Adapter", getattr(importlib.import_module(module), attribute))


def precision(adapter: Adapter, device: str, wanted: str) -> str:
    """The precision to load with; "auto" is the adapter's own choice.

    Raises:
        ConfigError: it is not safe there; the message lists what is.
    """
    allowed = adapter.precisions(device)
    if wanted == "auto":
        return allowed[0]
    if wanted not in allowed:
        valid = ", ".join(("auto", *allowed))
        message = f"precision: {adapter.name} is not safe in {wanted} on {device}; valid: {valid}"
        raise ConfigError(message)
    return wanted


def split(voice: str) -> tuple[str, str]:
    """Split "hibari:heart" into adapter name and voice name.

    A path that ends in ".onnx" is a Piper voice; a bare name is looked for in every built-in family.

    Raises:
        VoiceError: no family has this voice.
    """
    family, colon, name = voice.partition(":")
    if colon and family in table():
        return family, name
    if voice.partition("#")[0].endswith(".onnx"):
        return "piper", voice
    owners = [family for family in BUILT_IN if voice in adapter(family).voices()]
    if len(owners) == 1:
        return owners[0], voice
    known = ", ".join(f"{f}:{v}" for f in BUILT_IN for v in adapter(f).voices())
    message = f"no voice is called {voice!r}; there are: {known}"
    raise VoiceError(message)
