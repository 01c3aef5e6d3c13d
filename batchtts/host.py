"""What this process may use of the machine: cores and memory, as the kernel and its groups say."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
TOPOLOGY = Path("/sys/devices/system/cpu")


def cores() -> int:
    """Physical cores that this process may use: affinity, hyper-threads and quota counted."""
    allowed = os.sched_getaffinity(0)
    physical = {_siblings(cpu) for cpu in allowed}
    return max(1, int(min([len(physical), *_quotas()])))


def available_memory() -> int:
    """Bytes that this process could still take without swapping or being killed."""
    available = _kilobytes(PROC / "meminfo", "MemAvailable")
    return max(0, min([available, *_group_memory()]))


@cache
def has_bf16_tiles() -> bool:
    """Whether the CPU multiplies bf16 in tiles (Intel AMX), as far as Linux tells."""
    try:
        return " amx_bf16" in (PROC / "cpuinfo").read_text("ascii", "replace")
    except OSError:
        return False


def resident() -> int:
    """Bytes of memory that this process holds."""
    return _kilobytes(PROC / "self/status", "VmRSS")


def peak_resident() -> int:
    """Most bytes that this process held since `reset_peak_resident`."""
    return _kilobytes(PROC / "self/status", "VmHWM")


def reset_peak_resident() -> None:
    """Start the peak anew; where the kernel refuses, the peak is that of the whole life."""
    try:
        (PROC / "self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def cpu_name() -> str:
    """Name of the processor; "cpu" where the kernel does not tell."""
    found = re.search(r"model name\s*: (.+)", _read(PROC / "cpuinfo"))
    return found[1].strip() if found else "cpu"


def _siblings(cpu: int) -> str:
    return _read(TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").strip() or str(cpu)


def _quotas() -> Iterator[float]:
    """Cores' worth of time that the control groups allow (version 2, then 1)."""
    for folder in _groups(""):
        quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)
    for folder in _groups("cpu"):
        quota = _read(folder / "cpu.cfs_quota_us").strip()
        period = _read(folder / "cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def _group_memory() -> Iterator[int]:
    """Bytes left in the control groups; cached files can be dropped, so they count as free."""
    for folder in _groups(""):
        yield from _left(folder, "memory.max", "memory.current", "inactive_file")
    for folder in _groups("memory"):
        names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        yield from _left(folder, *names)


def _left(folder: Path, limit: str, usage: str, cached: str) -> Iterator[int]:
    most, used = _read(folder / limit).strip(), _read(folder / usage).strip()
    if most.isdigit() and used.isdigit():
        found = re.search(rf"^{cached} (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
        yield int(most) - int(used) + (int(found[1]) if found else 0)


def _groups(controller: str) -> Iterator[Path]:
    """Folders of this process's control group and of those around it."""
    root = CGROUP / controller
    for line in _read(PROC / "self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            own = root / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(root))


def _kilobytes(file: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _read(file), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
