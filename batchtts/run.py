"""READ FIRST. The program: inputs -> plan -> coordinator over a pool of workers -> summary."""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from batchtts import (
    audiocache,
    cpu_split,
    devices,
    inputs,
    manifest,
    models,
    places,
    plan,
    probe_cache,
    shards,
    storage,
    summary,
    worker,
)
from batchtts.config import Config
from batchtts.coordinator import Coordinator, Outcome
from batchtts.data import Row, Utterance
from batchtts.devices import CpuSplit, Slot
from batchtts.errors import DeviceError, Exit, InputError, MissingExtraError, VoiceError
from batchtts.folder import LOCK, OutputFolder
from batchtts.leases import LeaseBook
from batchtts.monitor import Monitor
from batchtts.places import Place
from batchtts.plan import Plan, Voice
from batchtts.pools.base import Pool
from batchtts.pools.local import LocalPool
from batchtts.probe_cache import ProbeKey
from batchtts.progress import Screen
from batchtts.recorder import Recorder, write_tables
from batchtts.shards import Coverage, Shard
from batchtts.spec import WorkerSpec
from batchtts.status import plan_line
from batchtts.stop import Stopper, parse_deadline
from batchtts.summary import Summary

log = logging.getLogger("batchtts")

FOLDERS_ABOVE = 5000
"""More rows than this are spread over folders, unless the config or an earlier run says how."""
PROBE_SAMPLES = 128
"""Most texts of a voice that the probe may use."""
MAX_PREPARE_PROCESSES = 8
OpenPool = tuple[Pool, Sequence[Slot], Callable[[], Sequence[Slot]]]
"""A pool, its slots, and what tells of those that join later."""
RECYCLE_BYTES = 12 * 2**30
"""A worker that holds more host memory than this leaks, and is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for beyond the config."""

    limit: int | None = None
    """Only the first so many rows."""
    fresh: bool = False
    """Forget what earlier runs did."""
    retry_failed: bool = False
    """Speak rows again that failed before."""
    pool: Literal["local", "ray"] = "local"
    """Workers as processes of this machine, or as actors of a Ray cluster."""
    remote: str = ""
    """URL of the object store that the folder's files go to; "": they stay."""
    shard: Shard | None = None
    """The part of the input that this process speaks; None: all of it."""


@contextmanager
def as_file(source: str) -> Iterator[str]:
    """A path that can be read more than once: standard input is kept in a temporary file."""
    if source != inputs.STDIN:
        yield source
        return
    with TemporaryDirectory(prefix="batchtts-") as folder:
        yield str(inputs.spool_stdin(Path(folder)))


def generate(
    source: str, config: Config, folder: Path, options: Options, screen: Screen
) -> Summary:
    """Speak a whole input into an output folder.

    `source` is a path; `config.output` is resolved.

    Raises:
        BatchttsError: nothing can be done, or not to the end; what was done stays done.
    """
    started = time.monotonic()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded unless the user asks
    books = shards.books(folder, options.shard)
    with OutputFolder(books), _stopper(config) as stop:
        storage.discard(books / summary.FILE)  # or a killed run would seem to have ended
        if options.fresh:
            manifest.forget(books)
        place = places.at(folder, options.remote, screen.say)
        work = make_plan(source, config, folder, options, screen.say)
        log.info("%s", plan_line(len(work.ids), len(work.todo), work.seconds))
        if work.shard:
            screen.say(f"shard {work.shard['name']}: {len(work.ids)} of {work.shard['rows']} rows")
        cached = 0 if options.fresh else _from_cache(work, config, source, books, place, stop)
        open_pool = _ray_pool if options.pool == "ray" else _local_pool
        pool, slots, joined = open_pool(work, config, books)
        with (
            Monitor() as monitor,
            Recorder(books, place, source, work, expected_seconds, screen, monitor) as recorder,
        ):
            coordinator = Coordinator(
                LeaseBook(work.todo, expected_seconds),
                pool,
                slots,
                partial(
                    worker_spec,
                    work=work,
                    workers=len(slots),
                    config=config,
                    folder=folder,
                    remote=options.remote,
                    source=source,
                ),
                recorder,
                stop,
                recycle_bytes=RECYCLE_BYTES,
                joined=joined,
            )
            failure: DeviceError | None = None
            try:
                complete = coordinator.run() is Outcome.DONE
            except DeviceError as error:  # the books are closed all the same
                complete, failure = False, error
        counts, reasons, suspects = write_tables(books, source, config, work, complete=complete)
        result = Summary(
            outcome="done" if complete else "stopped",
            exit_code=_exit_code(counts, None if complete else failure or stop),
            counts=dict(counts),
            spoken=recorder.tally.done,
            kept=work.kept,
            copied=recorder.copied + cached,
            gone=len(work.gone),
            changes=dict(work.changes),
            suspects=suspects,
            restarts=coordinator.restarts,
            reasons=dict(reasons.most_common()),
            timeline=recorder.timeline,
            load=monitor.summary(),
            shard=work.shard,
        )
        result.add_times(recorder.tally.audio, time.monotonic() - started)
        result.add_figures(coordinator.figures())
        result.write(books)
        place.publish(books)
        if failure:
            raise failure
        return result


