"""Keeps the books of a run: commits records, copies twins, and writes the tables at the end.

It is the coordinator's watcher and the only writer of the manifest.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from batchtts import inputs, manifest, storage
from batchtts.config import Config
from batchtts.data import Record, Utterance
from batchtts.monitor import Monitor
from batchtts.places import Place
from batchtts.plan import Plan, record_of
from batchtts.progress import Screen, Tally
from batchtts.times import now

log = logging.getLogger("batchtts")

TIMELINE_POINTS = 500


class Recorder:
    """See `batchtts.coordinator.Watcher`; a context manager around the work."""

    def __init__(
        self,
        books: Path,
        place: Place,
        source: str,
        work: Plan,
        expected: Callable[[Utterance], float],
        screen: Screen,
        monitor: Monitor,
    ) -> None:
        """`source` is the input's path, `expected` tells the seconds an utterance should last.

        The journal is in the folder `books`, the audio in `place`.
        """
        self._books = books
        self._place = place
        self._source = Path(source).name
        self._work = work
        self._expected = expected
        self._screen = screen
        self._monitor = monitor
        self._stack = ExitStack()
        self._journal = manifest.Journal(books)
        self._pending: list[Record] = []
        self._copies: list[tuple[str, str]] = []
        self._twins: dict[str, list[Utterance]] = {}
        for twin in work.twins:
            self._twins.setdefault(twin.of, []).append(twin.utterance)
        self._timeline_step = 1.0
        self.tally = Tally(utterances=len(work.todo), seconds=work.seconds)
        self.timeline: list[tuple[float, int, float]] = []
        """(seconds since the start, utterances so far, audio seconds so far)."""
        self.copied = 0
        """Files that are copies of another one."""

    def __enter__(self) -> Self:
        """Open the journal and the screen, and commit what needs no worker."""
        with ExitStack() as stack:
            stack.enter_context(self._journal)
            stack.enter_context(self._screen)
            removed = storage.remove_leftovers(self._books)
            if removed:
                log.info("removed %d unfinished files of an earlier run", removed)
            self._pending += self._work.settled
            spoken = {utterance.id for utterance in self._work.todo}
            kept = [id for id in self._twins if id not in spoken]
            for record in manifest.read_in_order(self._books, kept):
                self._copy_twins(record)
            self._flush()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:
            self._flush()

    # What the coordinator tells -------------------------------------------------------------------

    def commit(self, utterance: Utterance, record: Record) -> None:
        """See `batchtts.coordinator.Watcher`."""
        self._pending.append(record)
        self.tally.add(record, self._expected(utterance))
        if record.status == "failed":
            log.warning("%s failed: %s", record.id, record.reason)
        self._copy_twins(record)

    def give_up(self, utterance: Utterance, reason: str) -> None:
        """See `batchtts.coordinator.Watcher`."""
        record = record_of(utterance, self._source, status="failed", reason=reason)
        self.commit(utterance, record)

    def device(self, label: str, uuid: str) -> None:
        """See `batchtts.coordinator.Watcher`."""
        self._monitor.watch(label, uuid)

    def event(self, text: str, *, aloud: bool = False) -> None:
        """See `batchtts.coordinator.Watcher`."""
        log.info("%s", text)
        if aloud:
            self._screen.say(text)

    def tick(self) -> None:
        """See `batchtts.coordinator.Watcher`."""
        self._flush()
        load = "; ".join(map(str, self._monitor.latest()))
        self._screen.refresh(self.tally, load)
        elapsed = self.tally.elapsed()
        if not self.timeline or elapsed > self.timeline[-1][0] + self._timeline_step:
            self.timeline.append((round(elapsed, 2), self.tally.done, round(self.tally.audio, 2)))
            if len(self.timeline) > TIMELINE_POINTS:  # half as fine from here on
                del self.timeline[1::2]
                self._timeline_step *= 2

    def _flush(self) -> None:
        if self._pending:
            copies, self._copies = self._copies, []
            self._place.copy(copies)
            pending, self._pending = self._pending, []
            self._journal.append_all(pending)

    def _copy_twins(self, record: Record) -> None:
        """Give the utterances that say the same the same file, or the same failure."""
        for twin in self._twins.pop(record.id, ()):
            file = ""
            if record.status == "ok":
                file = twin.file
                self._copies.append((record.file, file))
                self.copied += 1
            self._pending.append(
                record_of(
                    twin,
                    self._source,
                    status=record.status,
                    reason=record.reason,
                    file=file,
                    duration=record.duration,
                    sample_rate=record.sample_rate,
                    model=record.model,
                    seed=record.seed,
                    attempts=0,
                    device=record.device,
                    checks={**record.checks, "copy_of": record.id},
                    finished_at=now(),
                )
            )


def write_tables(
    folder: Path, source: str, config: Config, work: Plan, *, complete: bool
) -> tuple[Counter[str], Counter[str], int]:
    """Write manifest.csv and failed.csv, and tidy the journal of a complete run.

    Returns:
        Rows by status; reasons of failed and skipped rows; suspect files.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    failed: dict[str, str] = {}
    suspects = 0

    def counted(records: Iterable[Record]) -> Iterator[Record]:
        nonlocal suspects
        for record in records:
            counts[record.status] += 1
            suspects += str(record.checks.get("verdict", "")).startswith("suspect")
            if record.status != "ok":
                reasons[record.reason] += 1
            if record.status == "failed":
                failed[record.id] = record.reason
            yield record

    if complete:
        manifest.tidy(folder, work.ids)
        records = counted(manifest.records(folder))
    else:
        records = counted(manifest.read_in_order(folder, work.ids))
    if work.shard:  # its manifest.csv would be in the wrong place for its files: `merge` writes it
        deque(records, maxlen=0)
    else:
        manifest.write_csv(folder, records)
    _write_failed(folder, source, config, work, failed)
    missing = len(work.ids) - counts.total()
    if missing:
        counts["unfinished"] = missing
    return counts, reasons, suspects


def _write_failed(
    folder: Path, source: str, config: Config, work: Plan, failed: dict[str, str]
) -> None:
    """The failed rows with the input's own columns and the reason, to mend and run again."""
    reasons = {
        index: failed[id] for id, index in zip(work.ids, work.indexes, strict=True) if id in failed
    }
    rows = [
        {**cells, "reason": reasons[index]}
        for index, cells in inputs.read_cells(source, config.input, reasons)
    ]
    columns = dict.fromkeys(column for row in rows for column in row if column != "reason")
    manifest.write_failed(folder, rows, [*columns, "reason"])
