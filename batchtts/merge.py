"""`batchtts merge`: the books of all shards -> one manifest, failed.csv and summary.

First it is proved that every row of the input is in exactly one shard: each shard recorded how many
rows the whole input has and a digest of their ids, and the records must add up to both. The journals
of shards that ended are in input order, so they are merged line by line, whatever their size.
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import merge as merge_sorted
from itertools import product
from pathlib import Path
from typing import Any

from batchtts import manifest, shards, storage, summary
from batchtts.data import Record
from batchtts.errors import Exit, IncompleteError, UsageError
from batchtts.folder import OutputFolder
from batchtts.places import Place
from batchtts.shards import Coverage, Shard
from batchtts.summary import Summary

SUMS = (
    *("spoken", "kept", "copied", "gone", "audio_seconds", "positions", "batches", "ooms"),
    *("retries", "suspects", "restarts"),
)
"""Figures of the summary that add up over the shards."""
COUNTERS = ("counts", "batch_sizes", "reasons")
"""Those that add up key by key."""

Facts = Mapping[str, Any]
"""A summary.json as it was read."""


def merge(place: Place) -> Summary:
    """Make one run of the shards under an output folder; can be repeated.

    Raises:
        UsageError: there are no shards, or of more than one run.
        IncompleteError: shards are missing, have not ended, or do not cover the input; nothing is
            written.
    """
    folder = place.folder
    with OutputFolder(folder):
        place.collect()
        found = shards.find(folder)
        totals = sorted({shard.total for shard in found})
        if len(totals) != 1:
            divided = " and ".join(map(str, totals))
            held = f"shards of runs that were divided by {divided}" if found else "no shards"
            message = f"there are {held} under {folder / shards.FOLDER}"
            raise UsageError(message)
        parts = _ended(folder, found)
        _prove_coverage(folder, parts)
        manifest.compact(folder, _records(folder, parts))
        manifest.write_csv(folder, manifest.records(folder))
        _write_failed(folder, parts)
        storage.remove_leftovers(folder)
        merged = _add_up(parts)
        merged.write(folder)
        place.publish(folder)
        return merged


def _ended(folder: Path, found: list[Shard]) -> dict[Shard, Facts]:
    """Every shard's summary.

    Raises:
        IncompleteError: names each shard without one, or stopped before its end.
    """
    total = found[0].total
    parts: dict[Shard, Facts] = {}
    lacking = []
    for shard in (Shard(number, total) for number in range(total)):
        books = shard.folder(folder)
        try:
            parts[shard] = json.loads((books / summary.FILE).read_text(encoding="utf-8"))
            why = "" if parts[shard]["outcome"] == "done" else "was stopped before its end"
        except FileNotFoundError:
            why = "has not ended: it was killed, or it still works"
            why = why if books.exists() else "is missing"
        except (ValueError, KeyError):
            why = f"has a broken {summary.FILE}"
        if why:
            lacking.append(f"shard {shard.number}/{total} {why}")
    if lacking:
        message = "\n".join([*lacking, f"run these again with --shard i/{total}, then merge"])
        raise IncompleteError(message)
    return parts


def _prove_coverage(folder: Path, parts: Mapping[Shard, Facts]) -> None:
    """See that each row of the input has one record.

    Raises:
        IncompleteError: it has not; says which shards to run again.
    """
    inputs = {(part["shard"]["rows"], part["shard"]["digest"]) for part in parts.values()}
    if len(inputs) > 1:
        seen = "\n".join(
            f"shard {shard.number}/{shard.total}: {part['shard']['rows']} rows, ids "
            f"{part['shard']['digest']}"
            for shard, part in parts.items()
        )
        message = f"the shards did not read the same input:\n{seen}"
        raise IncompleteError(message)
    everything = Coverage()
    for shard, part in parts.items():
        before, own, in_place = 0, 0, True
        for record in manifest.records(shard.folder(folder)):
            in_place = in_place and _line(record) > before and shard.owns(record.id)
            before, own = _line(record), own + 1
            everything.add(record.id)
        if not in_place or own != sum(part["counts"].values()):
            path = shard.folder(folder) / manifest.JOURNAL
            message = f"{path} is not as its run left it; {_again(shard)}"
            raise IncompleteError(message)
    whole = next(iter(parts.values()))["shard"]
    if whole != whole | everything.facts():
        message = (
            f"the shards hold {everything.rows} records for the {whole['rows']} rows of the input"
        )
        raise IncompleteError(message)


def _again(shard: Shard) -> str:
    return f"run it again with --shard {shard.number}/{shard.total}, then merge"


def _line(record: Record) -> int:
    return int(record.source.rpartition(":")[2])


def _records(folder: Path, parts: Mapping[Shard, Facts]) -> Iterator[Record]:
    """All records in input order."""
    return merge_sorted(*(manifest.records(s.folder(folder)) for s in parts), key=_line)


def _write_failed(folder: Path, parts: Mapping[Shard, Facts]) -> None:
    """The failed rows of all shards in input order, with the columns of the input."""
    tables = {shard: _failed_rows(shard.folder(folder)) for shard in parts}
    columns: dict[str, None] = {}
    for table in tables.values():
        columns |= dict.fromkeys(next(table))
    columns.pop("reason", None)

    def rows() -> Iterator[dict[str, str]]:
        for record in manifest.records(folder):
            if record.status != "failed":
                continue
            shard = next(shard for shard in parts if shard.owns(record.id))
            row = next(tables[shard], None)
            if row is None:
                message = f"{shard.folder(folder) / manifest.FAILED} lacks rows; {_again(shard)}"
                raise IncompleteError(message)
            yield row

    manifest.write_failed(folder, rows(), [*columns, "reason"])


def _failed_rows(books: Path) -> Iterator[dict[str, str]]:
    """The columns of a shard's failed.csv, then its rows."""
    try:
        with (books / manifest.FAILED).open(encoding="utf-8-sig", newline="") as file:
            csv.field_size_limit(sys.maxsize)  # a text may be too long for anything else too
            reader = csv.DictReader(file)
            yield dict.fromkeys(reader.fieldnames or (), "")
            yield from reader
    except FileNotFoundError:
        yield {}


def _add_up(parts: Mapping[Shard, Facts]) -> Summary:
    """One summary: the shards worked side by side, so the slowest one's time is the run's."""
    counters = {name: Counter[str]() for name in COUNTERS}
    for name, part in product(COUNTERS, parts.values()):
        counters[name].update(part[name])
    merged = Summary(
        outcome="done",
        exit_code=Exit.FAILED_ROWS if counters["counts"]["failed"] else Exit.OK,
        counts=dict(counters["counts"]),
        reasons=dict(counters["reasons"].most_common()),
        batch_sizes=dict(sorted(counters["batch_sizes"].items(), key=lambda size: int(size[0]))),
        **{name: sum(part[name] for part in parts.values()) for name in SUMS},
    )
    merged.add_times(merged.audio_seconds, max(part["wall_seconds"] for part in parts.values()))
    padded = sum(part["padding_share"] * part["positions"] for part in parts.values())
    merged.padding_share = round(padded / merged.positions, 4) if merged.positions else 0.0
    merged.batch_choice = _common(parts, "batch_choice")
    merged.precision = _common(parts, "precision")
    merged.devices = {
        f"{shard.name}/{slot}": shares
        for shard, part in parts.items()
        for slot, shares in part["devices"].items()
    }
    return merged


def _common(parts: Mapping[Shard, Facts], name: str) -> str:
    return "; ".join(dict.fromkeys(part[name] for part in parts.values() if part[name]))
