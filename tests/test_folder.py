"""The output folder: one run at a time, whose log is its own."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from batchtts.errors import LockedError, StorageError, UsageError
from batchtts.folder import OLD_LOGS, OutputFolder
from tests.conftest import ROOT

LOG = logging.getLogger("batchtts")


def test_a_second_run_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    with OutputFolder(tmp_path), pytest.raises(LockedError) as caught, OutputFolder(tmp_path):
        pass
    assert caught.value.exit_code == 75
    assert re.search(
        rf"process {os.getpid()} on \S+, since \d{{4}}-\d\d-\d\dT[\d:]{{8}}Z", str(caught.value)
    )


def test_asking_does_not_spoil_the_name_of_the_holder(tmp_path: Path) -> None:
    with OutputFolder(tmp_path):
        for _ in range(3):
            with pytest.raises(LockedError, match=f"process {os.getpid()}"), OutputFolder(tmp_path):
                pass


def test_the_folder_is_free_again_at_the_end(tmp_path: Path) -> None:
    for _ in range(2):
        with OutputFolder(tmp_path):
            pass


def test_the_kernel_frees_the_folder_of_a_killed_run(tmp_path: Path) -> None:
    hold = "import sys, pathlib; from batchtts.folder import OutputFolder\n"
    hold += "with OutputFolder(pathlib.Path(sys.argv[1])): print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=f"process {holder.pid}"), OutputFolder(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with OutputFolder(tmp_path):
        holder_now = json.loads((tmp_path / ".lock").read_text(encoding="utf-8"))
        assert holder_now["pid"] == os.getpid()


def test_the_log_is_in_utc_and_one_line_an_event(tmp_path: Path) -> None:
    with OutputFolder(tmp_path):
        LOG.info("한국어 and a half pair \udcff")
    log = (tmp_path / "run.log").read_text(encoding="utf-8")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO 한국어 and a half pair \\udcff\n", log
    )


def test_each_run_has_its_own_log_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    for number in range(OLD_LOGS + 3):
        with OutputFolder(tmp_path):
            LOG.info("run %d", number)
    logs = sorted(tmp_path.glob("run.log*"))
    assert len(logs) == OLD_LOGS + 1
    assert f"run {OLD_LOGS + 2}" in (tmp_path / "run.log").read_text(encoding="utf-8")
    assert f"run {OLD_LOGS + 1}" in (tmp_path / "run.log.1").read_text(encoding="utf-8")
    LOG.info("after the run")
    assert "after" not in (tmp_path / "run.log").read_text(encoding="utf-8")


def test_the_log_tells_how_a_run_ended_a_traceback_only_of_our_own_faults(tmp_path: Path) -> None:
    with pytest.raises(UsageError), OutputFolder(tmp_path):
        raise UsageError("no such column")
    assert (
        (tmp_path / "run.log")
        .read_text(encoding="utf-8")
        .endswith("ERROR ended by UsageError: no such column\n")
    )
    with pytest.raises(ZeroDivisionError), OutputFolder(tmp_path):
        1 / 0  # noqa: B018
    assert "Traceback" in (tmp_path / "run.log").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(StorageError, match="cannot be written"),
        OutputFolder(tmp_path / "file/out"),
    ):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_is_no_reason_to_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.log.1").touch()
    with OutputFolder(tmp_path) as held:
        assert held._handler
        full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  the handler closes it
        held._handler.setStream(full).close()  # type: ignore[attr-defined]
        LOG.info("lost")
    assert capsys.readouterr().err == ""
