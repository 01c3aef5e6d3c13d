"""Nights without a user: no home, no locale, no terminal, no second run at the same time."""

import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from batchtts import manifest
from tests import night
from tests.conftest import CASES, ROOT

BARE = {"PYTHONPATH": str(ROOT)}
"""An environment with nothing in it but the way to the code under test."""


def run_bare(
    source: Path, folder: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """As `env -i` with these variables, in the root folder."""
    return subprocess.run(
        night.command(source.absolute(), folder, *options),
        env=BARE | environment,
        cwd="/",
        capture_output=True,
        timeout=night.PATIENCE,
        check=False,
    )


def made(folder: Path) -> dict[str, tuple[str, str, bytes]]:
    """What a run made, without its times."""
    found = manifest.read(folder).values()
    return {r.id: (r.file, r.text, (folder / r.file).read_bytes()) for r in found}


@pytest.mark.parametrize(
    "locale",
    [
        {"LANG": "C"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C.ASCII", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_c111_c112_no_home_and_no_locale(locale: dict[str, str], tmp_path: Path) -> None:
    at_root = set(Path("/").iterdir())
    watch = {"PYTHONWARNDEFAULTENCODING": "1"}
    source = CASES / "C112_hangul.csv"
    bare = run_bare(source, tmp_path / "밤", **locale, **watch)
    assert bare.returncode == 0, bare.stderr
    assert b"EncodingWarning" not in bare.stderr
    assert bare.stdout == b""
    whole = night.generate(source, tmp_path / "out")
    assert whole.returncode == 0, whole.stderr
    assert made(tmp_path / "밤") == made(tmp_path / "out")
    assert any("가" <= letter <= "힣" for id in made(tmp_path / "밤") for letter in id)
    assert set(Path("/").iterdir()) == at_root


@pytest.mark.parametrize("cache", ["/dev/null/cache", "/proc/cache"])
def test_a_cache_that_cannot_be_written_is_no_error(cache: str, tmp_path: Path) -> None:
    source = night.write_rows(tmp_path / "in.csv", 30)
    options = ("--batch-size", "auto", "--probe", "force")
    done = run_bare(source, tmp_path / "out", *options, XDG_CACHE_HOME=cache, HOME="/nowhere")
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


def test_c114_a_second_run_stands_back_at_once(tmp_path: Path) -> None:
    source, folder = CASES / "C114_forty_rows.csv", tmp_path / "out"
    with night.started(source, folder, fake={"item_seconds": 0.5}) as first:
        night.wait_within(first, lambda: "started" in night.log(folder))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        second = night.generate(source, folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        first.communicate(timeout=night.PATIENCE)
    assert second.returncode == 75
    assert len(second.stderr.splitlines()) == 1
    host = os.uname().nodename
    assert f"process {first.pid} on {host}, since 20" in second.stderr
    # A busy test machine shares its cores, so it is the time of work that counts.
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 2.0
    assert first.returncode == 0
    night.check_folder(folder, [f"i{n:02}" for n in range(1, 41)])


def test_c113_a_log_holds_lines_and_no_more(tmp_path: Path) -> None:
    source = night.write_rows(tmp_path / "in.csv", 60)
    done = night.generate(source, tmp_path / "out", fake={"item_seconds": 0.1})
    assert done.returncode == 0
    assert done.stdout == ""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stderr)
    progress = [line for line in done.stderr.splitlines() if " of 60 utterances" in line]
    assert len(progress) <= 4


def test_quiet_says_nothing_where_all_is_well(tmp_path: Path) -> None:
    source = night.write_rows(tmp_path / "in.csv", 3)
    done = night.generate(source, tmp_path / "out", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_reader_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    source, folder = night.write_rows(tmp_path / "in.csv", 20), tmp_path / "out"
    command = shlex.join(night.command(source, folder))
    script = f"{{ {command}; echo $? > {tmp_path}/code; }} 2>&1 | true"
    subprocess.run(
        ["/bin/sh", "-c", script], env=night.environment(), timeout=night.PATIENCE, check=True
    )
    night.wait_for((tmp_path / "code").exists)
    assert (tmp_path / "code").read_text(encoding="utf-8") == "0\n"
    night.check_folder(folder, [f"u{n:04}" for n in range(20)])


def test_closed_streams_stop_nothing(tmp_path: Path) -> None:
    source, folder = night.write_rows(tmp_path / "in.csv", 5), tmp_path / "out"
    command = shlex.join(night.command(source, folder))
    subprocess.run(
        ["/bin/sh", "-c", f"{command} <&- >&- 2>&-"],
        env=night.environment(),
        timeout=night.PATIENCE,
        check=True,
    )
    night.check_folder(folder, [f"u{n:04}" for n in range(5)])


def test_the_deadline_stops_and_the_next_night_goes_on(tmp_path: Path) -> None:
    source, folder = night.write_rows(tmp_path / "in.csv", 40), tmp_path / "out"
    slow: dict[str, object] = {"item_seconds": 0.3}
    first = night.generate(source, folder, "--deadline", "5s", fake=slow)
    assert first.returncode == 5, first.stderr
    found = night.summary(folder)
    assert (found["outcome"], found["exit_code"]) == ("stopped", 5)
    assert night.unfinished(folder) == []
    second = night.generate(source, folder)
    assert second.returncode == 0
    night.check_folder(folder, [f"u{n:04}" for n in range(40)])


def test_workers_of_the_fake_voice_load_no_torch_and_ask_no_hub(tmp_path: Path) -> None:
    source, folder = night.write_rows(tmp_path / "in.csv", 20), tmp_path / "out"
    with night.started(source, folder, fake={"batch_seconds": 20.0}) as run:
        night.wait_within(run, lambda: "is ready" in night.log(folder))
        pid = night.workers(run.pid)[0]
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert "libtorch" not in maps
    assert b"HF_HUB_OFFLINE=1" in environment


def test_c86_the_parent_loads_no_torch_whatever_the_devices() -> None:
    code = (
        "import sys, batchtts.run, batchtts.devices\n"
        "batchtts.devices.slots('auto')\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=night.PATIENCE, check=True)
