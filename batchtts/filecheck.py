"""The files of a folder against their records, and against each other; nobody listens here."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from batchtts import durations
from batchtts.data import Record
from batchtts.measure import Measured, crc_of, measure
from batchtts.notebook import Notebook
from batchtts.wer import compact

AUDIO = "audio"
"""Folder of the audio files in the output folder."""
PAGE = "measured:1"
"""Counts up when the same bytes would be measured differently."""
LENGTH_SLACK = {".mp3": 0.1}
"""Seconds that a length may be off: MP3 counts whole frames."""
EXACT = 0.001
SAME_AUDIO = "same audio"
"""Of two files with the same bytes, one is wrong; without listening both are named."""
MANNERS = ("steady", "abrupt start", "abrupt end", "leading silence", "trailing silence")
"""Faults that most files of a voice can share: then it sounds so, or was asked to."""
MANNER_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong with a file."""

    kind: str
    """A word or two: "missing", "wrong rate", "silent", "swapped"..."""
    id: str
    """Row that it belongs to; empty for a file without a row."""
    file: str
    """Relative to the output folder."""
    detail: str
    """What was found, with its figures."""


def measure_all(
    folder: Path,
    records: Sequence[Record],
    notebook: Notebook,
    progress: Callable[[int], None],
) -> dict[str, Measured]:
    """Read and measure the files of these records, by id; files that are not there are left out."""
    measured = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = pool.map(lambda record: _measure(folder / record.file, notebook), records)
        for count, (record, result) in enumerate(zip(records, results, strict=True)):
            progress(count)
            if result is None:
                continue
            measured[record.id] = result
            if notebook.get(result.crc32, PAGE) is None:
                notebook.put(result.crc32, PAGE, result.as_dict())
    return measured


def _measure(path: Path, notebook: Notebook) -> Measured | None:
    """Measure a file, unless these very bytes were measured before; None when it is not there."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    known = notebook.get(crc_of(data), PAGE)
    if known is not None:
        return Measured(**{**known, "faults": tuple(known["faults"])})
    return measure(data)


def problems(records: Sequence[Record], measured: Mapping[str, Measured]) -> Iterator[Problem]:
    """All that is wrong with the files of these records, which were measured."""
    manners = _manners(records, measured)
    for record in records:
        found = measured.get(record.id)
        if found is None:
            yield _problem(record, "missing", "there is no such file, or it cannot be read")
            continue
        yield from _against_record(record, found)
        for fault in found.faults:
            kind, _, detail = fault.partition(": ")
            if (record.voice, kind) not in manners:
                yield _problem(record, kind, detail or "by its samples")
    yield from _odd_rates(records, measured)
    yield from _twins(records, measured)
    yield from _odd_durations(records, measured)


def _against_record(record: Record, found: Measured) -> Iterator[Problem]:
    """A file against what its record says of it; the most telling difference."""
    crc32 = record.checks.get("crc32")
    off = found.duration - record.duration
    if found.error:
        yield _problem(record, "unreadable", found.error)
    elif found.sample_rate != record.sample_rate:
        detail = f"{found.sample_rate} Hz, its record says {record.sample_rate} Hz"
        yield _problem(record, "wrong rate", detail)
    elif abs(off) > LENGTH_SLACK.get(Path(record.file).suffix, EXACT):
        detail = f"{found.duration:.3f} s, its record says {record.duration:.3f} s"
        yield _problem(record, "wrong length", detail)
    elif crc32 is not None and crc32 != found.crc32:
        detail = f"checksum {found.crc32}, its record says {crc32}"
        yield _problem(record, "changed", detail)
    if found.channels > 1:
        yield _problem(record, "not mono", f"{found.channels} channels")


def _manners(records: Sequence[Record], measured: Mapping[str, Measured]) -> set[tuple[str, str]]:
    """(voice, fault) of the faults that most files of a voice share."""
    files: Counter[str] = Counter()
    faulty: Counter[tuple[str, str]] = Counter()
    for record in records:
        if record.id in measured:
            files[record.voice] += 1
            kinds = {fault.partition(": ")[0] for fault in measured[record.id].faults}
            faulty.update((record.voice, kind) for kind in kinds.intersection(MANNERS))
    return {key for key, count in faulty.items() if count > MANNER_SHARE * files[key[0]]}


def _odd_rates(records: Sequence[Record], measured: Mapping[str, Measured]) -> Iterator[Problem]:
    """Files whose rate is right by their record, and not the rate of their voice's other files."""
    rates: dict[str, Counter[int]] = defaultdict(Counter)
    right = [r for r in records if r.id in measured and measured[r.id].sample_rate == r.sample_rate]
    for record in right:
        rates[record.voice][record.sample_rate] += 1
    for record in right:
        usual, count = rates[record.voice].most_common(1)[0]
        if record.sample_rate != usual and count > len(right) / 2:
            detail = f"{record.sample_rate} Hz, the other files of {record.voice} have {usual} Hz"
            yield _problem(record, "wrong rate", detail)


def _twins(records: Sequence[Record], measured: Mapping[str, Measured]) -> Iterator[Problem]:
    """Rows that share a file, and files of the same bytes whose rows say different things."""
    by_file: dict[str, Record] = {}
    by_sound: dict[str, Record] = {}
    for record in records:
        if record.id not in measured:
            continue
        first = by_file.setdefault(record.file, record)
        if first is not record:
            yield _problem(record, "shared file", f"it is the file of {first.id} too")
            continue
        first = by_sound.setdefault(measured[record.id].crc32, record)
        if compact(first.text, first.lang) != compact(record.text, record.lang):
            for one, other in ((first, record), (record, first)):
                detail = f"byte for byte the file of {other.id}, which says: {other.text}"
                yield _problem(one, SAME_AUDIO, detail)


def _odd_durations(
    records: Sequence[Record], measured: Mapping[str, Measured]
) -> Iterator[Problem]:
    readable = {r.id: r for r in records if r.id in measured and not measured[r.id].error}
    real = [replace(r, duration=measured[r.id].duration) for r in readable.values()]
    for id, outlier in durations.outliers(real).items():
        yield _problem(readable[id], "duration", str(outlier))


def orphans(folder: Path, records: Iterable[Record]) -> Iterator[Problem]:
    """Files in the audio folder that no record names."""
    known = {record.file for record in records}
    for path in sorted((folder / AUDIO).rglob("*")):
        file = path.relative_to(folder).as_posix()
        if path.is_file() and file not in known:
            yield Problem(kind="orphan", id="", file=file, detail="no row of the manifest names it")


def _problem(record: Record, kind: str, detail: str) -> Problem:
    return Problem(kind=kind, id=record.id, file=record.file, detail=detail)
