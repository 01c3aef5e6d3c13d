"""One process on one device: prepare -> infer -> post -> write, overlapped by bounded queues.

The main thread listens to the coordinator, a prepare thread makes segments out of utterances, the
infer thread alone touches the device (`batchtts.infer`), post threads join, check and write, and a
sender thread carries the records home.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from batchtts import audio, checks, host, meters, models, probe
from batchtts.batching import AdaptiveLimit, OutOfMemory, is_sticky
from batchtts.config import Config
from batchtts.data import BatchLimit, Record, Utterance
from batchtts.devices import Slot
from batchtts.errors import StorageError
from batchtts.infer import Answer, Infer, Loaded, Place, Spoken
from batchtts.messages import (
    Busy,
    Bye,
    Done,
    Drain,
    Failed,
    Loading,
    Ready,
    Remark,
    Stats,
    Work,
)
from batchtts.models.base import Audio, Features, Frontend, Model
from batchtts.pools.base import Channel
from batchtts.pools.local import die_with_parent
from batchtts.post import Assembly, Desk
from batchtts.prepare import Refused, Segment, prepare
from batchtts.probe_cache import ProbeKey

POST_THREADS = 2
QUEUED_BATCHES = 2
"""Batches between infer and post: so far may the device be ahead of the disk."""
MESSAGE_RECORDS = 256
"""Most records in one message."""
PREPARE_AHEAD = 64
"""Utterances that wait for each prepare process."""
STATS_SECONDS = 1.0
GIVEN_UP = 75
"""Exit code after `Failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """All that a worker is told at its start; picklable."""

    slot: Slot
    folder: Path
    """The output folder."""
    source: str
    """Name of the input, for records."""
    config: Config
    models: Mapping[str, str]
    """Voice -> name and fingerprint of its weights; the first one is loaded at the start."""
    samples: Mapping[str, Sequence[Utterance]]
    """Voice -> texts of this run for the probe, the longest among them."""
    shares: Mapping[str, int]
    """Voice -> about how many utterances of it this worker will speak."""
    cache: Path | None
    """Folder for what the probe learns; None: nowhere."""
    prepare_processes: int = 0
    """G2P in this many processes; 0: in a thread."""
    limit_scale: float = 1.0
    """Part of the batch limit to use: lowered after the host killed this worker."""


def run(channel: Channel, spec: WorkerSpec) -> None:
    """Work until told to end; the body of a worker process."""
    Worker(channel, spec).run()


class Worker:
    """The four stages and what they share."""

    def __init__(self, channel: Channel, spec: WorkerSpec) -> None:
        self._channel = channel
        self._spec = spec
        self._infer = Infer(
            self._load, self._remark, pcm16=not audio.needs_float(spec.config.output)
        )
        self._inbox: queue.SimpleQueue[Utterance | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._spoken: queue.Queue[list[tuple[Segment, Answer]] | None] = queue.Queue(QUEUED_BATCHES)
        self._frontends: dict[str, Frontend] = {}
        self._assemblies: dict[int, Assembly] = {}
        self._windows = {voice: checks.DurationWindow() for voice in spec.models}
        self._post_lock = threading.Lock()
        self._desk = Desk(
            folder=spec.folder,
            config=spec.config,
            source=spec.source,
            device=spec.slot.label,
            models=spec.models,
        )
        self._started = time.monotonic()
        self._stopping = False
        self._all_sent = threading.Event()
        self._facts: dict[str, Any] = {"retries": 0, "load_seconds": 0.0, "probe_seconds": 0.0}

    def run(self) -> None:
        """Start the stages and wait for their end."""
        stages = [self._prepare_all, self._infer_all, *[self._post_all] * POST_THREADS]
        threads = [
            threading.Thread(target=self._guard, args=(stage,), daemon=True) for stage in stages
        ]
        sender = threading.Thread(target=self._send_all, daemon=True)
        for thread in (*threads, sender):
            thread.start()
        threading.Thread(target=self._listen, daemon=True).start()
        for thread in threads:
            thread.join()
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
            ended = waiting[-1] is None
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
            **self._facts,
            "busy_seconds": self._infer.busy.seconds(),
            "alive_seconds": time.monotonic() - self._started,
            "resident_bytes": host.resident(),
        }

    # prepare ------------------------------------------------------------------------------------

    def _prepare_all(self) -> None:
        if self._spec.prepare_processes:
            with prepare_pool(self._spec.prepare_processes) as executor:
                self._prepare_in(executor)
            return
        for utterance in iter(self._inbox.get, None):
            if not self._stopping:
                frontend = self._frontend(utterance.voice)
                self._prepared(prepare(frontend, utterance, self._spec.config))

    def _prepare_in(self, executor: ProcessPoolExecutor) -> None:
        """Keep every process busy, and take the answers as they come in order."""
        answers: queue.Queue[Future[list[Segment] | Refused] | None]
        answers = queue.Queue(PREPARE_AHEAD * self._spec.prepare_processes)

        def collect() -> None:
            for answer in iter(answers.get, None):
                self._prepared(answer.result())

        collector = threading.Thread(target=self._guard, args=(collect,), daemon=True)
        collector.start()
        for utterance in iter(self._inbox.get, None):
            if not self._stopping:
                answers.put(executor.submit(prepare_elsewhere, utterance, self._spec.config))
        answers.put(None)
        collector.join()

    def _prepared(self, result: list[Segment] | Refused) -> None:
        if isinstance(result, list):
            self._assemblies[result[0].utterance.index] = Assembly(result)
            self._infer.prepared(result)
            return
        self._infer.prepared([])
        record = self._desk.ended(result.utterance, status=result.status, reason=result.reason)
        self._settle(result.utterance, record)

    def _frontend(self, voice: str) -> Frontend:
        if voice not in self._frontends:
            self._frontends[voice] = frontend_of(voice)
        return self._frontends[voice]

    # infer --------------------------------------------------------------------------------------

    def _infer_all(self) -> None:
        model = self._infer.model((next(iter(self._spec.models)), ""))
        self._facts["precision"] = model.precision
        self._outbox.put(Ready(model.precision, meters.uuid(self._spec.slot.device)))
        self._infer.run(self._announce, self._spoken.put)
        for _ in range(POST_THREADS):
            self._spoken.put(None)

    def _announce(self, batch: list[Segment]) -> None:
        indexes = tuple({segment.utterance.index for segment in batch})
        self._outbox.put(Busy(indexes, sum(segment.features.seconds for segment in batch)))

    def _load(self, place: Place) -> Loaded:
        voice, precision = place
        self._outbox.put(Loading(voice))
        started = time.monotonic()
        family, name = models.split(voice)
        adapter = models.adapter(family)
        device = self._spec.slot.device
        wanted = precision or self._spec.config.precision
        model = adapter.load(name, device, models.precision(adapter, device, wanted))
        loaded = time.monotonic()
        limit = self._limit(voice, model)
        self._facts["load_seconds"] += loaded - started
        self._facts["probe_seconds"] += time.monotonic() - loaded
        return Loaded(model, AdaptiveLimit(limit, self._spec.limit_scale))

    def _limit(self, voice: str, model: Model) -> BatchLimit:
        family, name = models.split(voice)
        slot = self._spec.slot
        samples = self._samples(voice) or [model.dummy(min(100, model.max_size))]
        meter, clock = meters.for_device(slot.device, slot.share)
        found = probe.find_limit(
            model,
            samples,
            self._spec.config.batch,
            ProbeKey(
                adapter=family,
                fingerprint=models.adapter(family).voice(name).fingerprint,
                precision=model.precision,
                share=slot.share,
                threads=slot.threads,
            ),
            meter,
            clock,
            self._spec.cache,
            self._remark,
            job_size=self._spec.shares[voice] * sum(s.size for s in samples) // len(samples),
        )
        self._facts["batch_choice"] = found.choice
        self._remark(f"{voice}: {found.choice}")
        return found.limit

    def _samples(self, voice: str) -> list[Features]:
        """Features of real texts of this run."""
        frontend = self._frontend(voice)
        prepared = (prepare(frontend, u, self._spec.config) for u in self._spec.samples[voice])
        return [
            segment.features
            for segments in prepared
            if not isinstance(segments, Refused)
            for segment in segments
        ]

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
            self._facts["retries"] += 1
            finer = "" if take.is_finite or model.precision == "fp32" else "fp32"
            self._infer.again(assembly.again(take, finer))
            return
        del self._assemblies[utterance.index]
        self._settle(utterance, self._desk.write(assembly.best(take), assembly.attempt))

    def _settle(self, utterance: Utterance, record: Record) -> None:
        self._outbox.put((utterance.index, record))
        self._infer.finished()


def frontend_of(voice: str) -> Frontend:
    """The front end of a voice, made anew."""
    family, name = models.split(voice)
    return models.adapter(family).frontend(name)


def _failure(error: Exception) -> Failed:
    if isinstance(error, StorageError):
        return Failed(str(error), kind="storage")
    kind: Literal["poisoned", "fault"] = "poisoned" if is_sticky(error) else "fault"
    return Failed(f"{type(error).__name__}: {error}", kind=kind)


# G2P in processes of its own --------------------------------------------------------------------

_frontends: dict[str, Frontend] = {}
"""Voice -> front end, in a prepare process."""


def prepare_pool(processes: int) -> ProcessPoolExecutor:
    """Processes for `prepare_elsewhere`; they end with this one."""
    return ProcessPoolExecutor(
        processes,
        mp_context=get_context("spawn"),
        initializer=die_with_parent,
        initargs=(os.getpid(),),
    )


def prepare_elsewhere(utterance: Utterance, config: Config) -> list[Segment] | Refused:
    """`prepare`, in a process of `prepare_pool`."""
    if utterance.voice not in _frontends:
        _frontends[utterance.voice] = frontend_of(utterance.voice)
    return prepare(_frontends[utterance.voice], utterance, config)
