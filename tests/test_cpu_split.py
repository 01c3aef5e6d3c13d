"""Processes against threads, measured with real processes and the fake voice."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from batchtts import cpu_split as module
from batchtts import host
from batchtts.cpu_split import cpu_split, kept_split, measure
from batchtts.devices import CpuSplit
from batchtts.errors import DeviceError
from batchtts.models.base import Features, Item
from batchtts.models.fake import FakeFrontend
from batchtts.probe_cache import ProbeKey

KEY = ProbeKey(adapter="fake", fingerprint="1", precision="fp32")


@pytest.fixture
def features(monkeypatch: pytest.MonkeyPatch) -> list[Features]:
    """Texts for a voice that sleeps 10 ms a text: as if each process had a core of its own."""
    monkeypatch.setattr(module, "MEASURE_SECONDS", 0.3)
    monkeypatch.setattr(host, "cores", lambda: 2)
    monkeypatch.setenv("BATCHTTS_FAKE", json.dumps({"item_seconds": 0.01}))
    return [FakeFrontend().prepare(Item(text="a text to speak", voice="tone"))]


def test_the_better_way_is_kept(tmp_path: Path, features: list[Features]) -> None:
    lines: list[str] = []
    assert kept_split(KEY, tmp_path) is None
    best = cpu_split("fake:tone", features, KEY, tmp_path, lines.append)
    assert best == CpuSplit(processes=2, threads=1)
    assert kept_split(replace(KEY, threads=2, share=2), tmp_path) == best
    speeds = [float(line.split(": ")[1].removesuffix("x real time")) for line in lines]
    assert speeds[1] > 1.5 * speeds[0]


@pytest.mark.parametrize(("threads", "processes"), [(50.0, 2), (52.0, 2), (60.0, 1)])
def test_threads_must_be_clearly_faster(
    features: list[Features], monkeypatch: pytest.MonkeyPatch, threads: float, processes: int
) -> None:
    speeds = iter((threads, 50.0))
    monkeypatch.setattr(module, "measure", lambda *_: next(speeds))
    split = cpu_split("fake:tone", features, KEY, None, lambda _line: None)
    assert split.processes == processes


def test_one_core_needs_no_measurement(
    features: list[Features], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "cores", lambda: 1)
    split = cpu_split("no:voice", features, KEY, None, lambda _line: None)
    assert split == CpuSplit(processes=1, threads=1)


def test_a_process_that_ends_is_an_error(
    features: list[Features], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCHTTS_FAKE", json.dumps({"load_error": "no weights"}))
    with pytest.raises(DeviceError, match="ended while its speed was measured"):
        measure(CpuSplit(processes=1, threads=1), "fake:tone", "fp32", features)
    assert "no weights" in capfd.readouterr().err