def _from_cache(
    work: Plan, config: Config, source: str, books: Path, place: Place, stop: Stopper
) -> int:
    """Take what other runs have spoken out of the work; returns how many utterances that were."""
    cache = audiocache.open_cache(config.output.cache)
    if cache is None:
        return 0
    before = len(work.todo)
    name = Path(source).name
    work.todo = audiocache.fetch_all(cache, work.todo, name, books, place, stop.stage)
    work.seconds = sum(map(expected_seconds, work.todo))
    return before - len(work.todo)


def _local_pool(work: Plan, config: Config, _books: Path) -> OpenPool:
    """Processes of this machine, one a device slot."""
    slots: Sequence[Slot] = ()
    if work.todo:
        found = devices.slots(config.devices, _cpu_split(work, config))
        slots = shards.own_slots(found, os.environ)[: len(work.todo)]
        _check_precision(work, slots, config)
    return LocalPool(worker.run), slots, tuple


def _cpu_split(work: Plan, config: Config) -> CpuSplit | None:
    """Processes and threads as `probe-batch-size` found them best here; None: never measured."""
    name = work.todo[0].voice
    family = models.adapter(name.partition(":")[0])
    safe = family.precisions("cpu")
    precision = config.precision if config.precision in safe else safe[0]
    key = ProbeKey(
        adapter=family.name, fingerprint=voice(name).info.fingerprint, precision=precision
    )
    return cpu_split.kept_split(key, probe_cache.default_folder())


def _ray_pool(work: Plan, config: Config, books: Path) -> OpenPool:
    """Actors of a Ray cluster, wherever it has devices."""
    if not work.todo:
        return _local_pool(work, config, books)
    try:
        from batchtts.pools.ray import RayPool
    except ModuleNotFoundError as error:
        raise MissingExtraError("--pool ray", "ray") from error
    pool = RayPool(worker.run, config.devices, books / LOCK)
    return pool, pool.joined(), pool.joined


def make_plan(
    source: str, config: Config, folder: Path, options: Options, say: Callable[[str], None]
) -> Plan:
    """Read the whole input and what earlier runs did, and decide what is to do.

    Raises:
        InputError: the input cannot be used; lists everything that is wrong with it.
    """
    rows = list(inputs.read_rows(source, config.input, say))[: options.limit]
    shard, coverage = options.shard, Coverage()
    for row in rows if shard else ():
        coverage.add(row.id)
    books = shards.books(folder, shard)
    place = places.at(folder, options.remote, say)
    if not options.fresh:
        place.fetch(books)
    prior = {} if options.fresh else manifest.read_prior(books)
    changes: Counter[str] = Counter()
    work = plan.make_plan(
        plan.utterances(
            _consumed(rows),
            config,
            voice_finder(source, config),
            folders=_folders(config, rows, prior),
            owns=shard.owns if shard else lambda _: True,
            changes=changes,
        ),
        prior,
        place.holds,
        expected_seconds,
        Path(source).name,
        retry_failed=options.retry_failed,
    )
    work.changes = changes
    if shard:
        work.shard = {"name": shard.name, **coverage.facts()}
    return work


