"""Which devices there are, and the slots of the workers that shall use them.

No CUDA context is made here and torch is not imported: a GPU is counted by torch in a short
process of its own, and only on a machine that has a driver. Each worker of a GPU gets one entry of
CUDA_VISIBLE_DEVICES as its own variable and uses "cuda:0", so that it cannot touch another GPU, by
accident or by a library that takes the first one. Entries are taken by their place and never read
as numbers: schedulers hand out UUIDs of GPUs and of MIG slices too.
"""

import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from batchtts import host
from batchtts.errors import DeviceError, UsageError

log = logging.getLogger(__name__)

DRIVER_FILES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
"""Where one of these is, CUDA is plausible; the last one is Windows' Linux."""
CPU_WORKER_BYTES = 2**30
"""What a worker on the CPU is reckoned to need: torch, the weights and a batch."""
COUNT_GPUS = """
import torch
print(torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.__version__)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one worker."""

    device: str
    """As the worker sees it: "cuda:0" or "cpu"."""
    label: str
    """As the user knows it, unique in a run: "cuda:2", or "cpu/1" and "cpu/2" for twins."""
    env: Mapping[str, str]
    """Environment variables that must be set before the worker imports torch."""
    threads: int
    """CPU threads that the worker may use."""
    share: int
    """Number of workers on this device: its memory is divided among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSplit:
    """How the cores of a machine without GPU are best used; measured by the probe."""

    processes: int
    threads: int
    """Per process."""


def slots(spec: str, split: CpuSplit | None = None) -> list[Slot]:
    """The slots that `devices:` asks for.

    Args:
        spec: "auto", or a list such as "cuda", "cuda:0,cuda:2", "cpu,cpu". "auto" takes every GPU
            and, where there is none, the CPU: a worker per physical core.
        split: for "auto" on a CPU: the split that was measured to be the best.

    Raises:
        UsageError: the list names something that is no device.
        DeviceError: a GPU is asked for that is not there.
    """
    names = [name.strip() for name in spec.split(",")]
    if names == ["auto"]:
        names = _all_gpus(required=False)
        if not names:
            split = split or _default_split()
            return _make(["cpu"] * split.processes, split.threads)
    elif "cuda" in names:
        place = names.index("cuda")
        names[place : place + 1] = _all_gpus(required=True)
    for name in names:
        _check(name, spec)
    return _make(names, max(1, host.cores() // len(names)))


def _make(names: list[str], threads: int) -> list[Slot]:
    total, seen = Counter(names), Counter[str]()
    made = []
    for name in names:
        seen[name] += 1
        twin = f"/{seen[name]}" if total[name] > 1 else ""
        made.append(
            Slot(
                device="cpu" if name == "cpu" else "cuda:0",
                label=name + twin,
                env=_thread_env(threads) | _device_env(name),
                threads=threads,
                share=total[name],
            )
        )
    return made


def _thread_env(threads: int) -> dict[str, str]:
    """So many threads, which sleep at a barrier: spinning there takes the cores of the others."""
    policy = os.environ.get("OMP_WAIT_POLICY", "passive")
    return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": policy}


def _device_env(name: str) -> dict[str, str]:
    if name == "cpu":
        return {"CUDA_VISIBLE_DEVICES": ""}
    number = int(name.removeprefix("cuda:"))
    entries = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = os.environ.get("CUDA_VISIBLE_DEVICES") is not None
    visible = entries[number].strip() if named else str(number)
    return {"CUDA_VISIBLE_DEVICES": visible} | allocator_env()


def allocator_env() -> dict[str, str]:
    """How torch shall hold GPU memory, unless the user has said so.

    Batches of ever new lengths leave holes in fixed segments (C85). Growing ones are safe, since no
    tensor ever goes from one process to another.
    """
    if "PYTORCH_ALLOC_CONF" in os.environ or "PYTORCH_CUDA_ALLOC_CONF" in os.environ:
        return {}
    return {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def _default_split() -> CpuSplit:
    """One worker per core: on a CPU, processes scale better than threads."""
    cores = host.cores()
    processes = max(1, min(cores, host.available_memory() // CPU_WORKER_BYTES))
    return CpuSplit(processes=processes, threads=max(1, cores // processes))


def _check(name: str, spec: str) -> None:
    if name == "cpu":
        return
    if not re.fullmatch(r"cuda:\d+", name):
        message = (
            f"devices: {spec!r}: {name!r} is no device; valid are auto, cpu, cuda, cuda:0 or a list "
            "such as cuda:0,cuda:2 or cpu,cpu"
        )
        raise UsageError(message)
    gpus = _all_gpus(required=True)
    if name not in gpus:
        message = f"devices: {spec!r}: there is no {name}, only {', '.join(gpus)}; {_variable()}"
        raise DeviceError(message)


def _all_gpus(*, required: bool) -> list[str]:
    num, why_none = gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))
    if num == 0 and required:
        message = f"a GPU was asked for, but {why_none}; {_variable()}; --devices cpu does without"
        raise DeviceError(message)
    if num == 0 and has_driver():
        log.warning("no GPU can be used, taking the CPU: %s; %s", why_none, _variable())
    return [f"cuda:{number}" for number in range(num)]


def _variable() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return "CUDA_VISIBLE_DEVICES is not set"
    return f"CUDA_VISIBLE_DEVICES is {visible!r}"


def has_driver() -> bool:
    """Whether this machine has a driver for NVIDIA GPUs."""
    return any(Path(file).exists() for file in DRIVER_FILES)


@cache
def gpus(visible: str | None) -> tuple[int, str]:
    """Number of GPUs that torch can use with this CUDA_VISIBLE_DEVICES, and why there are none."""
    if not has_driver():
        return 0, "this machine has no NVIDIA driver"
    env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    if visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible
    command = [sys.executable, "-W", "ignore", "-c", COUNT_GPUS]
    try:
        answer = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, check=True
        )
        num, version = answer.stdout.split()
        return int(num), f"torch {version} finds none that it can use"
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return 0, f"torch could not be asked for GPUs: {error}"


def uuid(device: str) -> str:
    """UUID of a worker's device, by which the monitor knows it; "" for a CPU. Imports torch."""
    if device == "cpu":
        return ""
    import torch

    return str(torch.cuda.get_device_properties(device).uuid)
