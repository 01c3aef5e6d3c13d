"""What the probe measures with: peak memory of a worker, and a clock that waits for its device."""

import gc
import os
import time
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Protocol

from batchtts import host


class Clock(Protocol):
    """Time that counts work, not the starting of work."""

    def now(self) -> float:
        """Seconds, read after all that was started on the device has ended."""
        ...


class MemoryMeter(Protocol):
    """Peak memory of one worker on one device."""

    exact: bool
    """Peaks are exact and a batch that is too large raises; neither is so on a CPU."""

    def identity(self) -> dict[str, str]:
        """What makes devices behave the same: name, memory, versions, settings."""
        ...

    def guard(self) -> None:
        """Make too large a batch fail in this worker, instead of taking memory from others."""
        ...

    def capacity(self) -> int:
        """Bytes that this worker may reach now, those it holds included."""
        ...

    def reset(self) -> None:
        """Start the peaks anew."""
        ...

    def peak(self) -> int:
        """Most bytes in use since `reset`."""
        ...

    def reserved(self) -> int:
        """Most bytes held since `reset`, idle pieces included."""
        ...

    def free(self) -> None:
        """Give idle memory back."""
        ...


def for_device(device: str, share: int) -> tuple[MemoryMeter, Clock]:
    """Meter and clock of a device that `share` workers divide among them."""
    if device == "cpu":
        return CpuMeter(share), WallClock()
    return CudaMeter(device, share), CudaClock(device)


def uuid(device: str) -> str:
    """The UUID of a GPU, as CUDA gives it; empty for the CPU."""
    if not device.startswith("cuda"):
        return ""
    import torch

    return str(torch.cuda.get_device_properties(device).uuid)


class WallClock:
    """For a device whose calls return when the work is done."""

    def now(self) -> float:
        """See `Clock`."""
        return time.perf_counter()


class CudaClock:
    """For CUDA, whose calls return at once."""

    def __init__(self, device: str) -> None:
        self._device = device

    def now(self) -> float:
        """See `Clock`."""
        import torch

        torch.cuda.synchronize(self._device)
        return time.perf_counter()


class CpuMeter:
    """The process's resident memory: rough, since the allocator keeps what was freed."""

    exact = False
    SHARE_OF_FREE = 0.6
    """Part of the machine's free memory that all workers together may take."""

    def __init__(self, share: int) -> None:
        self._share = share

    def identity(self) -> dict[str, str]:
        """See `MemoryMeter`."""
        return {"name": host.cpu_name(), "cores": str(host.cores()), "torch": version("torch")}

    def guard(self) -> None:
        """Nothing guards the memory of a CPU: the host kills who takes too much."""

    def capacity(self) -> int:
        """See `MemoryMeter`."""
        return host.resident() + int(self.SHARE_OF_FREE * host.available_memory() / self._share)

    def reset(self) -> None:
        """See `MemoryMeter`."""
        host.reset_peak_resident()

    def peak(self) -> int:
        """See `MemoryMeter`."""
        return host.peak_resident()

    def reserved(self) -> int:
        """See `MemoryMeter`."""
        return host.peak_resident()

    def free(self) -> None:
        """See `MemoryMeter`."""
        gc.collect()


class CudaMeter:
    """The caching allocator of torch."""

    exact = True
    GUARD = 0.97
    """Part of the capacity at which the allocator refuses: before the driver would."""

    def __init__(self, device: str, share: int, fraction: float = 0.92) -> None:
        """`fraction` of the device's memory is the most that all workers together may take."""
        self._device = device
        self._share = share
        self._fraction = fraction

    def identity(self) -> dict[str, str]:
        """See `MemoryMeter`."""
        import torch

        device = torch.cuda.get_device_properties(self._device)
        return {
            "name": device.name,
            "capability": f"{device.major}.{device.minor}",
            "memory": str(device.total_memory),
            "torch": torch.__version__,
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "benchmark": str(torch.backends.cudnn.benchmark),
            "allocator": os.environ.get("PYTORCH_ALLOC_CONF", "")
            or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        }

    def guard(self) -> None:
        """See `MemoryMeter`."""
        import torch

        _, total = torch.cuda.mem_get_info(self._device)
        torch.cuda.set_per_process_memory_fraction(
            self.GUARD * self.capacity() / total, self._device
        )

    def capacity(self) -> int:
        """See `MemoryMeter`."""
        import torch

        free, total = torch.cuda.mem_get_info(self._device)
        own = torch.cuda.memory_reserved(self._device)
        return int(min(free + own, self._fraction * total) / self._share)

    def reset(self) -> None:
        """See `MemoryMeter`."""
        import torch

        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        """See `MemoryMeter`."""
        return self._statistic("max_memory_allocated")

    def reserved(self) -> int:
        """See `MemoryMeter`."""
        return self._statistic("max_memory_reserved")

    def _statistic(self, name: str) -> int:
        import torch

        torch.cuda.synchronize(self._device)
        bytes_: Any = getattr(torch.cuda, name)(self._device)
        return int(bytes_)

    def free(self) -> None:
        """See `MemoryMeter`."""
        import torch

        gc.collect()
        with suppress(RuntimeError):  # even this can run out of memory
            torch.cuda.empty_cache()
