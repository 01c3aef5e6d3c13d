"""A plug-in is a package of its own: installed, found, held to the contract, and used."""

import csv
import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from batchtts import manifest
from batchtts.models.base import Audio, Features, Item
from batchtts.models.contract import ContractError, check
from tests.conftest import ROOT

EXAMPLE = ROOT / "tests" / "models" / "plugin_example"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the example as an installer leaves it."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "batchtts_babble.py", folder)
    info = folder / f"batchtts_babble-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(
        "\n".join(
            line
            for group, points in project["entry-points"].items()
            for line in (f"[{group}]", *(f"{name} = {at}" for name, at in points.items()))
        )
    )
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    return subprocess.run(
        [sys.executable, "-m", "batchtts", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def babble(installed: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(installed))
    return importlib.import_module("batchtts_babble")


def test_its_voices_are_listed(installed: Path) -> None:
    listed = run(installed, "voices")
    assert listed.returncode == 0, listed.stderr
    assert "babble:deep" in listed.stdout
    assert "babble:bright" in listed.stdout


def test_it_keeps_the_contract(babble: ModuleType) -> None:
    check(babble.adapter, "deep")


def test_some_seeds_never_stop(babble: ModuleType) -> None:
    model = babble.adapter.load("deep", "cpu", "fp32")
    features = babble.adapter.frontend("deep").prepare(Item(text="Hi.", voice="deep"))
    audios = model.synthesize([replace(features, seed=seed) for seed in range(300)])
    ends = Counter(audio.finish for audio in audios)
    assert ends.keys() == {"ok", "limit"}
    assert ends["limit"] < 20


def test_a_run_with_it_speaks_runaways_again(installed: Path, tmp_path: Path) -> None:
    rows = [{"id": f"r{k:03}", "text": f"Row {k} is read."} for k in range(120)]
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "text"])
        writer.writeheader()
        writer.writerows(rows)
    out = tmp_path / "out"
    arguments = ["generate", str(tmp_path / "rows.csv"), "-o", str(out), "--voice", "babble:deep"]
    done = run(installed, *arguments, "--devices", "cpu", "--batch-size", "16", "--quiet")
    assert done.returncode == 0, done.stderr
    spoken = [record for record in manifest.read(out).values() if record.status == "ok"]
    assert [record.id for record in spoken] == [row["id"] for row in rows]
    assert max(record.attempts for record in spoken) > 1  # two in a hundred never stop
    assert max(record.duration for record in spoken) < 3


def _remember_neighbours(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    honest = module.BabbleModel.synthesize

    def synthesize(self: object, batch: Sequence[Features]) -> list[Audio]:
        longest = max(features.data for features in batch)  # as padding does
        return list(honest(self, [replace(features, data=longest) for features in batch]))

    patch.setattr(module.BabbleModel, "synthesize", synthesize)


def _ignore_seeds(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    honest = module.BabbleModel.synthesize

    def synthesize(self: object, batch: Sequence[Features]) -> list[Audio]:
        return list(honest(self, [replace(features, seed=1) for features in batch]))

    patch.setattr(module.BabbleModel, "synthesize", synthesize)


def _draw_from_one_generator(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    shared = np.random.default_rng(0)
    patch.setattr(module.np.random, "default_rng", lambda _seed: shared)


def _drop_in_silence(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    honest = module.BabbleFrontend.prepare

    def prepare(self: object, item: Item) -> Any:
        return honest(self, replace(item, text=item.text.encode("ascii", "ignore").decode()))

    patch.setattr(module.BabbleFrontend, "prepare", prepare)


def _shout(module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    honest = module.BabbleModel._step
    patch.setattr(module.BabbleModel, "_step", lambda *args: honest(*args) * 9)


@pytest.mark.parametrize(
    ("break_it", "clause"),
    [
        (_remember_neighbours, "lengths"),
        (_ignore_seeds, "other seed"),
        (_draw_from_one_generator, "same seed"),
        (_drop_in_silence, "unspeakable"),
        (_shout, "waveforms"),
    ],
)
def test_who_breaks_the_contract_is_told_which_clause(
    break_it: Callable[[ModuleType, pytest.MonkeyPatch], None],
    clause: str,
    babble: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_it(babble, monkeypatch)
    with pytest.raises(ContractError, match=f"^{clause}: ") as caught:
        check(babble.adapter, "deep")
    assert caught.value.clause == clause
