"""Who does the work of a run: the pool, its slots, and what each worker is told."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from batchtts import cpu_split, devices, models, probe_cache, shards, worker
from batchtts.config import Config
from batchtts.data import Utterance
from batchtts.devices import CpuSplit, Slot
from batchtts.errors import MissingExtraError
from batchtts.folder import LOCK
from batchtts.options import Options
from batchtts.plan import Plan
from batchtts.pools.base import Pool
from batchtts.pools.local import LocalPool
from batchtts.probe_cache import ProbeKey
from batchtts.spec import WorkerSpec
from batchtts.voices import voice

PROBE_SAMPLES = 128
"""Most texts of a voice that the probe may use."""
MAX_PREPARE_PROCESSES = 8


@dataclass(frozen=True, slots=True)
class Crew:
    """A pool and its slots."""

    pool: Pool
    slots: Sequence[Slot]
    joined: Callable[[], Sequence[Slot]]
    """Tells of slots that join during the run."""
    spec_of: Callable[[Slot, float], WorkerSpec]
    """What the worker of a slot is told; the second argument is its limit scale."""


def gather(work: Plan, config: Config, source: str, folder: Path, options: Options) -> Crew:
    """Find the devices for a plan; no worker starts yet.

    Raises:
        DeviceError: a device that is asked for is not there.
        ConfigError: the precision that is asked for is not safe there.
        MissingExtraError: the pool needs an extra.
    """
    pool, slots, joined = _open_pool(work, config, folder, options)
    spec_of = partial(
        worker_spec,
        work=work,
        workers=len(slots),
        config=config,
        folder=folder,
        remote=options.remote,
        source=source,
    )
    return Crew(pool, slots, joined, spec_of)


def _open_pool(
    work: Plan, config: Config, folder: Path, options: Options
) -> tuple[Pool, Sequence[Slot], Callable[[], Sequence[Slot]]]:
    if not work.todo:
        return LocalPool(worker.run), (), tuple
    if options.pool == "ray":
        try:
            from batchtts.pools.ray import RayPool
        except ModuleNotFoundError as error:
            raise MissingExtraError("--pool ray", "ray") from error
        # Audio that goes to an object store needs no folder that all nodes share.
        lock = None if options.remote else shards.books(folder, options.shard) / LOCK
        pool = RayPool(worker.run, config.devices, lock)
        return pool, pool.joined(), pool.joined
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


def _check_precision(work: Plan, slots: Sequence[Slot], config: Config) -> None:
    """Better said here once than by every worker."""
    for family in {utterance.voice.partition(":")[0] for utterance in work.todo}:
        for device in {slot.device for slot in slots}:
            models.precision(models.adapter(family), device, config.precision)


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


def _sample(utterances: Sequence[Utterance]) -> Sequence[Utterance]:
    """Evenly spread over the lengths; they come longest first, and the longest is among them."""
    step = max(1, len(utterances) // PROBE_SAMPLES)
    return tuple(utterances[::step][:PROBE_SAMPLES])


def _prepare_processes(slot: Slot) -> int:
    """A GPU speaks faster than one Python thread can do G2P; a CPU slot has its core for both."""
    if slot.device == "cpu":
        return 0
    return max(1, min(MAX_PREPARE_PROCESSES, slot.threads - 1))
