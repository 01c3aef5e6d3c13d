"""The monitor on a made-up NVML, and where there is none."""

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from batchtts.monitor import DeviceLoad, Monitor

UUID = "11111111-2222-3333-4444-555555555555"


class NVMLError(Exception):
    """As pynvml's."""


class MetricsGet:
    """As pynvml's c_nvmlGpmMetricsGet_t."""

    def __init__(self) -> None:
        self.sample1 = self.sample2 = self.version = self.numMetrics = 0
        self.metrics = [SimpleNamespace(metricId=0, value=0.0)]


class Nvml(SimpleNamespace):
    """One GPU that counts its samples: busy 10 % more each time, 2 J more each time asked."""

    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL = 2
    NVMLError = NVMLError
    c_nvmlGpmMetricsGet_t = MetricsGet  # noqa: N815  its name

    def __init__(self, missing: tuple[str, ...] = (), kind: str = "GPU") -> None:
        super().__init__()
        self.asked, self.joules, self.freed = 0, 100, 0
        self.down, self.kind = False, kind
        self.missing = missing

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in super().__getattribute__("missing"):
            raise AttributeError(name)
        return super().__getattribute__(name)

    def nvmlInit(self) -> None:  # noqa: N802
        return

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.down = True

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid != f"{self.kind}-{UUID}":
            raise NVMLError(uuid)
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, _handle: str) -> SimpleNamespace:  # noqa: N802
        self.asked += 1
        return SimpleNamespace(gpu=min(100, 10 * self.asked))

    def nvmlDeviceGetMemoryInfo(self, _handle: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=self.asked * 2**30)

    def nvmlDeviceGetPowerUsage(self, _handle: str) -> int:  # noqa: N802
        return 350_000

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: str) -> int:  # noqa: N802
        self.joules += 2
        return self.joules * 1000

    def nvmlGpmQueryDeviceSupport(self, _handle: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(isSupportedDevice=1)

    def nvmlGpmSampleAlloc(self) -> list[int]:  # noqa: N802
        return []

    def nvmlGpmSampleGet(self, _handle: str, sample: list[int]) -> list[int]:  # noqa: N802
        sample.append(self.asked)
        return sample

    def nvmlGpmSampleFree(self, _sample: list[int]) -> None:  # noqa: N802
        self.freed += 1

    def nvmlGpmMetricsGet(self, query: MetricsGet) -> MetricsGet:  # noqa: N802
        assert (query.version, query.numMetrics, query.metrics[0].metricId) == (1, 1, 2)
        query.metrics[0].value = 42.0
        return query


def watched(monkeypatch: pytest.MonkeyPatch, nvml: Nvml, uuid: str = UUID) -> Monitor:
    """A monitor that has sampled at least three times, and ended."""
    monkeypatch.setitem(sys.modules, "made_up_nvml", nvml)
    with Monitor(interval=0.001, module="made_up_nvml") as monitor:
        monitor.watch("cuda:3", uuid)
        end = time.monotonic() + 5
        while nvml.asked < 3 and uuid == UUID and time.monotonic() < end:
            time.sleep(0.001)
    return monitor


def test_a_device_is_found_by_its_uuid_and_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    monitor = watched(monkeypatch, nvml)
    (load,) = monitor.latest()
    assert load.device == "cuda:3"
    assert load.busy is not None
    assert 0.3 <= load.busy <= 1
    assert (load.sm, load.power) == (0.42, 350)
    assert load.energy == 2 * nvml.asked
    assert load.memory == nvml.asked * 2**30
    assert nvml.freed == nvml.asked
    assert nvml.down
    summary = monitor.summary()["cuda:3"]
    assert 0.1 < summary["busy"] <= load.busy
    assert summary["max_memory"] == load.memory
    assert summary["energy"] == load.energy
    assert str(load).startswith("cuda:3: ")
    assert "SM 42%" in str(load)


def test_a_mig_slice_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, Nvml(kind="MIG")).latest()


def test_figures_that_a_device_does_not_tell_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = (
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetMemoryInfo",
    )
    monitor = watched(monkeypatch, Nvml(missing))
    (load,) = monitor.latest()
    assert (load.sm, load.energy, load.power, load.memory) == (None, None, None, None)
    assert set(monitor.summary()["cuda:3"]) == {"busy"}
    assert str(DeviceLoad(device="cuda:3")) == "cuda:3: busy n/a"


def test_a_second_worker_on_a_device_does_not_start_it_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = Nvml()
    monkeypatch.setitem(sys.modules, "made_up_nvml", nvml)
    monitor = Monitor(module="made_up_nvml")
    monitor.watch("cuda:3", UUID)
    joules = nvml.joules
    monitor.watch("cuda:3", UUID)
    assert nvml.joules == joules


@pytest.mark.parametrize("uuid", ["", "unknown"])
def test_a_device_that_nvml_does_not_know_is_left_out(
    uuid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = watched(monkeypatch, Nvml(), uuid)
    assert monitor.latest() == []
    assert monitor.summary() == {}


def test_without_nvml_there_is_nothing_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dead(Nvml):
        def nvmlInit(self) -> None:  # noqa: N802
            raise NVMLError

    monkeypatch.setitem(sys.modules, "dead_nvml", Dead())
    for module in ("no_such_module", "dead_nvml", "pynvml"):
        with Monitor(interval=0.001, module=module) as monitor:
            monitor.watch("cuda:0", UUID)
        assert monitor.latest() == []
        assert monitor.summary() == {}
