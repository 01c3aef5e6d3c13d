"""A file of texts, opened: its kind, what parts its cells, its header, and its lines by column."""

import csv
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from batchtts.config import Columns, InputConfig
from batchtts.encoding import choose_encoding
from batchtts.errors import InputError
from batchtts.readers import Line, Log, csv_rows, json_lines, sheet_rows, text_lines

KINDS = {
    ".txt": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".psv": "psv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "xlsx",
}
"""End of a file's name -> its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file, opened."""

    columns: tuple[str, ...]
    """Names of the columns; without a header they are called by their role or number."""
    lines: Iterator[Line]
    header_lines: int = 0
    """Lines of the file that name the columns."""
    varying: bool = False
    """A record may have other columns than the first one (JSON)."""
    numbered_by_line: bool = False
    """Records without an id are called by their line (.txt), otherwise by their number."""


def open_table(path: Path, config: InputConfig, needed: Collection[str], log: Log) -> Table:
    """Open a file of texts.

    Args:
        path: the file.
        config: how to read it.
        needed: the columns that make the text; a first row that holds one of them is a header.
        log: gets one line for each choice that the file left open.

    Raises:
        InputError: it does not exist, its kind is unknown, or its encoding, header or quoting is
            broken. Quoting faults come up while the lines are read.
        MissingExtraError: a sheet cannot be read without the extra "xlsx".
    """
    kind = _kind(path, config)
    if kind == "xlsx":
        return _table(path, config, needed, log, sheet_rows(path, log), "")
    encoding = choose_encoding(path, config.encoding, log)
    if _is_failed_csv(path, encoding):
        kind, config = "csv", config.model_copy(update={"header": "yes", "delimiter": ","})
    if kind == "txt":
        column = config.columns.text
        lines = text_lines(path, encoding, column)
        return Table(columns=(column,), lines=lines, numbered_by_line=True)
    if kind == "jsonl":
        return _json_table(path, encoding, needed)
    delimiter = config.delimiter or {"tsv": "\t", "psv": "|"}.get(kind)
    if delimiter is None:
        delimiter = _find_delimiter(path, encoding, needed)
        if delimiter != ",":
            log(f"{path}: the cells are parted by {_name(delimiter)}, as its first line shows")
    rows = csv_rows(path, encoding, delimiter)
    return _table(path, config, needed, log, rows, delimiter)


def _kind(path: Path, config: InputConfig) -> str:
    _check_readable(path)
    if config.kind != "auto":
        return config.kind
    if path.suffix.lower() not in KINDS:
        message = (
            f"{path}: what kind of file is it? Its name must end in {', '.join(KINDS)}, "
            "or the config must say it: `input: {kind: csv}`"
        )
        raise InputError(message)
    return KINDS[path.suffix.lower()]


def _check_readable(path: Path) -> None:
    folder = path.parent
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            path.open("rb").close()
            return
        if stat.S_ISDIR(mode):
            what, folder = "is a folder", path
        else:
            what = "is no plain file; standard input is -"
    except FileNotFoundError:
        what = "does not exist"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    there = sorted(p.name for p in folder.glob("*") if p.suffix.lower() in KINDS)
    hint = f"; in its folder are {', '.join(there[:10])}" if there else ""
    message = f"{path} {what}{hint}"
    raise InputError(message)


def _is_failed_csv(path: Path, encoding: str) -> bool:
    """Whether it has the form of our failed.csv: then that counts, whatever the config says."""
    if path.suffix.lower() != ".csv":
        return False
    with path.open(encoding=encoding, newline="") as file:
        names = _first_cells(file.readline(100_000), ",")
    return len(names) > 1 and names[-1] == "reason"


def _first_cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])


def _json_table(path: Path, encoding: str, needed: Collection[str]) -> Table:
    lines = json_lines(path, encoding)
    first = next(lines, None)
    # Where the first line is broken, the columns are taken on trust; each row has its own problem.
    columns = needed if first is None or first.problem else first.cells
    return Table(columns=tuple(columns), lines=chain([first] if first else [], lines), varying=True)


def _find_delimiter(path: Path, encoding: str, needed: Collection[str]) -> str:
    """What makes a needed column appear in the first line, else what is there most often."""
    with path.open(encoding=encoding, newline="") as file:
        line = file.readline(1_000_000)
    for delimiter in ",;\t|":
        if any(match(name, _first_cells(line, delimiter)) for name in needed):
            return delimiter
    return max(",;\t|", key="".join(line.split('"')[::2]).count)


def _name(delimiter: str) -> str:
    return {"\t": "tabs", " ": "spaces"}.get(delimiter, delimiter)


