"""Meters: the CPU's for real, CUDA's on a made-up torch.cuda (the real one: test_gpu.py)."""

from types import SimpleNamespace
from typing import Any

import pytest

from batchtts import host
from batchtts.meters import CpuMeter, CudaClock, CudaMeter, WallClock, for_device

GIB = 2**30


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A made-up GPU of 80 GiB, of which 50 are free and 10 reserved by this process."""
    import torch

    seen: list[Any] = []
    fakes: dict[str, Any] = {
        "mem_get_info": lambda _device: (50 * GIB, 80 * GIB),
        "memory_reserved": lambda _device: 10 * GIB,
        "max_memory_allocated": lambda _device: 3 * GIB,
        "max_memory_reserved": lambda _device: 4 * GIB,
        "synchronize": lambda device: seen.append(("synchronize", device)),
        "reset_peak_memory_stats": lambda device: seen.append(("reset", device)),
        "set_per_process_memory_fraction": lambda *args: seen.append(("fraction", *args)),
        "empty_cache": lambda: seen.append(("empty_cache",)),
        "get_device_properties": lambda _device: SimpleNamespace(
            name="GPU", major=9, minor=0, total_memory=80 * GIB
        ),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return seen


def test_capacity_is_what_is_free_and_ours_divided_among_twins(calls: list[Any]) -> None:
    assert CudaMeter("cuda:0", 1).capacity() == 60 * GIB
    assert CudaMeter("cuda:0", 2).capacity() == 30 * GIB
    assert CudaMeter("cuda:0", 1, fraction=0.5).capacity() == 40 * GIB
    assert calls == []


def test_the_guard_refuses_before_the_driver_would(calls: list[Any]) -> None:
    CudaMeter("cuda:0", 2).guard()
    assert calls == [("fraction", pytest.approx(0.97 * 30 / 80), "cuda:0")]


def test_peaks_are_read_after_the_work_has_ended(calls: list[Any]) -> None:
    meter = CudaMeter("cuda:0", 1)
    meter.reset()
    assert (meter.peak(), meter.reserved()) == (3 * GIB, 4 * GIB)
    assert calls == [("synchronize", "cuda:0"), ("reset", "cuda:0")] + 2 * [
        ("synchronize", "cuda:0")
    ]


def test_the_clock_waits_for_the_device(calls: list[Any]) -> None:
    assert CudaClock("cuda:0").now() > 0
    assert calls == [("synchronize", "cuda:0")]


def test_freeing_never_fails(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    meter = CudaMeter("cuda:0", 1)
    meter.free()
    assert calls == [("empty_cache",)]

    def fail() -> None:
        message = "CUDA out of memory"
        raise RuntimeError(message)

    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    meter.free()


@pytest.mark.usefixtures("calls")
def test_identity_names_what_a_measurement_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = CudaMeter("cuda:0", 1).identity()
    assert {"name", "capability", "memory", "torch", "cuda", "cudnn", "benchmark"} <= set(before)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    assert CudaMeter("cuda:0", 1).identity() != before


def test_the_cpu_may_take_a_part_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 10 * GIB)
    monkeypatch.setattr(host, "resident", lambda: GIB)
    assert CpuMeter(1).capacity() == 7 * GIB
    assert CpuMeter(3).capacity() == 3 * GIB


def test_the_cpu_meter_sees_a_peak() -> None:
    meter = CpuMeter(1)
    meter.reset()
    before = meter.peak()
    ballast = bytearray(50 * 2**20)
    assert meter.peak() >= before + len(ballast) // 2
    assert meter.reserved() >= meter.peak() // 2
    meter.free()
    meter.guard()
    assert meter.identity()["torch"]


def test_each_kind_of_device_has_its_own() -> None:
    assert isinstance(for_device("cpu", 2)[0], CpuMeter)
    assert isinstance(for_device("cpu", 2)[1], WallClock)
    assert isinstance(for_device("cuda:0", 2)[0], CudaMeter)
    assert isinstance(for_device("cuda:0", 2)[1], CudaClock)
