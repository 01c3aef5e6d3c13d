"""The file of texts -> rows: ids, per-row options, templates; every fault with its line."""

import shutil
import sys
import tempfile
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from batchtts.config import MAX_SEED, MAX_SPEED, MIN_SPEED, Columns, InputConfig
from batchtts.data import Row
from batchtts.errors import InputError
from batchtts.readers import Line, Log
from batchtts.tables import Table, match, open_table

if TYPE_CHECKING:
    from batchtts.templates import TextTemplate

STDIN = "-"
MAX_PROBLEMS = 20
"""How many faults of a file are listed before it is given up."""


def spool_stdin(folder: Path) -> Path:
    """Copy standard input into a file, so that it can be read more than once."""
    path = folder / "stdin.txt"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def read_rows(source: str, config: InputConfig, log: Log) -> Iterator[Row]:
    """Read the rows of a file, one at a time.

    A fault of one row, such as a cell too many, is that row's `problem`. A row without an id is
    called by its number, in a .txt by its line: "000007".

    Args:
        source: path of the file, or "-" for standard input.
        config: how to read it.
        log: gets one line for each thing worth knowing: encoding, delimiter, odd characters.

    Raises:
        InputError: the file cannot be read as it is; names each fault with its line. It may come up
            after some rows, so take all of them before anything is spoken.
    """
    if source != STDIN:
        yield from _rows(Path(source), config, log)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield from _rows(spool_stdin(Path(folder)), config, log)


def read_cells(
    source: str, config: InputConfig, wanted: Container[int]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the file's own columns of some rows, as written: what failed.csv is made of.

    The row's id is always among them, so that a row keeps its id when it is run again.

    Args:
        source: path of the file.
        config: as for `read_rows`.
        wanted: indexes of the rows.

    Yields:
        Index of the row, and its cells by column, in the file's order.
    """
    path = Path(source)
    table = open_table(path, config, _needed(config, _template(config)), lambda _: None)
    ids = _Ids(path, table, config)
    for index, line in enumerate(table.lines):
        name = ids.of(index, line)
        if index in wanted:
            cells = line.cells if ids.column in line.cells else {ids.column: name, **line.cells}
            yield index, cells | {ids.column: name}


def _template(config: InputConfig) -> "TextTemplate | None":
    if config.template is None:
        return None
    from batchtts.templates import TextTemplate

    return TextTemplate(config.template)


def _needed(config: InputConfig, template: "TextTemplate | None") -> tuple[str, ...]:
    return (config.columns.text,) if template is None else template.columns


def _rows(path: Path, config: InputConfig, log: Log) -> Iterator[Row]:
    template = _template(config)
    needed = _needed(config, template)
    table = open_table(path, config, needed, log)
    if table.columns:
        _check_columns(path, table, needed, exact=template is not None)
    ids = _Ids(path, table, config)
    columns = _own_columns(table, config.columns)
    garbled: list[int] = []
    index = -1
    for index, line in enumerate(table.lines):
        row = _row(index, line, ids.of(index, line), columns, template)
        if not row.text.isascii() and _is_mojibake(row.text):
            garbled.append(line.number)
        yield row
    ids.raise_problems()
    if index < 0 and not config.allow_empty:
        header = f"{table.header_lines} header line{'s' if table.header_lines != 1 else ''}"
        message = f"no texts in {path} ({header}, 0 rows)"
        raise InputError(message)
    if garbled:
        first = ", ".join(map(str, garbled[:5])) + (", ..." if len(garbled) > 5 else "")
        log(f"{path}: {len(garbled)} texts look like UTF-8 read as cp1252: lines {first}")


def _check_columns(path: Path, table: Table, needed: tuple[str, ...], *, exact: bool) -> None:
    missing = [
        n for n in needed if (n not in table.columns if exact else not match(n, table.columns))
    ]
    if not missing:
        return
    wanted, there = ", ".join(map(repr, missing)), ", ".join(table.columns)
    hint = "" if exact else "; name it in the config, `input: {columns: {text: ...}}`"
    message = f"{path}: no column {wanted}; the columns are {there}{hint}"
    raise InputError(message)


def _own_columns(table: Table, roles: Columns) -> Columns:
    """The names that this file gives to the columns of the config."""
    own = {role: match(name, table.columns) or name for role, name in roles.model_dump().items()}
    return Columns(**own)


class _Ids:
    """Gives each row its id, and sees to it that no two are the same."""

    def __init__(self, path: Path, table: Table, config: InputConfig) -> None:
        self.column = match(config.columns.id, table.columns) or config.columns.id
        self._path = path
        self._suffix = config.on_duplicate == "suffix"
        self._by_line = table.numbered_by_line
        # Numbers alone are distinct: no need to keep a million of them.
        self._checked = table.varying or self.column in table.columns
        self._lines: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._problems: list[str] = []

    def of(self, index: int, line: Line) -> str:
        name = line.cells.get(self.column, "")
        if not name.strip():
            name = f"{line.number if self._by_line else index + 1:06d}"
        if not self._checked:
            return name
        first = self._lines.setdefault(name, line.number)
        if first != line.number:
            return self._second(name, first, line.number)
        return name

    def _second(self, name: str, first: int, line: int) -> str:
        if self._suffix:
            count = self._counts.get(name, 1) + 1
            while self._lines.setdefault(f"{name}-{count}", line) != line:
                count += 1
            self._counts[name] = count
            return f"{name}-{count}"
        self._problems.append(
            f"{self._path}:{line}: the id {name!r} is already used on line {first}"
        )
        if len(self._problems) == MAX_PROBLEMS:
            self.raise_problems()
        return name

    def raise_problems(self) -> None:
        if self._problems:
            more = " (and perhaps more)" if len(self._problems) == MAX_PROBLEMS else ""
            hint = f"{more}; rename them, or set `input: {{on_duplicate: suffix}}`"
            raise InputError("\n".join(self._problems) + hint)


def _row(
    index: int, line: Line, name: str, columns: Columns, template: "TextTemplate | None"
) -> Row:
    cells = line.cells
    problems = [line.problem] if line.problem else []
    text = cells.get(columns.text, "")
    if template is not None and not problems:
        try:
            text = template.render(cells)
        except ValueError as error:
            problems.append(str(error))
    elif columns.text not in cells and not problems:
        problems.append(f"no {columns.text!r} in this record")
    speed, seed = cells.get(columns.speed, "").strip(), cells.get(columns.seed, "").strip()
    return Row(
        index=index,
        line=line.number,
        id=name,
        text=text,
        voice=cells.get(columns.voice, "").strip() or None,
        lang=cells.get(columns.lang, "").strip() or None,
        speed=_speed(speed, problems) if speed else None,
        seed=_seed(seed, problems) if seed else None,
        file=cells.get(columns.file, "").strip() or None,
        problem="; ".join(problems),
    )


def _speed(written: str, problems: list[str]) -> float | None:
    try:
        speed = float(written)
    except ValueError:
        speed = 0.0
    if MIN_SPEED <= speed <= MAX_SPEED:
        return speed
    problems.append(f"speed {written!r} is no number from {MIN_SPEED} to {MAX_SPEED}")
    return None


def _seed(written: str, problems: list[str]) -> int | None:
    if written.isascii() and written.isdecimal() and int(written) <= MAX_SEED:
        return int(written)
    problems.append(f"seed {written!r} is no whole number from 0 to {MAX_SEED}")
    return None


def _is_mojibake(text: str) -> bool:
    """Whether a text reads as UTF-8 that was once decoded as cp1252."""
    try:
        text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return False
    return True
