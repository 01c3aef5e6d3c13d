"""`batchtts verify`: every file of a folder against its manifest, by figures and by ear.

records -> files measured -> compared with their records and with each other -> heard (extra `asr`)
and scored (extra `qc`) -> problems. What takes time is remembered in DIR/verify.jsonl.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchtts import checks, filecheck, manifest, models, storage
from batchtts.data import Record
from batchtts.errors import BatchttsError, Exit, UsageError
from batchtts.filecheck import Problem
from batchtts.notebook import Notebook
from batchtts.wer import score

if TYPE_CHECKING:
    from rich.console import RenderableType

    from batchtts.asr import AsrChoice
    from batchtts.listening import Progress, Take
    from batchtts.measure import Measured

RESULT = "verify.json"
"""The last result, for the report."""
WORST = 20
"""Rows in the list for human ears."""
SHOWN = 30
"""Problems in the table; all of them are in verify.json."""
UNHEARABLE = ("missing", "unreadable", "steady", *checks.FATAL)
"""There is nothing to listen to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """What listening found out about one row."""

    heard: str | None = None
    """None where nobody listened."""
    wer: float | None = None
    """Word errors per word of the text."""
    cer: float | None = None
    """Character errors per character of the text."""
    mos: Mapping[str, float] = field(default_factory=dict)
    """Opinion scores from 1 (bad) to 5; empty where nobody scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What verify found."""

    folder: Path
    problems: list[Problem]
    counts: dict[str, int]
    """Rows by status; files read, heard and scored."""
    sounds: dict[str, Sound]
    """What listening found out, by id; empty where nobody listened."""
    worst: list[dict[str, Any]]
    """The rows for human ears, the worst first: id, file, text, why, heard, wer, cer, mos."""

    @property
    def exit_code(self) -> Exit:
        """3 when something is wrong."""
        return Exit.FAILED_ROWS if self.problems else Exit.OK

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON has it; `sounds` are left to verify.json."""
        return {
            "folder": str(self.folder),
            "exit_code": int(self.exit_code),
            "counts": self.counts,
            "problems": [asdict(problem) for problem in self.problems],
            "worst": self.worst,
        }


def verify(
    folder: Path,
    *,
    asr: "AsrChoice | None" = None,
    mos: bool = False,
    sample: int | None = None,
    log: Callable[[str], None],
    progress: "Progress" = lambda *_: None,
) -> VerifyResult:
    """Check every file of an output folder.

    Args:
        folder: an output folder with its manifest.
        asr: hear the files with this recogniser; None: do not.
        mos: score how they sound.
        sample: read only so many rows, chosen by chance, always the same; None: all.
        log: gets a line for each thing worth knowing.
        progress: told of each step.

    Raises:
        UsageError: there is no manifest, or no recogniser.
        MissingExtraError: an extra is not installed.
    """
    records = manifest.read(folder)
    if not records:
        message = f"{folder} has no {manifest.JOURNAL}: give the output folder of a run"
        raise UsageError(message)
    spoken = [_with_lang(record) for record in records.values() if record.status == "ok"]
    chosen = _sample(spoken, sample)
    if len(chosen) < len(spoken):
        log(f"{len(chosen)} of {len(spoken)} files are read, chosen by chance")
    with Notebook(folder) as notebook:
        measured = filecheck.measure_all(
            folder, chosen, notebook, lambda done: progress("reading", done, len(chosen))
        )
        problems = list(filecheck.problems(chosen, measured))
        problems += filecheck.orphans(folder, spoken)
        takes = _takes(folder, chosen, measured, problems)
        sounds: dict[str, Sound] = {}
        if asr is not None:
            more, sounds = _listen(takes, spoken, asr, notebook, progress, log)
            problems = _without_rightful(problems, takes, sounds) + more
        if mos:
            sounds = _rate(takes, sounds, notebook, progress)
    counts = {f"rows {s}": n for s, n in Counter(r.status for r in records.values()).items()}
    counts["files read"] = len(measured)
    counts["files heard"] = sum(sound.heard is not None for sound in sounds.values())
    counts["files scored"] = sum(bool(sound.mos) for sound in sounds.values())
    result = VerifyResult(
        folder=folder,
        problems=problems,
        counts=counts,
        sounds=sounds,
        worst=_worst(chosen, problems, sounds),
    )
    _keep(result)
    return result


def _with_lang(record: Record) -> Record:
    """The record with the language of its voice, where it names none."""
    return record if record.lang else replace(record, lang=_own_lang(record.voice))


@cache
def _own_lang(voice: str) -> str:
    """The language that a voice speaks by itself; empty where it is not known here."""
    try:
        family, name = models.split(voice)
        languages = models.adapter(family).voice(name).languages
    except BatchttsError:  # made elsewhere, by a voice that is not installed on this machine
        return ""
    return languages[0] if languages else ""


def _sample(records: list[Record], sample: int | None) -> list[Record]:
    """So many of the records by chance, in their order; the same ones each time."""
    if sample is None or sample >= len(records):
        return records
    places = random.Random(sample).sample(range(len(records)), sample)
    return [records[place] for place in sorted(places)]


def _takes(
    folder: Path,
    records: Sequence[Record],
    measured: "Mapping[str, Measured]",
    problems: Sequence[Problem],
) -> "list[Take]":
    """The files that can be listened to."""
    from batchtts.listening import Take

    mute = {problem.id for problem in problems if problem.kind in UNHEARABLE}
    return [
        Take(record=record, path=folder / record.file, crc32=measured[record.id].crc32)
        for record in records
        if record.id not in mute
    ]


def _listen(
    takes: "Sequence[Take]",
    spoken: Sequence[Record],
    asr: "AsrChoice",
    notebook: Notebook,
    progress: "Progress",
    log: Callable[[str], None],
) -> tuple[list[Problem], dict[str, Sound]]:
    """Hear the files: the problems found, and what was heard by id."""
    from batchtts.listening import Ear

    ear = Ear(asr, notebook, progress)
    known = {take.record.id: take.record for take in takes if ear.knows(take)}
    if len(known) < len(takes):
        log(f"{len(takes) - len(known)} files are in languages that the recogniser does not know")
    texts = {record.id: (record.text, record.lang) for record in spoken}
    found, heard = ear.judge([take for take in takes if take.record.id in known], texts)
    problems = [
        Problem(kind=finding.kind, id=id, file=known[id].file, detail=finding.detail)
        for id, finding in found.items()
    ]
    sounds = {}
    for id, said in heard.items():
        errors = score(known[id].text, said, known[id].lang)
        sounds[id] = Sound(heard=said, wer=round(errors.wer, 4), cer=round(errors.cer, 4))
    return problems, sounds


def _without_rightful(
    problems: Sequence[Problem], takes: "Sequence[Take]", sounds: Mapping[str, Sound]
) -> list[Problem]:
    """Acquit, of the rows with the same audio, the one whose text it says best."""
    crcs = {take.record.id: take.crc32 for take in takes}
    best: dict[str, float] = {}
    for id, sound in sounds.items():
        best[crcs[id]] = min(best.get(crcs[id], 1.0), sound.cer or 0.0)

    def rightful(id: str) -> bool:
        return id in sounds and (sounds[id].cer or 0.0) <= best[crcs[id]]

    return [p for p in problems if p.kind != filecheck.SAME_AUDIO or not rightful(p.id)]


def _rate(
    takes: "Sequence[Take]",
    sounds: Mapping[str, Sound],
    notebook: Notebook,
    progress: "Progress",
) -> dict[str, Sound]:
    """Score how the files sound, and lay the scores beside what was heard."""
    from batchtts.listening import rate

    rated = dict(sounds)
    for id, scores in rate(takes, notebook, progress).items():
        said = sounds.get(id, Sound())
        rated[id] = Sound(heard=said.heard, wer=said.wer, cer=said.cer, mos=scores)
    return rated


def _worst(
    records: Sequence[Record], problems: Sequence[Problem], sounds: Mapping[str, Sound]
) -> list[dict[str, Any]]:
    """The rows that a person should listen to, the worst first."""
    why: dict[str, list[str]] = {}
    for problem in problems:
        why.setdefault(problem.id, []).append(f"{problem.kind}: {problem.detail}")

    def badness(record: Record) -> tuple[bool, float, float]:
        sound = sounds.get(record.id, Sound())
        return (record.id in why, sound.cer or 0.0, -sound.mos.get("overall", 5.0))

    def doubtful(record: Record) -> bool:
        suspect = str(record.checks.get("verdict", "ok")) != "ok"
        return suspect or record.id in why or record.id in sounds

    ranked = sorted(filter(doubtful, records), key=badness, reverse=True)
    return [
        {
            "id": record.id,
            "file": record.file,
            "text": record.text,
            "why": why.get(record.id) or [str(record.checks.get("verdict", "ok"))],
            **asdict(sounds.get(record.id, Sound())),
        }
        for record in ranked[:WORST]
    ]


def _keep(result: VerifyResult) -> None:
    """Write verify.json, whole or not at all."""
    content = result.as_dict() | {"sounds": {id: asdict(s) for id, s in result.sounds.items()}}
    line = json.dumps(content, ensure_ascii=False) + "\n"
    storage.replace(result.folder / RESULT, [line.encode("utf-8", "backslashreplace")])


def render(result: VerifyResult) -> "RenderableType":
    """The result as a person reads it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    figures = Text(", ".join(f"{count} {name}" for name, count in result.counts.items() if count))
    kinds = Counter(problem.kind for problem in result.problems)
    if not kinds:
        return Group(figures, "nothing is wrong")
    table = Table("problem", "row", "file", "what was found", box=None, pad_edge=False)
    for problem in result.problems[:SHOWN]:  # as Text: a row's own words are no markup
        table.add_row(*map(Text, (problem.kind, problem.id, problem.file, problem.detail)))
    rest = len(result.problems) - SHOWN
    more = [Text(f"and {rest} more, all in {result.folder / RESULT}")] if rest > 0 else []
    total = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return Group(figures, table, *more, Text(f"wrong: {total}", style="bold"))
