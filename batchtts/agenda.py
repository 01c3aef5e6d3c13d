"""Reads the input and what earlier runs did, and makes the plan of a run."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from batchtts import audiocache, inputs, manifest, places, plan, shards
from batchtts.config import Config
from batchtts.data import Row
from batchtts.options import Options
from batchtts.places import Place
from batchtts.plan import Plan
from batchtts.shards import Coverage
from batchtts.voices import expected_seconds, voice_finder

FOLDERS_ABOVE = 5000
"""More rows than this are spread over folders, unless the config or an earlier run says how."""


@contextmanager
def as_file(source: str) -> Iterator[str]:
    """A path that can be read more than once: standard input is kept in a temporary file."""
    if source != inputs.STDIN:
        yield source
        return
    with TemporaryDirectory(prefix="batchtts-") as folder:
        yield str(inputs.spool_stdin(Path(folder)))


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


def _folders(config: Config, rows: Sequence[Row], prior: Mapping[str, manifest.Prior]) -> bool:
    """Whether the audio is spread over folders: as asked, as before, or by the number of rows."""
    if config.output.layout != "auto":
        return config.output.layout == "folders"
    for earlier in prior.values():
        if earlier.file:
            return earlier.file.count("/") > 1
    return len(rows) > FOLDERS_ABOVE


def take_from_cache(
    work: Plan,
    config: Config,
    options: Options,
    source: str,
    books: Path,
    place: Place,
    stop: Callable[[], int],
) -> int:
    """Take what other runs have spoken out of the work; returns how many utterances that were."""
    cache = audiocache.open_cache(config.output.cache)
    if cache is None or options.fresh:
        return 0
    before = len(work.todo)
    name = Path(source).name
    work.todo = audiocache.fetch_all(cache, work.todo, name, books, place, stop)
    work.seconds = sum(map(expected_seconds, work.todo))
    return before - len(work.todo)
