"""How loaded the GPUs are, sampled beside a run through NVML (extra "monitor").

Where NVML or one of its figures is missing, that figure is absent; it is never an error.
"Busy" is NVML's utilisation: the share of time in which any kernel ran, be it on one multiprocessor
of a hundred. SM utilisation says how many were busy; NVML has it on Hopper and later.
"""

import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from types import ModuleType, TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLoad:
    """One device at one moment; None where the device does not tell."""

    device: str
    """The slot's label."""
    busy: float | None = None
    """Share of the last moment in which any kernel ran, 0 to 1."""
    sm: float | None = None
    """Share of the multiprocessors that were busy since the last sample, 0 to 1."""
    memory: int | None = None
    """Bytes in use, by all processes."""
    power: float | None = None
    """Watts."""
    energy: float | None = None
    """Joules since the device was first seen."""

    def __str__(self) -> str:
        parts = (
            f"{self.busy:.0%} busy" if self.busy is not None else "busy n/a",
            f"SM {self.sm:.0%}" if self.sm is not None else "",
            f"{self.memory / GIB:.1f} GiB" if self.memory is not None else "",
            f"{self.power:.0f} W" if self.power is not None else "",
        )
        return f"{self.device}: {', '.join(filter(None, parts))}"


@dataclass(slots=True)
class _Watched:
    """A device under observation."""

    label: str
    handle: object
    first_energy: float | None
    gpm: object = None
    """The last GPM sample; None where there is no GPM."""
    loads: list[DeviceLoad] = field(default_factory=list)


class Monitor:
    """A thread that samples the watched devices once a second, for as long as it is entered."""

    def __init__(self, interval: float = 1.0, module: str = "pynvml") -> None:
        self._interval = interval
        self._nvml = _load(module)
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def __enter__(self) -> Self:
        if self._nvml:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._nvml:
            self._thread.join()
            self._ask(lambda nvml: nvml.nvmlShutdown())

    def watch(self, label: str, uuid: str) -> None:
        """Watch the device with this UUID, as CUDA gives it; "" is no GPU.

        NVML's own numbers ignore CUDA_VISIBLE_DEVICES, so only the UUID says which device it is.
        """
        if not self._nvml or not uuid or label in self._watched:
            return
        handle = self._handle(f"GPU-{uuid}") or self._handle(f"MIG-{uuid}") or self._handle(uuid)
        if handle is not None:
            entry = _Watched(label, handle, self._energy(handle), self._gpm_sample(handle))
            with self._lock:
                self._watched[label] = entry

    def latest(self) -> list[DeviceLoad]:
        """The last sample of each device that has one."""
        with self._lock:
            return [entry.loads[-1] for entry in self._watched.values() if entry.loads]

    def summary(self) -> dict[str, dict[str, float]]:
        """Device -> means, the most memory in bytes, and energy in joules, where known."""
        with self._lock:
            return {
                label: _means(entry.loads) for label, entry in self._watched.items() if entry.loads
            }

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            with self._lock:
                entries = list(self._watched.values())
            for entry in entries:
                load = self._sample(entry)
                with self._lock:
                    entry.loads.append(load)

    def _sample(self, entry: _Watched) -> DeviceLoad:
        handle = entry.handle
        rates = self._ask(lambda nvml: nvml.nvmlDeviceGetUtilizationRates(handle))
        memory = self._ask(lambda nvml: nvml.nvmlDeviceGetMemoryInfo(handle))
        power = self._ask(lambda nvml: nvml.nvmlDeviceGetPowerUsage(handle))
        energy = self._energy(handle)
        first = entry.first_energy
        return DeviceLoad(
            device=entry.label,
            busy=None if rates is None else rates.gpu / 100,
            sm=self._sm(entry),
            memory=None if memory is None else memory.used,
            power=None if power is None else power / 1000,
            energy=None if energy is None or first is None else energy - first,
        )

    def _handle(self, uuid: str) -> object:
        return self._ask(lambda nvml: nvml.nvmlDeviceGetHandleByUUID(uuid))

    def _energy(self, handle: object) -> float | None:
        millijoules = self._ask(lambda nvml: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        return None if millijoules is None else millijoules / 1000

    def _sm(self, entry: _Watched) -> float | None:
        """Multiprocessors busy between the last sample and a new one."""
        before, now = entry.gpm, self._gpm_sample(entry.handle)
        if before is None or now is None:
            return None

        def measure(nvml: ModuleType) -> float:
            query = nvml.c_nvmlGpmMetricsGet_t()
            query.version = nvml.NVML_GPM_METRICS_GET_VERSION
            query.numMetrics = 1
            query.sample1, query.sample2 = before, now
            query.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
            return float(nvml.nvmlGpmMetricsGet(query).metrics[0].value) / 100

        share = self._ask(measure)
        self._ask(lambda nvml: nvml.nvmlGpmSampleFree(before))
        entry.gpm = now
        return share

    def _gpm_sample(self, handle: object) -> object:
        support = self._ask(lambda nvml: nvml.nvmlGpmQueryDeviceSupport(handle))
        if support is None or not support.isSupportedDevice:
            return None
        return self._ask(lambda nvml: nvml.nvmlGpmSampleGet(handle, nvml.nvmlGpmSampleAlloc()))

    def _ask(self, question: Callable[[ModuleType], T]) -> T | None:
        """The answer, or None where the driver, the device or this pynvml has none to give."""
        if self._nvml is None:
            return None
        try:
            return question(self._nvml)
        except Exception:  # noqa: BLE001  no figure is worth a run
            return None


def _load(module: str) -> ModuleType | None:
    """NVML, ready to be asked; None where it is not installed or has no driver."""
    try:
        nvml = importlib.import_module(module)
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def _means(loads: list[DeviceLoad]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in ("busy", "sm", "power"):
        seen = [value for load in loads if (value := getattr(load, name)) is not None]
        if seen:
            found[name] = round(fmean(seen), 4)
    memory = [load.memory for load in loads if load.memory is not None]
    if memory:
        found["max_memory"] = max(memory)
    if (energy := loads[-1].energy) is not None:
        found["energy"] = round(energy, 1)
    return found