def _consumed(rows: list[Row]) -> Iterator[Row]:
    """The rows in order, each let go: a million of them need not stand beside their utterances."""
    rows.reverse()
    while rows:
        yield rows.pop()


def voice_finder(source: str, config: Config) -> Callable[[Row], Voice]:
    """Describes the voice of a row; a row that names none has the config's."""

    def find(row: Row) -> Voice:
        try:
            return voice(row.voice or config.voice)
        except VoiceError as error:
            if row.voice is None:
                raise
            message = f"{source}:{row.line}: {error}"
            raise InputError(message) from error

    return find


@cache
def voice(name: str) -> Voice:
    """A voice under its full name "adapter:name".

    Raises:
        VoiceError: there is none; the message lists those there are.
    """
    family, short = models.split(name)
    return Voice(name=f"{family}:{short}", info=models.adapter(family).voice(short))


def expected_seconds(utterance: Utterance) -> float:
    """Seconds of audio that an utterance should last, by its voice's pace."""
    info = voice(utterance.voice).info
    return len(utterance.text) * info.seconds_per_char / utterance.speed


def worker_spec(
    slot: Slot,
    limit_scale: float,
    *,
    work: Plan,
    workers: int,
    config: Config,
    folder: Path,
    remote: str,
    source: str,
) -> WorkerSpec:
    """All that the worker of a slot needs to know."""
    by_voice: dict[str, list[Utterance]] = {}
    for utterance in work.todo:
        by_voice.setdefault(utterance.voice, []).append(utterance)
    return WorkerSpec(
        slot=slot,
        folder=folder,
        remote=remote,
        source=Path(source).name,
        config=config,
        models={name: f"{name} {voice(name).info.fingerprint}" for name in by_voice},
        samples={name: _sample(utterances) for name, utterances in by_voice.items()},
        shares={name: -(-len(found) // workers) for name, found in by_voice.items()},
        cache=probe_cache.default_folder(),
        prepare_processes=_prepare_processes(slot),
        limit_scale=limit_scale,
    )


def _check_precision(work: Plan, slots: Sequence[Slot], config: Config) -> None:
    """Better said here once than by every worker."""
    for family in {utterance.voice.partition(":")[0] for utterance in work.todo}:
        for device in {slot.device for slot in slots}:
            models.precision(models.adapter(family), device, config.precision)


def _sample(utterances: Sequence[Utterance]) -> Sequence[Utterance]:
    """Evenly spread over the lengths; they come longest first, and the longest is among them."""
    step = max(1, len(utterances) // PROBE_SAMPLES)
    return tuple(utterances[::step][:PROBE_SAMPLES])


def _prepare_processes(slot: Slot) -> int:
    """A GPU speaks faster than one Python thread can do G2P; a CPU slot has its core for both."""
    if slot.device == "cpu":
        return 0
    return max(1, min(MAX_PREPARE_PROCESSES, slot.threads - 1))


def _folders(config: Config, rows: Sequence[Row], prior: Mapping[str, manifest.Prior]) -> bool:
    """Whether the audio is spread over folders: as asked, as before, or by the number of rows."""
    if config.output.layout != "auto":
        return config.output.layout == "folders"
    for earlier in prior.values():
        if earlier.file:
            return earlier.file.count("/") > 1
    return len(rows) > FOLDERS_ABOVE


def _exit_code(counts: Counter[str], stopped_by: Stopper | DeviceError | None) -> Exit:
    """`stopped_by`: what ended the run before all was done; None: nothing did."""
    if stopped_by is not None and stopped_by.exit_code is not None:
        return stopped_by.exit_code
    return Exit.FAILED_ROWS if counts["failed"] else Exit.OK


def _stopper(config: Config) -> Stopper:
    if config.deadline is None:
        return Stopper(None)
    return Stopper(parse_deadline(config.deadline, datetime.now().astimezone()))
