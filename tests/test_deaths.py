"""Workers and runs that die: real processes, ended in the middle of a run of the fake voice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batchtts import devices, output, run
from batchtts.config import load_config
from batchtts.options import Options
from batchtts.progress import NoScreen
from tests import night
from tests.conftest import CASES, ROOT

ROWS = [f"u{n:04}" for n in range(40)]
SLOW = {"item_seconds": 0.02}
"""A batch of ten takes 0.2 s."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return night.write_rows(tmp_path / "in.csv", len(ROWS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_c94_a_worker_killed_in_the_middle_costs_nothing(source: Path, folder: Path) -> None:
    with night.started(source, folder, fake={"item_seconds": 0.1}) as batchtts:
        night.wait_for_records(batchtts, folder, 1)
        night.kill(night.workers(batchtts.pid)[0])
        _, said = batchtts.communicate(timeout=night.PATIENCE)
    assert batchtts.returncode == 0, said
    assert said.count("died: killed by SIGKILL") == 1
    night.check_folder(folder, ROWS)
    assert night.summary(folder)["restarts"] == 1


def test_a_worker_that_dies_while_it_starts_is_replaced(source: Path, folder: Path) -> None:
    with night.started(source, folder, fake={"load_seconds": 1.0}) as batchtts:
        night.wait_within(batchtts, lambda: night.workers(batchtts.pid))
        night.kill(night.workers(batchtts.pid)[0])
        _, said = batchtts.communicate(timeout=night.PATIENCE)
    assert batchtts.returncode == 0, said
    night.check_folder(folder, ROWS)


def test_a_poison_row_fails_and_the_others_are_made(tmp_path: Path, folder: Path) -> None:
    source = night.write_rows(
        tmp_path / "in.csv", 20, lambda n: "poison" if n == 7 else f"Sentence {n}."
    )
    done = night.generate(source, folder, fake={"kill_on": "poison"})
    assert done.returncode == 3, done.stderr
    found = night.records(folder)
    assert found["u0007"].reason == "crashed the worker: killed by SIGKILL"
    assert [r.status for r in found.values()].count("ok") == 19
    assert "poison" in (folder / "failed.csv").read_text(encoding="utf-8")
    assert "Traceback" not in done.stderr


def test_c83_a_poisoned_context_costs_one_row(tmp_path: Path, folder: Path) -> None:
    source = night.write_rows(
        tmp_path / "in.csv", 20, lambda n: "assert" if n == 7 else f"Sentence {n}."
    )
    done = night.generate(source, folder, fake={"sticky_on": "assert"})
    assert done.returncode == 3, done.stderr
    found = night.records(folder)
    assert "device-side assert" in found["u0007"].reason
    assert [r.status for r in found.values()].count("ok") == 19


def test_c77_one_bad_row_is_one_failed_row(folder: Path) -> None:
    source = CASES / "C77_ten_rows.csv"
    bad = source.read_text(encoding="utf-8").splitlines()[5].partition(",")[2]
    done = night.generate(source, folder, fake={"error_on": bad})
    assert done.returncode == 3
    assert "9 ok, 1 failed" in done.stderr
    assert sorted(r.status for r in night.records(folder).values()) == ["failed"] + ["ok"] * 9


def test_a_start_that_cannot_succeed_ends_the_run(source: Path, folder: Path) -> None:
    done = night.generate(source, folder, fake={"load_error": "the weights are torn"})
    assert done.returncode == 4
    assert done.stderr.count("no device can work: RuntimeError: the weights are torn") == 1
    assert "Traceback" not in done.stderr
    assert night.summary(folder)["exit_code"] == 4
    assert night.summary(folder)["counts"] == {"unfinished": 40}


def test_a_gpu_where_there_is_none_is_no_silent_cpu_run(source: Path, folder: Path) -> None:
    if devices.has_driver():
        pytest.skip("there is a GPU here")
    done = night.generate(source, folder, "--devices", "cuda:0")
    assert done.returncode == 4
    assert "no NVIDIA driver" in done.stderr
    assert not (folder / "audio").exists()


