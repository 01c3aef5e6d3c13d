"""Cores and memory, read from made-up /proc and control group files."""

import os
from pathlib import Path

import pytest

from batchtts import host

GIB = 2**30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four hyper-threads on two cores, 8 GiB free, no limits."""
    for name in ("PROC", "CGROUP", "TOPOLOGY"):
        monkeypatch.setattr(host, name, tmp_path / name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    for cpu in range(4):
        siblings = f"{cpu % 2},{cpu % 2 + 2}\n"
        write(tmp_path / f"TOPOLOGY/cpu{cpu}/topology/thread_siblings_list", siblings)
    write(tmp_path / "PROC/meminfo", f"MemTotal: 1 kB\nMemAvailable:   {8 * 2**20} kB\n")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_hyper_threads_are_one_core(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.cores() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1, 3})
    assert host.cores() == 1
    monkeypatch.setattr(host, "TOPOLOGY", machine / "nothing")
    assert host.cores() == 2


def test_quota_of_a_group_around_us_counts(machine: Path) -> None:
    write(machine / "PROC/self/cgroup", "0::/job/step\n")
    write(machine / "CGROUP/job/cpu.max", "150000 100000\n")
    write(machine / "CGROUP/job/step/cpu.max", "max 100000\n")
    assert host.cores() == 1


def test_quota_of_the_first_version(machine: Path) -> None:
    write(machine / "PROC/self/cgroup", "3:cpu,cpuacct:/job\n0::/\n")
    write(machine / "CGROUP/cpu/job/cpu.cfs_quota_us", "-1\n")
    write(machine / "CGROUP/cpu/job/cpu.cfs_period_us", "100000\n")
    assert host.cores() == 2
    write(machine / "CGROUP/cpu/job/cpu.cfs_quota_us", "50000\n")
    assert host.cores() == 1


def test_memory_is_the_least_of_machine_and_groups(machine: Path) -> None:
    assert host.available_memory() == 8 * GIB
    write(machine / "PROC/self/cgroup", "0::/job\n")
    write(machine / "CGROUP/job/memory.max", f"{4 * GIB}\n")
    write(machine / "CGROUP/job/memory.current", f"{3 * GIB}\n")
    assert host.available_memory() == GIB
    write(machine / "CGROUP/job/memory.stat", f"anon 5\ninactive_file {GIB}\n")
    assert host.available_memory() == 2 * GIB


def test_memory_of_a_group_of_the_first_version(machine: Path) -> None:
    write(machine / "PROC/self/cgroup", "4:memory:/job\n")
    write(machine / "CGROUP/memory/job/memory.limit_in_bytes", f"{2 * GIB}\n")
    write(machine / "CGROUP/memory/job/memory.usage_in_bytes", f"{3 * GIB}\n")
    assert host.available_memory() == 0


@pytest.mark.parametrize(
    ("flags", "expected"), [("flags : sse2 amx_bf16 amx_tile", True), ("flags : avx2", False)]
)
def test_bf16_tiles_are_a_flag_of_the_cpu(flags: str, expected: bool, machine: Path) -> None:
    write(machine / "PROC/cpuinfo", f"model name : Made-up\n{flags}\n")
    host.has_bf16_tiles.cache_clear()
    assert host.has_bf16_tiles() is expected
    host.has_bf16_tiles.cache_clear()


def test_a_kernel_that_tells_nothing_of_the_cpu_has_no_tiles(machine: Path) -> None:
    assert not (machine / "PROC/cpuinfo").exists()
    host.has_bf16_tiles.cache_clear()
    assert not host.has_bf16_tiles()
    host.has_bf16_tiles.cache_clear()


def test_the_peak_of_this_process_can_be_started_anew() -> None:
    ballast = b"\1" * (100 * 2**20)  # zeros would be no memory until somebody writes to them
    now = host.resident()  # first: it may still grow until the peak is read
    assert host.peak_resident() >= now >= len(ballast)
    before = host.peak_resident()
    del ballast
    host.reset_peak_resident()
    assert host.peak_resident() < before


def test_the_processor_has_a_name() -> None:
    assert host.cpu_name()
