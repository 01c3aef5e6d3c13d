"""Workers as processes of this machine: spawned, one duplex pipe each, watched by their sentinels.

Each pipe has one writer on either end, so a worker killed in the middle of a message can neither
hold a lock nor cut another one's words; and each worker has two threads here, so one that is
frozen in the middle of a message holds up nobody else. The context is the standard library's
spawn: what torch.multiprocessing adds to it is the sharing of tensors, and no tensor ever crosses
a process here, so the parent need not load torch.
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
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any

from batchtts.messages import Died
from batchtts.pools.base import Body

PR_SET_PDEATHSIG = 1
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
END_SECONDS = 5.0
"""A process that is told to end gets this long; the kernel may hold it up over a lost disk."""


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    outbox: "queue.SimpleQueue[Any]" = field(default_factory=queue.SimpleQueue)
    """For the sender thread: a worker that does not listen must not hold up the coordinator."""
    threads: list[threading.Thread] = field(default_factory=list)


class LocalPool:
    """See `batchtts.pools.base.Pool`."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[int, _Worker] = {}
        self._heard: queue.SimpleQueue[tuple[int, object]] = queue.SimpleQueue()

    def start(self, worker: int, spec: object, environment: dict[str, str]) -> None:
        """Start a process; call it from the main thread, whose end takes the workers along."""
        ours, theirs = self._context.Pipe(duplex=True)
        process = self._context.Process(
            target=_main, args=(theirs, os.getpid()), name=f"batchtts-{worker}"
        )
        resource_tracker.ensure_running()  # started with the first worker, it unblocks signals
        try:
            with _blocked_signals(), _environment(environment), _hidden_main():
                process.start()
        except OSError as error:  # out of memory or of processes: the coordinator tries again
            ours.close()
            self._heard.put((worker, Died(f"cannot be started: {error.strerror}")))
            return
        finally:
            theirs.close()  # or its death would never show as end of file
        entry = _Worker(process, ours)
        entry.outbox.put((self._body, spec))
        for work in (_send_all, self._receive_all):
            thread = threading.Thread(target=work, args=(worker, entry), daemon=True)
            entry.threads.append(thread)
            thread.start()
        self._workers[worker] = entry

    def send(self, worker: int, message: object) -> None:
        """See `batchtts.pools.base.Pool`."""
        if worker in self._workers:
            self._workers[worker].outbox.put(message)

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        """See `batchtts.pools.base.Pool`."""
        heard: list[tuple[int, object]] = []
        try:
            heard.append(self._heard.get(timeout=timeout))
            while True:
                heard.append(self._heard.get_nowait())
        except queue.Empty:
            pass
        for number, message in heard:
            if isinstance(message, Died):
                self._workers.pop(number, None)
        return heard

    def kill(self, worker: int) -> None:
        """See `batchtts.pools.base.Pool`."""
        if worker in self._workers:
            self._workers[worker].process.kill()

    def close(self) -> None:
        """See `batchtts.pools.base.Pool`."""
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.threads[-1].join(3 * END_SECONDS)
        self._workers.clear()

    def _receive_all(self, number: int, worker: _Worker) -> None:
        """Pass on all that a worker says; its death last, since a pipe outlives its writer."""
        process, gone = worker.process, False
        while not gone:
            gone = process.sentinel in wait([worker.pipe, process.sentinel])
            try:
                while worker.pipe.poll():
                    self._heard.put((number, worker.pipe.recv()))
            except (EOFError, OSError):
                gone = True
        process.join(END_SECONDS)
        if process.is_alive():  # it closed its pipe but does not end
            process.kill()
            process.join(END_SECONDS)
        worker.outbox.put(None)
        worker.threads[0].join(END_SECONDS)
        worker.pipe.close()
        self._heard.put((number, _death(process.exitcode)))


def _send_all(_number: int, worker: _Worker) -> None:
    for message in iter(worker.outbox.get, None):
        try:
            worker.pipe.send(message)
        except OSError:  # it is dead: the receiver tells of it
            return


def _death(exitcode: int | None) -> Died:
    if exitcode is None:
        return Died("does not end")
    if exitcode >= 0:
        return Died(f"ended with exit code {exitcode}")
    names = {kind.value: kind.name for kind in signal.Signals}
    name = names.get(-exitcode, f"signal {-exitcode}")
    return Died(f"killed by {name}", out_of_memory=-exitcode == signal.SIGKILL)


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """The child begins deaf to SIGINT and SIGTERM: the coordinator tells it when to stop.

    What arrives meanwhile waits for this process and is lost for the child.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


@contextlib.contextmanager
def _hidden_main() -> Iterator[None]:
    """Spawn runs the parent's script again in every child: a worker needs nothing of it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _main(pipe: Connection, parent: int) -> None:
    """The process of a worker; what it shall do comes first through its pipe.

    So its parent need not wait until it reads, and nothing heavy is imported before the kernel
    knows whose death is its own.
    """
    die_with_parent(parent)
    for kind in STOP_SIGNALS:
        signal.signal(kind, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    os.dup2(2, 1)  # the output is the command's; what a library prints is no part of it
    try:
        body, spec = pipe.recv()
    except (EOFError, OSError):
        return
    body(pipe, spec)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # all is said and written; to take torch apart would keep the run waiting


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that ends.

    Where the kernel cannot (it is not Linux), the end of the pipe ends the worker.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)
