"""The layout as the design tells it: imports run down the data flow, and start-up loads nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "batchtts"
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("torch", "onnxruntime", "onnx", "ray", "soundfile", "transformers", "hibari", "numpy")
TORCH_AT_HOME = ("models", "devices", "meters")
"""Where torch may be imported; `meters` is the device side of the probe."""

LAYERS = """
data errors host lexicon markup models.base monitor normalise notebook pools pools.base \
    probe_cache times wav
asr batching devices durations encoding folder jsonline leases levels memory messages meters \
    models models.contract models.fake models.precisions models.transfer mos names progress readers stop storage \
    templates wer
bench configfile cpu_split doctor heard manifest models.hibari models.vits pools.actor \
    pools.local probe_runs seats summary
configcheck coordinator listening models.piper models.transformers_vits pools.ray shards
config options remote status
formats probe spec tables text
audio inputs probe_table
checks codec
measure output
exports filecheck places plan
audiocache merge prepare recorder verify voices
agenda assembly frontends infer reportdata solo
loader post preview report
worker
crew
run
cli
"""
"""Who may import whom: a module imports only from the lines above its own."""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Full names of everything that a module imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def layer_of(name: str) -> int | None:
    """The line of a module, or of the package that it is in."""
    lines = [line.split() for line in LAYERS.strip().splitlines()]
    while name:
        for number, line in enumerate(lines):
            if name in line:
                return number
        name = name.rpartition(".")[0]
    return None


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_down_the_data_flow(path: Path) -> None:
    name = name_of(path)
    if name in ("", "__main__"):
        return
    own = layer_of(name)
    assert own is not None, f"give {name} a place in LAYERS"
    for imported in imports(path):
        if not imported.startswith("batchtts."):
            continue
        other = imported.removeprefix("batchtts.")
        while other and not (PACKAGE / f"{other.replace('.', '/')}.py").exists():
            if (PACKAGE / other.replace(".", "/") / "__init__.py").exists():
                break
            other = other.rpartition(".")[0]
        layer = layer_of(other)
        assert layer is not None
        same_family = name.split(".")[0] == other.split(".")[0]
        assert layer < own or same_family, f"{name} may not import {other}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_torch_is_imported_only_at_home(path: Path) -> None:
    if name_of(path).split(".")[0] not in TORCH_AT_HOME:
        assert not {name for name in imports(path) if name.split(".")[0] == "torch"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_are_short(path: Path) -> None:
    most = 450 if path.name == "cli.py" else 350  # one thin function a command adds up
    assert len(path.read_text(encoding="utf-8").splitlines()) <= most


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


def test_the_command_line_loads_nothing_heavy() -> None:
    assert not loaded_by("import batchtts.cli") & set(HEAVY)


def test_a_run_loads_no_torch_in_the_parent() -> None:
    heavy = {"torch", "onnxruntime", "onnx", "ray"}
    code = "import batchtts.run\nfrom batchtts import models\nmodels.adapter('hibari').voices()"
    assert not loaded_by(code) & heavy


def test_a_worker_loads_torch_only_with_a_real_voice() -> None:
    code = "import batchtts.worker\nfrom batchtts import models\nmodels.adapter('fake')"
    assert not loaded_by(code) & {"torch", "onnxruntime", "onnx"}
