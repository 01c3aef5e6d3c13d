"""READ FIRST. The program: inputs -> plan -> coordinator over a crew of workers -> summary."""

import logging
import os
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

from batchtts import manifest, places, shards, storage, summary
from batchtts.agenda import make_plan, take_from_cache
from batchtts.config import Config
from batchtts.coordinator import Coordinator, Outcome
from batchtts.crew import gather
from batchtts.errors import DeviceError, Exit
from batchtts.folder import OutputFolder
from batchtts.leases import LeaseBook
from batchtts.monitor import Monitor
from batchtts.options import Options
from batchtts.plan import Plan
from batchtts.progress import Screen
from batchtts.recorder import Recorder, write_tables
from batchtts.status import plan_line
from batchtts.stop import Stopper, parse_deadline
from batchtts.summary import Summary
from batchtts.voices import expected_seconds, voice

log = logging.getLogger("batchtts")

RECYCLE_BYTES = 12 * 2**30
"""A worker that holds more host memory than this leaks, and is replaced."""


def generate(
    source: str, config: Config, folder: Path, options: Options, screen: Screen
) -> Summary:
    """Speak a whole input into an output folder.

    `source` is a path; `config.output` is resolved.

    Raises:
        BatchttsError: nothing can be done, or not to the end; what was done stays done.
    """
    started = time.monotonic()
    books = shards.books(folder, options.shard)
    with OutputFolder(books), _stopper(config) as stop:
        _begin(books, options)
        place = places.at(folder, options.remote, screen.say)
        work = make_plan(source, config, folder, options, screen.say)
        _announce(work, screen)
        cached = take_from_cache(work, config, options, source, books, place, stop.stage)
        crew = gather(work, config, source, folder, options)
        with (
            Monitor() as monitor,
            Recorder(books, place, source, work, expected_seconds, screen, monitor) as recorder,
        ):
            coordinator = Coordinator(
                LeaseBook(work.todo, expected_seconds),
                crew.pool,
                crew.slots,
                crew.spec_of,
                recorder,
                stop,
                recycle_bytes=RECYCLE_BYTES,
                joined=crew.joined,
            )
            complete, failure = _run(coordinator)
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


def _begin(books: Path, options: Options) -> None:
    """Forget what must not be taken for this run's."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded unless the user asks
    storage.discard(books / summary.FILE)  # or a killed run would seem to have ended
    if options.fresh:
        manifest.forget(books)


def _announce(work: Plan, screen: Screen) -> None:
    log.info("%s", plan_line(len(work.ids), len(work.todo), work.seconds))
    for name in {utterance.voice: None for utterance in work.todo}:
        info = voice(name).info
        if info.non_commercial:
            screen.say(f"{name}: its weights are {info.license}: not for commercial use")
    if work.shard:
        screen.say(f"shard {work.shard['name']}: {len(work.ids)} of {work.shard['rows']} rows")


def _run(coordinator: Coordinator) -> tuple[bool, DeviceError | None]:
    """Whether all was done; without devices the books are closed too, and the error comes last."""
    try:
        return coordinator.run() is Outcome.DONE, None
    except DeviceError as error:
        return False, error


def _exit_code(counts: Counter[str], stopped_by: Stopper | DeviceError | None) -> Exit:
    """`stopped_by`: what ended the run before all was done; None: nothing did."""
    if stopped_by is not None and stopped_by.exit_code is not None:
        return stopped_by.exit_code
    return Exit.FAILED_ROWS if counts["failed"] else Exit.OK


def _stopper(config: Config) -> Stopper:
    if config.deadline is None:
        return Stopper(None)
    return Stopper(parse_deadline(config.deadline, datetime.now().astimezone()))
