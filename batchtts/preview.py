"""`batchtts generate --dry-run`: what a run would do, without loading a model."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from batchtts import models, prepare
from batchtts.agenda import make_plan
from batchtts.config import Config
from batchtts.models.base import Frontend
from batchtts.options import Options
from batchtts.times import clock

SHOWN = 10
"""Problems and texts that are shown."""
PREPARED = 200
"""Rows that go through the front end, to find texts that the voice cannot say."""
DEFAULT_BATCH_SECONDS = 60.0
"""Audio in a batch where nothing was measured yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a run would do."""

    rows: int
    kept: int
    to_speak: int
    copies: int
    settled: Counter[str]
    """Rows that end without being spoken, by reason."""
    seconds: float
    """Expected audio."""
    batches: int
    """About so many."""
    voices: Counter[str]
    gone: int
    refused: tuple[str, ...]
    """Of the first rows, those that the voice cannot say: "source: reason"."""
    prepared: int
    """So many rows went through the front end."""
    texts: tuple[tuple[str, str], ...]
    """The first rows as they would be spoken: (id, text)."""


def preview(
    source: str, config: Config, folder: Path, options: Options, say: Callable[[str], None]
) -> Preview:
    """Plan a run and try its first texts on the voice's front end.

    Raises:
        InputError: the input cannot be used.
    """
    work = make_plan(source, config, folder, options, say)
    first = sorted(work.todo, key=lambda utterance: utterance.index)[:PREPARED]
    frontends: dict[str, Frontend] = {}
    refused = []
    for utterance in first:
        if utterance.voice not in frontends:
            family, name = models.split(utterance.voice)
            frontends[utterance.voice] = models.adapter(family).frontend(name)
        result = prepare.prepare(frontends[utterance.voice], utterance, config)
        if isinstance(result, prepare.Refused):
            refused.append(
                f"line {utterance.line}, {utterance.id}: {result.status}, {result.reason}"
            )
    size = config.batch.size
    batches = work.seconds / DEFAULT_BATCH_SECONDS if size == "auto" else len(work.todo) / size
    return Preview(
        rows=len(work.ids),
        kept=work.kept,
        to_speak=len(work.todo),
        copies=len(work.twins),
        settled=Counter(record.reason for record in work.settled),
        seconds=work.seconds,
        batches=-int(-batches // 1),
        voices=Counter(utterance.voice for utterance in work.todo),
        gone=len(work.gone),
        refused=tuple(refused),
        prepared=len(first),
        texts=tuple((utterance.id, utterance.text) for utterance in first[:SHOWN]),
    )


def render(found: Preview) -> Table:
    """The preview as a person reads it."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("rows", str(found.rows))
    table.add_row("to speak", f"{found.to_speak}, about {clock(found.seconds)} of audio")
    table.add_row("batches", f"about {found.batches}")
    for name, count in ((("done before"), found.kept), ("copies", found.copies)):
        if count:
            table.add_row(name, str(count))
    for voice, count in found.voices.most_common():
        table.add_row("voice", escape(f"{voice}: {count}"))
    for reason, count in found.settled.most_common(SHOWN):
        table.add_row("not spoken", escape(f"{count} x {reason}"))
    if found.gone:
        table.add_row("gone", f"{found.gone} ids of the manifest are no longer in the input")
    for line in found.refused[:SHOWN]:
        table.add_row("refused", escape(line))
    if len(found.refused) > SHOWN:
        more = len(found.refused) - SHOWN
        table.add_row("refused", f"and {more} more of the first {found.prepared} rows")
    for id, text in found.texts:
        table.add_row("text", escape(f"{id}: {text}"))
    return table
