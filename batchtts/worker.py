"""One process on one device: prepare -> infer -> post -> write, overlapped by bounded queues.

The main thread listens to the coordinator, a prepare thread makes segments out of utterances, the
infer thread alone touches the device (`batchtts.infer`), post threads join, check and write, and a
sender thread carries the records home.
"""

import gc
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

from batchtts import audio, audiocache, checks, host, meters, places
from batchtts.assembly import Assembly
from batchtts.batching import OutOfMemory, is_sticky
from batchtts.data import Record, Utterance
from batchtts.errors import StorageError
from batchtts.frontends import Frontends
from batchtts.infer import Answer, Infer, Spoken
from batchtts.loader import Loader
from batchtts.messages import (
    Busy,
    Bye,
    Done,
    Drain,
    Failed,
    Ready,
    Remark,
    Stats,
    Waiting,
    Work,
)
from batchtts.models.base import Audio
from batchtts.pools.base import Channel
from batchtts.post import Desk
from batchtts.prepare import Refused, Segment
from batchtts.spec import WorkerSpec

QUEUED_BATCHES = 2
"""Batches between infer and post: so far may the device be ahead of the disk."""
MESSAGE_RECORDS = 256
"""Most records in one message."""
STATS_SECONDS = 1.0
GIVEN_UP = 75
"""Exit code after `Failed`."""


def run(channel: Channel, spec: WorkerSpec) -> None:
    """Work until told to end; the body of a worker process."""
    Worker(channel, spec).run()


