"""Real processes: what they say arrives, whatever happens to them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest

from batchtts.messages import Died
from batchtts.pools.local import LocalPool
from tests.conftest import ROOT
from tests.pools import bodies

PATIENCE = 60.0


@contextmanager
def pool(body: Callable[[Any, Any], None]) -> Iterator[LocalPool]:
    running = LocalPool(body)
    try:
        yield running
    finally:
        running.close()


def hear(running: LocalPool, count: int) -> list[tuple[int, object]]:
    """The next so many messages."""
    heard: list[tuple[int, object]] = []
    end = time.monotonic() + PATIENCE
    while len(heard) < count and time.monotonic() < end:
        heard += running.poll(0.5)
    assert len(heard) >= count, heard
    return heard


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_words_go_both_ways_and_the_environment_is_the_childs_own() -> None:
    with pool(bodies.echo) as running:
        running.start(1, {"a": 1}, {"SEAT": "left"})
        running.start(2, {"a": 2}, {"SEAT": "right"})
        assert "SEAT" not in os.environ
        heard = dict(hear(running, 2))
        assert [heard[n][:2] for n in (1, 2)] == [("ready", {"a": 1}), ("ready", {"a": 2})]  # type: ignore[index]
        assert [heard[n][3] for n in (1, 2)] == ["left", "right"]  # type: ignore[index]
        running.send(2, "hello")
        assert hear(running, 1) == [(2, ("heard", "hello"))]
        running.send(1, "end")
        assert hear(running, 1) == [(1, Died("ended with exit code 0"))]
        running.send(1, "to a dead worker: lost in silence")


def test_what_was_said_before_a_death_arrives_before_it() -> None:
    with pool(bodies.die_at_once) as running:
        running.start(1, 300, {})
        heard = hear(running, 301)
    assert [message for _, message in heard[:-1]] == list(range(300))
    assert heard[-1] == (1, Died("killed by SIGKILL", out_of_memory=True))


def test_a_worker_frozen_in_the_middle_of_a_message_holds_up_nobody() -> None:
    with pool(bodies.freeze_in_a_message) as running:
        running.start(1, "freeze", {})
        assert hear(running, 1) == [(1, "soon")]
        running.start(2, "echo", {})
        hear(running, 1)
        running.send(2, "are you there?")
        assert hear(running, 1) == [(2, ("heard", "are you there?"))]
        running.kill(1)
        assert hear(running, 1) == [(1, Died("killed by SIGKILL", out_of_memory=True))]


def test_a_worker_that_does_not_listen_does_not_hold_up_the_sender() -> None:
    with pool(bodies.deaf) as running:
        running.start(1, None, {})
        hear(running, 1)
        started = time.monotonic()
        for _ in range(20):
            running.send(1, bytes(1_000_000))
        assert time.monotonic() - started < 1.0
        running.kill(1)
        assert isinstance(hear(running, 1)[0][1], Died)


def test_workers_are_deaf_to_the_signals_of_a_terminal() -> None:
    with pool(bodies.echo) as running:
        running.start(1, None, {})
        pid = hear(running, 1)[0][1][2]  # type: ignore[index]
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        running.send(1, "still there?")
        assert hear(running, 1) == [(1, ("heard", "still there?"))]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


def test_the_exit_code_is_told() -> None:
    with pool(bodies.fail) as running:
        running.start(1, 75, {})
        assert hear(running, 1) == [(1, Died("ended with exit code 75"))]


def test_close_leaves_no_process_and_no_thread() -> None:
    before = threading.active_count()
    running = LocalPool(bodies.deaf)
    for number in (1, 2):
        running.start(number, None, {})
    hear(running, 2)
    pids = [child.pid for child in multiprocessing.active_children()]
    assert len(pids) == 2
    running.close()
    running.close()
    assert not [pid for pid in pids if pid and is_alive(pid)]
    assert threading.active_count() == before


def test_a_process_that_cannot_be_made_is_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_process: SpawnProcess) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(SpawnProcess, "start", refuse)
    with pool(bodies.echo) as running:
        running.start(1, None, {})
        assert running.poll(0) == [(1, Died("cannot be started: Cannot allocate memory"))]


SCRIPT = """
import multiprocessing, os, sys
print("imported", flush=True)
multiprocessing.set_start_method("fork")
from batchtts.pools.local import LocalPool
from tests.pools import bodies
pool = LocalPool(bodies.{body})
pool.start(1, None, {{}})
print(pool.poll(60), flush=True)
{then}
"""


def script(tmp_path: Path, body: str, then: str) -> list[str]:
    """A command that runs a user's script without a main guard."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(body=body, then=then), encoding="utf-8")
    return [sys.executable, str(path)]


def test_c86_spawns_whatever_the_start_method_and_runs_the_script_once(tmp_path: Path) -> None:
    done = subprocess.run(
        script(tmp_path, "chatty", "pool.close()"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "imported\n[(1, 'printed')]\n"
    assert done.stderr == "a word from a library\n"


def test_the_death_of_the_parent_ends_its_workers(tmp_path: Path) -> None:
    with subprocess.Popen(
        script(tmp_path, "echo", "import time; time.sleep(600)"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "imported\n"
        pid = int(parent.stdout.readline().split(",")[3])
        assert is_alive(pid)
        parent.kill()
        end = time.monotonic() + 2
        while is_alive(pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert not is_alive(pid)
