"""The front ends of a worker: in its own process, or in several where G2P is the bottleneck."""

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context

from batchtts import models
from batchtts.config import Config
from batchtts.data import Utterance
from batchtts.models.base import Frontend
from batchtts.pools.local import die_with_parent
from batchtts.prepare import Refused, Segment, prepare

AHEAD = 64
"""Utterances that wait for each process."""

Prepared = list[Segment] | Refused


class Frontends:
    """Makes each voice's front end once, when it is needed."""

    def __init__(self, config: Config, processes: int = 0) -> None:
        """`processes`: 0 prepares in the calling thread."""
        self._config = config
        self._processes = processes
        self._made: dict[str, Frontend] = {}
        self._lock = threading.Lock()

    def prepare(self, utterance: Utterance) -> Prepared:
        """Prepare one utterance, here and now."""
        with self._lock:
            if utterance.voice not in self._made:
                family, name = models.split(utterance.voice)
                self._made[utterance.voice] = models.adapter(family).frontend(name)
        return prepare(self._made[utterance.voice], utterance, self._config)

    def prepare_all(self, utterances: Iterable[Utterance]) -> Iterator[Prepared]:
        """Prepare utterances as they come; the answers keep their order."""
        if not self._processes:
            yield from map(self.prepare, utterances)
            return
        ended = threading.Event()
        pool = _pool(self._processes, self._config)
        try:
            yield from self._prepare_in(pool, utterances, ended)
        finally:
            pool.shutdown(cancel_futures=True)
            ended.set()

    def _prepare_in(
        self, pool: ProcessPoolExecutor, utterances: Iterable[Utterance], ended: threading.Event
    ) -> Iterator[Prepared]:
        answers: queue.Queue[Future[Prepared] | None] = queue.Queue(AHEAD * self._processes)

        def submit() -> None:
            # The kernel ends the processes with the thread that started them, and one that is
            # ended while it holds the queue's lock stops the others: stay until all are gone.
            with suppress(RuntimeError):  # the caller stopped early: the pool takes no more
                for _ in range(self._processes):  # they start while the model loads
                    pool.submit(_warm)
                for utterance in utterances:
                    answers.put(pool.submit(_prepare_there, utterance))
                answers.put(None)
            ended.wait()

        threading.Thread(target=submit, daemon=True).start()
        for answer in iter(answers.get, None):
            yield answer.result()


def _pool(processes: int, config: Config) -> ProcessPoolExecutor:
    """Processes that end with this one."""
    return ProcessPoolExecutor(
        processes,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(), config),
    )


_there: list[Frontends] = []
"""In a process of the pool: its front ends."""


def _begin(parent: int, config: Config) -> None:
    die_with_parent(parent)
    _there.append(Frontends(config))


def _warm() -> None:
    """Nothing to do: each task of this kind starts a process."""


def _prepare_there(utterance: Utterance) -> Prepared:
    return _there[0].prepare(utterance)
