"""What only a CUDA device can show: run with `make gpu`."""

import csv
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np
import pytest

from batchtts import devices, models, probe
from batchtts.batching import OutOfMemory, is_sticky, looks_like_oom, peak_bytes, run_splitting
from batchtts.config import BatchConfig
from batchtts.meters import CudaClock, CudaMeter
from batchtts.models.base import Features, Item, Model
from batchtts.monitor import Monitor
from batchtts.probe_cache import ProbeKey
from tests.bench.quality import log_mel_distance
from tests.conftest import ROOT

pytestmark = pytest.mark.gpu

DEVICE = "cuda:0"
MIB = 2**20


@pytest.fixture(scope="module")
def model() -> Model:
    return models.adapter("hibari").load("heart", DEVICE, "fp32")


@pytest.fixture(scope="module")
def features() -> list[Features]:
    frontend = models.adapter("hibari").frontend("heart")
    with (ROOT / "configs" / "demo.csv").open(encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    items = (
        Item(text=text, voice="heart", seed=n) for n, text in enumerate(islice(cycle(texts), 128))
    )
    return sorted(map(frontend.prepare, items), key=lambda f: f.size)


@pytest.fixture
def meter() -> Iterator[CudaMeter]:
    import torch

    meter = CudaMeter(DEVICE, 1)
    yield meter
    torch.cuda.set_per_process_memory_fraction(0.92, DEVICE)
    meter.free()


def cap(meter: CudaMeter, num_bytes: float) -> None:
    import torch

    total = torch.cuda.get_device_properties(DEVICE).total_memory
    meter.free()
    torch.cuda.set_per_process_memory_fraction(num_bytes / total, DEVICE)


def reserved_by(meter: CudaMeter, model: Model, batch: list[Features]) -> int:
    meter.free()
    meter.reset()
    model.synthesize(batch)
    return meter.reserved()


def test_the_memory_model_is_right_about_batches_it_has_not_seen(
    model: Model, features: list[Features], meter: CudaMeter
) -> None:
    key = ProbeKey(adapter="hibari", fingerprint="test", precision="fp32")
    clock = CudaClock(DEVICE)
    found = probe.find_limit(model, features, BatchConfig(), key, meter, clock, None, print)
    assert found.knee is not None
    assert not any(point.oom for point in found.points)
    assert found.limit.memory is not None
    for batch in (features[:24], features[-10:], features[40:88]):
        meter.reset()
        model.synthesize(batch)
        predicted = peak_bytes([f.size for f in batch], found.limit.memory, model.ragged)
        assert predicted == pytest.approx(meter.peak(), rel=0.25)


def test_out_of_memory_is_survived_and_the_audio_is_the_same(
    model: Model, features: list[Features], meter: CudaMeter
) -> None:
    """C78: all memory is back before the retry."""
    import torch

    batch = features[-64:]
    whole = model.synthesize(batch)
    half = reserved_by(meter, model, batch[:32])
    cap(meter, 1.1 * half)
    base = torch.cuda.memory_allocated(DEVICE)
    told: list[str] = []

    def free() -> None:
        meter.free()
        assert torch.cuda.memory_allocated(DEVICE) <= base + MIB

    meter.reset()
    audios = run_splitting(model.synthesize, batch, told.append, free)
    assert told
    assert meter.reserved() <= 1.1 * half
    for one, other in zip(whole, audios, strict=True):
        assert not isinstance(other, OutOfMemory)
        assert len(one.wave) == len(other.wave)
        assert log_mel_distance(one.wave, other.wave, model.sample_rate) < 0.01


def test_saw_tooth_lengths_near_the_limit_do_not_fragment_to_death(
    model: Model, features: list[Features], meter: CudaMeter
) -> None:
    """C85: batches of the longest and of the shortest in turns."""
    long, short = features[-16:], features[:16]
    cap(meter, 1.2 * reserved_by(meter, model, long))
    told: list[str] = []
    for number in range(60):
        batch = long if number % 2 == 0 else short
        audios = run_splitting(model.synthesize, batch, told.append, meter.free)
        assert not any(isinstance(audio, OutOfMemory) for audio in audios)
    assert len(told) <= 3


def test_memory_stays_flat_over_many_lengths(model: Model, features: list[Features]) -> None:
    """C84: nothing is kept from batch to batch."""
    import torch

    for number in range(0, 120, 4):
        model.synthesize(features[number : number + 8])
    allocated = torch.cuda.memory_allocated(DEVICE)
    reserved = torch.cuda.memory_reserved(DEVICE)
    for number in range(200):
        model.synthesize(features[number % 120 : number % 120 + 8])
    assert torch.cuda.memory_allocated(DEVICE) <= allocated + MIB
    assert torch.cuda.memory_reserved(DEVICE) <= 1.1 * reserved


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precision_sounds_the_same(
    precision: str, model: Model, features: list[Features]
) -> None:
    lower = models.adapter("hibari").load("heart", DEVICE, precision)
    assert lower.precision == precision
    batch = features[30:38]
    for one, other in zip(model.synthesize(batch), lower.synthesize(batch), strict=True):
        assert np.isfinite(other.wave).all()
        assert np.abs(other.wave).max() > 0.01
        assert log_mel_distance(one.wave, other.wave, model.sample_rate) < 0.1


def test_the_device_names_its_errors_as_expected() -> None:
    import torch

    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8, device=DEVICE)
    assert looks_like_oom(caught.value)
    assert not is_sticky(caught.value)


def test_a_poisoned_context_is_known_as_such() -> None:
    """C83, in a process of its own: an id out of range."""
    script = """
import torch
from batchtts.batching import is_sticky, looks_like_oom
table = torch.nn.Embedding(10, 4).to("cuda:0")
try:
    table(torch.tensor([10], device="cuda:0")).sum().item()
except RuntimeError as error:
    print(is_sticky(error), looks_like_oom(error))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "False"]


def test_slots_are_found_without_a_context_in_this_process() -> None:
    script = """
import sys
from batchtts.devices import slots
print(slots("auto")[0].label, "torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["cuda:0", "False"]


def test_a_worker_sees_only_the_device_of_its_slot() -> None:
    import torch

    for number, slot in enumerate(devices.slots("cuda")):
        script = "import torch; print(torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid)"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **slot.env},
            capture_output=True,
            text=True,
            check=True,
        )
        expected = torch.cuda.get_device_properties(number).uuid
        assert done.stdout.split() == ["1", str(expected)]


def test_the_monitor_sees_the_device_at_work(model: Model, features: list[Features]) -> None:
    pytest.importorskip("pynvml")
    with Monitor(interval=0.2) as monitor:
        monitor.watch(DEVICE, devices.uuid(DEVICE))
        for _ in range(200):
            model.synthesize(features[-32:])
            if any(load.busy for load in monitor.latest()):
                break
    summary = monitor.summary()[DEVICE]
    assert summary["busy"] > 0
    assert summary["max_memory"] > 0