class Worker:
    """The four stages and what they share."""

    def __init__(self, channel: Channel, spec: WorkerSpec) -> None:
        self._channel = channel
        self._spec = spec
        self._inbox: queue.SimpleQueue[Utterance | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._frontends = Frontends(spec.config, spec.prepare_processes)
        self._loader = Loader(spec, self._frontends, self._outbox.put)
        pcm16 = not audio.needs_float(spec.config.output)
        self._infer = Infer(self._loader.load, self._remark, pcm16=pcm16)
        self._spoken: queue.Queue[list[tuple[Segment, Answer]] | None] = queue.Queue(QUEUED_BATCHES)
        self._assemblies: dict[int, Assembly] = {}
        self._windows = {voice: checks.DurationWindow() for voice in spec.models}
        self._post_lock = threading.Lock()
        self._desk = Desk(
            place=places.at(spec.folder, spec.remote, lambda text: self._outbox.put(Waiting(text))),
            config=spec.config,
            source=spec.source,
            device=spec.slot.label,
            models=spec.models,
            cache=audiocache.open_cache(spec.config.output.cache),
        )
        self._started = time.monotonic()
        self._stopping = False
        self._all_sent = threading.Event()
        self._retries = 0

    def run(self) -> None:
        """Start the stages and wait for their end."""
        stages = [self._prepare_all, self._infer_all, *[self._post_all] * self._desk.place.writers]
        threads = [
            threading.Thread(target=self._guard, args=(stage,), daemon=True) for stage in stages
        ]
        sender = threading.Thread(target=self._send_all, daemon=True)
        for thread in (*threads, sender):
            thread.start()
        threading.Thread(target=self._listen, daemon=True).start()
        for thread in threads:
            thread.join()
        for assembly in self._assemblies.values():
            assembly.discard()
        self._outbox.put(Bye())
        self._outbox.put(None)
        sender.join()

    def _guard(self, stage: Callable[[], None]) -> None:
        """A stage that cannot go on ends the process, and says why."""
        try:
            stage()
        except Exception as error:  # noqa: BLE001  the coordinator must hear of it, whatever it is
            self._outbox.put(_failure(error))
            self._outbox.put(None)
            self._all_sent.wait(5)
            os._exit(GIVEN_UP)

    # Messages -----------------------------------------------------------------------------------

    def _listen(self) -> None:
        while True:
            try:
                message = self._channel.recv()
            except (EOFError, OSError):
                os._exit(1)  # the coordinator is gone: nobody would commit what we do
            if isinstance(message, Work):
                self._infer.expect(len(message.lease.utterances))
                for utterance in message.lease.utterances:
                    self._inbox.put(utterance)
            elif isinstance(message, Drain):
                self._stopping = self._stopping or message.at_once
                self._inbox.put(None)
                self._infer.end(at_once=message.at_once)

    def _send_all(self) -> None:
        """Send what the stages have to say; records that wait together go in one message."""
        reported = time.monotonic()
        ended = False
        while not ended:
            waiting = [self._outbox.get()]
            while len(waiting) < MESSAGE_RECORDS and not self._outbox.empty():
                waiting.append(self._outbox.get())
            ended = any(message is None for message in waiting)
            if ended or time.monotonic() > reported + STATS_SECONDS:
                self._channel.send(Stats(self.figures()))
                reported = time.monotonic()
            records = tuple(message for message in waiting if isinstance(message, tuple))
            if records:
                self._channel.send(Done(records))
            for message in waiting:
                if message is not None and not isinstance(message, tuple):
                    self._channel.send(message)
        self._all_sent.set()

    def _remark(self, text: str) -> None:
        if text:
            self._outbox.put(Remark(text))

    def figures(self) -> dict[str, Any]:
        """What this worker did so far: the fields of `infer.Figures` and those below."""
        return {
            **asdict(self._infer.figures),
            **self._loader.figures(),
            "retries": self._retries,
            "busy_seconds": self._infer.busy.seconds(),
            "alive_seconds": time.monotonic() - self._started,
            "resident_bytes": host.resident(),
        }

    # prepare ------------------------------------------------------------------------------------

    def _prepare_all(self) -> None:
        waiting = (u for u in iter(self._inbox.get, None) if not self._stopping)
        for result in self._frontends.prepare_all(waiting):
            self._prepared(result)

    def _prepared(self, result: list[Segment] | Refused) -> None:
        if isinstance(result, list):
            assembly = Assembly(result)
            self._assemblies[result[0].utterance.index] = assembly
            self._infer.prepared(assembly.segments)
            return
        self._infer.prepared([])
        record = self._desk.ended(result.utterance, status=result.status, reason=result.reason)
        self._settle(result.utterance, record)

    # infer --------------------------------------------------------------------------------------

    def _infer_all(self) -> None:
        gc.disable()  # what is imported and read now stays: each look at it for garbage is wasted
        model = self._infer.model((next(iter(self._spec.models)), ""))
        gc.freeze()
        gc.enable()
        self._outbox.put(Ready(model.precision, meters.uuid(self._spec.slot.device)))
        self._infer.run(self._announce, self._spoken.put)
        for _ in range(self._desk.place.writers):
            self._spoken.put(None)

    def _announce(self, batch: list[Segment]) -> None:
        indexes = tuple({segment.utterance.index for segment in batch})
        self._outbox.put(Busy(indexes, sum(segment.features.seconds for segment in batch)))

    # post and write -----------------------------------------------------------------------------

    def _post_all(self) -> None:
        for batch in iter(self._spoken.get, None):
            for segment, answer in batch:
                self._post(segment, answer())

    def _post(self, segment: Segment, spoken: Spoken) -> None:
        utterance = segment.utterance
        with self._post_lock:
            assembly = self._assemblies.get(utterance.index)
            if assembly is None:
                return  # another segment of it failed before
            if isinstance(spoken, Audio):
                complete = assembly.add(segment, spoken)
            else:
                complete = False
                del self._assemblies[utterance.index]
                assembly.discard()
        if not isinstance(spoken, Audio):
            out_of_memory = "out of memory: " if isinstance(spoken, OutOfMemory) else ""
            reason = f"{out_of_memory}{spoken.text}"
            self._settle(utterance, self._desk.ended(utterance, status="failed", reason=reason))
        elif complete:
            self._complete(utterance, assembly, segment.precision)

    def _complete(self, utterance: Utterance, assembly: Assembly, precision: str) -> None:
        """Judge a whole utterance; speak it again while it is suspect, else write it."""
        model = self._infer.model((utterance.voice, precision))
        take = assembly.take(model.sample_rate, self._windows[utterance.voice])
        if not take.verdict.ok and assembly.attempt <= self._spec.config.checks.retries:
            self._retries += 1
            finer = "" if take.is_finite or model.precision == "fp32" else "fp32"
            self._infer.again(assembly.again(take, finer))
            return
        best = assembly.best(take)
        if not assembly.is_long:
            record: Record | None = self._desk.write(best, assembly.attempt)
        else:
            record = self._desk.extend(best, assembly)
        if record is None:
            self._infer.again(assembly.next())
            return
        del self._assemblies[utterance.index]
        self._settle(utterance, record)

    def _settle(self, utterance: Utterance, record: Record) -> None:
        self._outbox.put((utterance.index, record))
        self._infer.finished()


def _failure(error: Exception) -> Failed:
    if isinstance(error, StorageError):
        return Failed(str(error), kind="storage")
    kind: Literal["poisoned", "fault"] = "poisoned" if is_sticky(error) else "fault"
    return Failed(f"{type(error).__name__}: {error}", kind=kind)