def match(name: str, columns: Collection[str]) -> str | None:
    """The column of this name; letter case and spaces around it do not matter."""
    if name in columns:
        return name
    return next((c for c in columns if c.strip().casefold() == name.strip().casefold()), None)


def _table(
    path: Path,
    config: InputConfig,
    needed: Collection[str],
    log: Log,
    rows: Iterator[tuple[int, list[str]]],
    delimiter: str,
) -> Table:
    """Find the header of rows of cells; rows whose cells are all blank are no rows."""
    rows = ((number, cells) for number, cells in rows if any(map(str.strip, cells)))
    first = next(rows, None)
    if first is None:
        return Table(columns=(), lines=iter(()))
    number, cells = first
    if config.header == "yes" or (config.header == "auto" and _is_header(cells, config, needed)):
        columns = _column_names(path, number, cells)
        if delimiter == "|":
            log(f"{path}:{number}: the first row names the columns: {_short(cells)}")
        return Table(columns=columns, lines=_lines(rows, columns, delimiter), header_lines=1)
    # A pipe file (LJSpeech) has no header by custom; any other table has one.
    if config.header == "auto" and delimiter != "|":
        raise InputError(_no_header(path, number, cells, needed))
    sample = [first, *islice(rows, 1000)]
    counts = Counter(len(cells) for _, cells in sample)
    width = min(counts, key=lambda n: (-counts[n], n))
    asked_for = [int(name) for name in config.columns.model_dump().values() if name.isdecimal()]
    columns = _positions(max(width, *asked_for, 1), config.columns)
    log(f"{path}: no header; its columns are {', '.join(columns)}")
    return Table(columns=columns, lines=_lines(chain(sample, rows), columns, delimiter))


def _is_header(cells: list[str], config: InputConfig, needed: Collection[str]) -> bool:
    known = {*needed, config.columns.text, config.columns.id}
    return any(match(name, cells) for name in known)


def _column_names(path: Path, number: int, cells: list[str]) -> tuple[str, ...]:
    names = tuple(cell.strip() or f"column {i}" for i, cell in enumerate(cells, 1))
    for name, count in Counter(names).items():
        if count > 1:
            message = f"{path}:{number}: {count} columns are called {name!r}; rename all but one"
            raise InputError(message)
    return names


def _no_header(path: Path, number: int, cells: list[str], needed: Collection[str]) -> str:
    wanted = ", ".join(map(repr, needed))
    other = next((mark for mark in ";\t|," if len(cells) == 1 and mark in cells[0]), None)
    parted = (
        f' If {_name(other)} part its cells, set `input: {{delimiter: "{other}"}}`.'
        if other
        else ""
    )
    return (
        f"{path}:{number}: the first row names no column {wanted}; it is: {_short(cells)}.{parted} "
        "Name the columns in the config, `input: {columns: {id: ..., text: ...}}`, or say that it "
        "is no header, `input: {header: no}`"
    )


def _short(cells: Collection[str]) -> str:
    text = " | ".join(cells)
    return text if len(text) <= 120 else text[:117] + "..."


def _positions(width: int, columns: Columns) -> tuple[str, ...]:
    """Names of columns without a header: id and text first, the others by number, from "1".

    A config that asks for the text in "3" gets it there, and the id still stands in the first.
    """
    names = [str(i + 1) for i in range(width)]
    if width > 1 and not columns.id.isdigit() and columns.text != "1":
        names[0] = columns.id
    if not columns.text.isdigit():
        names[min(1, width - 1)] = columns.text
    return tuple(names)


def _lines(
    rows: Iterator[tuple[int, list[str]]], columns: tuple[str, ...], delimiter: str
) -> Iterator[Line]:
    width = len(columns)
    for number, cells in rows:
        if len(cells) == width:
            yield Line(number, dict(zip(columns, cells, strict=True)))
        elif len(cells) > width and not any(map(str.strip, cells[width:])):
            yield Line(number, dict(zip(columns, cells, strict=False)))  # a spreadsheet's blanks
        else:
            yield _odd_line(number, cells, columns, delimiter)


def _odd_line(number: int, cells: list[str], columns: tuple[str, ...], delimiter: str) -> Line:
    width = len(columns)
    problem = f"{len(cells)} cells where there are {width} columns"
    if len(cells) > width and delimiter == "|":
        problem += "; a text in a pipe file cannot hold |"
    elif len(cells) > width:
        problem += f"; a text that holds {_name(delimiter)} must stand in quotes"
    # Nothing is lost: what is too much stays in the last column, for failed.csv.
    kept = [*cells[: width - 1], delimiter.join(cells[width - 1 :])]
    kept += [""] * (width - len(kept))
    return Line(number, dict(zip(columns, kept, strict=True)), problem)