def test_a_worker_that_leaks_is_replaced(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = night.write_rows(tmp_path / "many.csv", 120)
    fake = {"leak_bytes": 50 * 2**20, "batch_seconds": 0.2}
    monkeypatch.setattr(run, "RECYCLE_BYTES", 200 * 2**20)
    monkeypatch.setenv("BATCHTTS_FAKE", json.dumps(fake))
    config = load_config(None, {"voice": "fake:tone", "devices": "cpu,cpu", "batch.size": 5})
    config = config.model_copy(update={"output": output.resolve(config.output)})
    done = run.generate(str(source), config, folder, Options(), NoScreen())
    assert done.exit_code == 0
    assert done.restarts >= 1
    night.check_folder(folder, [f"u{n:04}" for n in range(120)])
    log = (folder / "run.log").read_text(encoding="utf-8")
    assert "replacing it" in log
    assert "died" not in log


@pytest.mark.parametrize("rows", [1, 10])
def test_c92_fewer_rows_than_workers_and_rows_that_do_not_divide(
    rows: int, folder: Path, tmp_path: Path
) -> None:
    source = night.write_rows(tmp_path / "few.csv", rows)
    assert night.generate(source, folder, "--devices", "cpu,cpu,cpu").returncode == 0
    night.check_folder(folder, ROWS[:rows])


@pytest.mark.parametrize("whom", ["parent", "group"])
def test_c96_the_first_signal_stops_in_order(whom: str, source: Path, folder: Path) -> None:
    with night.started(source, folder, fake={"item_seconds": 0.1}) as batchtts:
        night.wait_for_records(batchtts, folder, 1)
        below = night.descendants(batchtts.pid)
        begin = time.monotonic()
        (os.killpg if whom == "group" else os.kill)(batchtts.pid, signal.SIGINT)
        _, said = batchtts.communicate(timeout=night.PATIENCE)
        took = time.monotonic() - begin
    assert batchtts.returncode == 130, said
    assert took < 10
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    assert not [pid for pid in below if night.is_alive(pid)]
    assert night.unfinished(folder) == []
    before = len(night.records(folder))
    assert 0 < before < 40
    done = night.generate(source, folder)
    assert done.returncode == 0, done.stderr
    assert night.summary(folder)["kept"] == before
    night.check_folder(folder, ROWS)


def test_c116_sigterm_stops_within_the_grace_of_a_service_manager(
    source: Path, folder: Path
) -> None:
    with night.started(source, folder, fake={"item_seconds": 0.1}) as batchtts:
        night.wait_for_records(batchtts, folder, 1)
        begin = time.monotonic()
        batchtts.terminate()
        batchtts.communicate(timeout=night.PATIENCE)
    assert batchtts.returncode == 143
    assert time.monotonic() - begin < 8
    assert night.summary(folder)["outcome"] == "stopped"


def test_the_second_signal_stops_at_once(source: Path, folder: Path) -> None:
    with night.started(source, folder, fake={"batch_seconds": 60.0}) as batchtts:
        night.wait_within(batchtts, lambda: "is ready" in night.log(folder))
        below = night.descendants(batchtts.pid)
        time.sleep(3.0)  # a batch is on its way to the device
        batchtts.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert batchtts.poll() is None, "the first one waits for the batch"
        begin = time.monotonic()
        batchtts.send_signal(signal.SIGINT)
        _, said = batchtts.communicate(timeout=night.PATIENCE)
    assert time.monotonic() - begin < 5
    assert batchtts.returncode == 130
    assert "Traceback" not in said
    assert not [pid for pid in below if night.is_alive(pid)]


def test_the_death_of_the_parent_leaves_no_worker(source: Path, folder: Path) -> None:
    with night.started(source, folder, fake={"batch_seconds": 5.0}) as batchtts:
        night.wait_within(batchtts, lambda: night.log(folder).count("is ready") == 2)
        below = night.descendants(batchtts.pid)
        assert len(night.workers(batchtts.pid)) == 2
        batchtts.kill()
        took = night.wait_for(lambda: not [pid for pid in below if night.is_alive(pid)], 2.0)
    assert took < 2.0
    assert night.generate(source, folder).returncode == 0
    night.check_folder(folder, ROWS)


def test_the_death_of_a_worker_takes_its_prepare_processes_along(tmp_path: Path) -> None:
    """Killed like the parent above: SIGKILL lets nobody clean up."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import time\n"
        "from batchtts.config import Config\n"
        "from batchtts.frontends import Frontends\n"
        "from tests.fake_pool import utterances\n"
        "if __name__ == '__main__':\n"
        "    for _ in Frontends(Config(voice='fake:tone'), 2).prepare_all(utterances(4)):\n"
        "        print('prepared', flush=True)\n"
        "        time.sleep(60)\n",
        encoding="utf-8",
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdout
        assert worker.stdout.readline()
        below = night.descendants(worker.pid)
        assert len(below) >= 2
        worker.kill()
        night.wait_for(lambda: not [pid for pid in below if night.is_alive(pid)], 2.0)


@pytest.mark.slow
def test_the_real_voice_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    """As the issue asks: the demo on two CPU slots, one worker killed in the middle."""
    folder = tmp_path / "demo"
    command = [night.BATCHTTS, "generate", str(ROOT / "configs/demo.csv"), "-o", str(folder)]
    with subprocess.Popen(
        [*command, "--devices", "cpu,cpu"], stderr=subprocess.PIPE, text=True
    ) as batchtts:
        night.wait_for_records(batchtts, folder, 5)
        night.kill(night.workers(batchtts.pid)[0])
        _, said = batchtts.communicate(timeout=600)
    assert batchtts.returncode == 0, said
    assert night.summary(folder)["restarts"] == 1
    assert night.summary(folder)["counts"] == {"ok": 100}
