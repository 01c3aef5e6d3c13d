"""Slots of workers: which device each one sees, and what is said where there is none."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchtts import devices, host
from batchtts.devices import CpuSplit, slots
from batchtts.errors import DeviceError, Exit, UsageError
from tests.conftest import CASES

VISIBLE = (CASES / "C90_visible_devices.txt").read_text().splitlines()


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cores", lambda: 4)
    monkeypatch.setattr(host, "available_memory", lambda: 2**40)
    for name in ("CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)


def have_gpus(monkeypatch: pytest.MonkeyPatch, num: int) -> None:
    monkeypatch.setattr(devices, "gpus", lambda _visible: (num, "torch finds none"))


def test_auto_takes_every_gpu_and_each_worker_sees_only_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C88: not all of them on the first one."""
    have_gpus(monkeypatch, 2)
    first, second = slots("auto")
    assert (first.device, first.label, first.threads, first.share) == ("cuda:0", "cuda:0", 2, 1)
    assert (second.device, second.label) == ("cuda:0", "cuda:1")
    assert [slot.env["CUDA_VISIBLE_DEVICES"] for slot in (first, second)] == ["0", "1"]
    assert first.env["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert first.env["OMP_NUM_THREADS"] == "2"
    assert slots("cuda") == slots("auto") == slots("cuda:0,cuda:1")


def test_twins_share_the_memory_of_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 3)
    made = slots("cuda:2, cuda:2,cuda:0")
    assert [slot.label for slot in made] == ["cuda:2/1", "cuda:2/2", "cuda:0"]
    assert [slot.share for slot in made] == [2, 2, 1]
    assert [slot.env["CUDA_VISIBLE_DEVICES"] for slot in made] == ["2", "2", "0"]


def test_the_users_allocator_settings_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 1)
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:512")
    assert "PYTORCH_CUDA_ALLOC_CONF" not in slots("cuda")[0].env


@pytest.mark.parametrize("visible", [line for line in VISIBLE if line.strip()], ids=repr)
def test_entries_of_the_variable_are_never_read_as_numbers(
    visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C90: schedulers hand out UUIDs of GPUs and of MIG slices."""
    entries = visible.split(",")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    have_gpus(monkeypatch, len(entries))
    made = slots("auto")
    assert [slot.env["CUDA_VISIBLE_DEVICES"] for slot in made] == [e.strip() for e in entries]
    assert [slot.label for slot in made] == [f"cuda:{n}" for n in range(len(entries))]


@pytest.mark.parametrize("visible", ["", "-1", "0,0", "foo", None], ids=repr)
def test_no_gpu_is_an_error_that_quotes_the_variable(
    visible: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    have_gpus(monkeypatch, 0)
    for spec in ("cuda", "cuda:0", "cpu,cuda:1"):
        with pytest.raises(DeviceError) as caught:
            slots(spec)
        assert caught.value.exit_code == Exit.NO_DEVICE
        quoted = "is not set" if visible is None else f"is {visible!r}"
        assert f"CUDA_VISIBLE_DEVICES {quoted}" in str(caught.value)


def test_auto_says_why_it_leaves_a_gpu_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "foo")
    monkeypatch.setattr(devices, "has_driver", lambda: True)
    have_gpus(monkeypatch, 0)
    assert slots("auto")[0].device == "cpu"
    assert "CUDA_VISIBLE_DEVICES is 'foo'" in caplog.text


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 2)
    with pytest.raises(DeviceError, match="there is no cuda:5, only cuda:0, cuda:1"):
        slots("cuda:0,cuda:5")


@pytest.mark.parametrize("spec", ["", "gpu", "0,1", "cuda:-1", "cuda:x", "auto,cpu", "cpu,"])
def test_what_is_no_device_is_bad_usage(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, 2)
    with pytest.raises(UsageError, match="valid are auto, cpu, cuda, cuda:0"):
        slots(spec)


def test_the_cpu_slots_hide_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda _visible: pytest.fail("nobody asked for a GPU"))
    first, second = slots("cpu,cpu")
    assert first.env == {
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",
        "CUDA_VISIBLE_DEVICES": "",
    }
    assert (first.label, second.label, first.share, first.threads) == ("cpu/1", "cpu/2", 2, 2)
    assert slots("cpu")[0].threads == 4


def test_auto_on_a_cpu_is_a_worker_per_core_within_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have_gpus(monkeypatch, 0)
    assert [(slot.device, slot.threads) for slot in slots("auto")] == [("cpu", 1)] * 4
    monkeypatch.setattr(host, "available_memory", lambda: 2 * devices.CPU_WORKER_BYTES)
    assert [slot.threads for slot in slots("auto")] == [2, 2]
    monkeypatch.setattr(host, "available_memory", lambda: 0)
    assert [slot.threads for slot in slots("auto")] == [4]
    measured = CpuSplit(processes=1, threads=3)
    assert [slot.threads for slot in slots("auto", measured)] == [3]


def test_torch_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.gpus.cache_clear()
    monkeypatch.setattr(devices, "DRIVER_FILES", (str(tmp_path),))
    monkeypatch.setattr(
        devices, "COUNT_GPUS", "import os; print(len(os.environ['CUDA_VISIBLE_DEVICES']), '2.9')"
    )
    assert devices.gpus("0,1") == (3, "torch 2.9 finds none that it can use")
    monkeypatch.setattr(devices, "COUNT_GPUS", "raise SystemExit(3)")
    num, why = devices.gpus("other")
    assert num == 0
    assert "torch could not be asked" in why
    devices.gpus.cache_clear()


def test_without_a_driver_torch_is_not_asked_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    devices.gpus.cache_clear()
    monkeypatch.setattr(devices, "DRIVER_FILES", ())
    assert devices.gpus(None) == (0, "this machine has no NVIDIA driver")
    devices.gpus.cache_clear()


def test_the_parent_loads_no_torch() -> None:
    script = "import sys; from batchtts.devices import slots; slots('cpu'); print(*sys.modules)"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "torch" not in loaded


def test_a_worker_knows_its_device_by_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    properties = SimpleNamespace(uuid="1111-2222")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)
    assert devices.uuid("cuda:0") == "1111-2222"
    assert devices.uuid("cpu") == ""
