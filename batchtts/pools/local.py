"""Workers as processes of this machine: spawned, one duplex pipe each, watched by their sentinels.

Each pipe has one writer on either end, so a worker killed in the middle of a message can neither
hold a lock nor cut another one's words. The context is the standard library's spawn: what
torch.multiprocessing adds to it is the sharing of tensors, and no tensor ever crosses a process
here, so the parent need not load torch.
"""

import contextlib
import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from batchtts.messages import Died
from batchtts.pools.base import Body

PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    outbox: "queue.SimpleQueue[Any]"
    """Messages for the sender thread: a worker that hangs must not hang the coordinator."""


class LocalPool:
    """See `batchtts.pools.base.Pool`."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[int, _Worker] = {}

    def start(self, worker: int, spec: object, environment: dict[str, str]) -> None:
        """Start a process; call it from the main thread, whose end takes the workers along."""
        ours, theirs = self._context.Pipe(duplex=True)
        process = self._context.Process(
            target=_main, args=(self._body, theirs, spec, os.getpid()), name=f"batchtts-{worker}"
        )
        with _ignored_signals(), _environment(environment):
            process.start()
        theirs.close()  # or its death would never show as end of file
        entry = _Worker(process, ours, queue.SimpleQueue())
        self._workers[worker] = entry
        threading.Thread(target=_send_all, args=(entry,), daemon=True).start()

    def send(self, worker: int, message: object) -> None:
        """See `batchtts.pools.base.Pool`."""
        if worker in self._workers:
            self._workers[worker].outbox.put(message)

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        """See `batchtts.pools.base.Pool`."""
        sources: dict[Any, int] = {}
        for number, worker in self._workers.items():
            sources[worker.pipe] = sources[worker.process.sentinel] = number
        ready = {sources[source] for source in wait(list(sources), timeout)}
        return [(number, message) for number in sorted(ready) for message in self._hear(number)]

    def _hear(self, number: int) -> Iterator[object]:
        """All that a worker has said; its death last, since a pipe outlives its writer."""
        worker = self._workers[number]
        gone = not worker.process.is_alive()
        try:
            while worker.pipe.poll():
                yield worker.pipe.recv()
        except (EOFError, OSError):
            gone = True
        if gone:
            worker.process.join(5)
            if worker.process.is_alive():  # it closed its pipe but does not end
                worker.process.kill()
                worker.process.join()
            self._forget(number)
            yield _death(worker.process.exitcode)

    def kill(self, worker: int) -> None:
        """See `batchtts.pools.base.Pool`."""
        if worker in self._workers:
            self._workers[worker].process.kill()

    def close(self) -> None:
        """See `batchtts.pools.base.Pool`."""
        for worker in self._workers.values():
            worker.process.kill()
        for number, worker in list(self._workers.items()):
            worker.process.join()
            self._forget(number)

    def _forget(self, number: int) -> None:
        worker = self._workers.pop(number)
        worker.outbox.put(None)
        worker.pipe.close()


def _send_all(worker: _Worker) -> None:
    for message in iter(worker.outbox.get, None):
        try:
            worker.pipe.send(message)
        except (OSError, ValueError):  # dead or forgotten: poll tells of it
            return


def _death(exitcode: int | None) -> Died:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return Died(f"killed by {name}", out_of_memory=-exitcode == signal.SIGKILL)
    return Died(f"ended with exit code {exitcode}")


@contextlib.contextmanager
def _ignored_signals() -> Iterator[None]:
    """Start the child with SIGINT and SIGTERM ignored: the coordinator tells it when to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(kind, signal.SIG_IGN) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Variables that libraries read when they are imported must be there before the process is."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _main(body: Body, pipe: Connection, spec: object, parent: int) -> None:
    die_with_parent(parent)
    body(pipe, spec)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends.

    Where the kernel cannot (it is not Linux), the end of the pipe ends the worker.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)
