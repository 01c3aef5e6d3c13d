"""What stands in a file, record by record: text lines, CSV rows, JSON lines, rows of a sheet."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from batchtts.errors import InputError, MissingExtraError

Log = Callable[[str], None]


class Line(NamedTuple):
    """One record of a file."""

    number: int
    """Physical line where it begins, from 1; the row of a sheet."""
    cells: dict[str, str]
    """The file's own columns in their order, as written."""
    problem: str = ""
    """Why the cells cannot be trusted."""


def text_lines(path: Path, encoding: str, column: str) -> Iterator[Line]:
    """One text a line, under this column; blank lines are none."""
    with path.open(encoding=encoding) as file:  # universal newlines: a lone CR ends a line too
        for number, text in enumerate(file, 1):
            # 0x1A is how DOS ends a text file.
            if text.strip().strip("\x1a"):
                yield Line(number, {column: text.rstrip("\n")})


def csv_rows(path: Path, encoding: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file of cells, each with the line where it begins.

    Raises:
        InputError: a quote is not closed, or closed in the middle of a cell.
    """
    csv.field_size_limit(sys.maxsize)
    # Pipe files (LJSpeech) know no quotes: one inch mark would swallow the rest of the file.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
        begin = 1
        try:
            for cells in reader:
                if cells:
                    yield begin, cells
                begin = reader.line_num + 1
        except csv.Error as error:
            if "end of data" in str(error):
                what = "a quote is opened in this row and never closed"
            else:
                what = 'a quote ends in the middle of a cell; inside of a cell write it twice, ""'
            message = f"{path}:{begin}: {what}"
            raise InputError(message) from error


def json_lines(path: Path, encoding: str) -> Iterator[Line]:
    """One JSON object a line; what is none is kept whole under "line", with its problem."""
    with path.open(encoding=encoding) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield Line(number, _json_cells(line))
                except ValueError as error:
                    yield Line(number, {"line": line.rstrip("\n")}, f"no line of JSON: {error}")
                except RecursionError:
                    problem = "no line of JSON: nested too deeply"
                    yield Line(number, {"line": line.rstrip("\n")}, problem)


def _json_cells(line: str) -> dict[str, str]:
    # Numbers stay as they are written: an id of 1.10 is not 1.1.
    cells = json.loads(
        line, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_json_object
    )
    if not isinstance(cells, dict):
        message = 'it must be an object, {"id": ..., "text": ...}'
        raise ValueError(message)  # noqa: TRY004
    cells = {key: _json_cell(value) for key, value in cells.items()}
    if "\\ud" in line.lower():
        try:
            "".join(chain(*cells.items())).encode()
        except UnicodeEncodeError as error:
            message = f"half of a surrogate pair, {error.object[error.start]!a}"
            raise ValueError(message) from error
    return cells


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    cells = dict(pairs)
    if len(cells) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        message = f"the key {key!r} is there twice"
        raise ValueError(message)
    return cells


def _json_cell(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def sheet_rows(path: Path, log: Log) -> Iterator[tuple[int, list[str]]]:
    """The rows of the first sheet of a workbook, each with its number, from 1."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        feature = "reading a sheet"
        raise MissingExtraError(feature, "xlsx") from error
    try:
        book = CalamineWorkbook.from_path(path)
        sheet = book.get_sheet_by_index(0)
    except CalamineError as error:
        message = f"{path}: no sheet can be read from it: {error}"
        raise InputError(message) from error
    if len(book.sheet_names) > 1:
        log(f"{path}: only the first of {len(book.sheet_names)} sheets is read, {sheet.name!r}")
    for number, row in enumerate(sheet.iter_rows(), 1):
        yield number, [_sheet_cell(value) for value in row]


def _sheet_cell(value: Any) -> str:  # noqa: ANN401
    # A sheet keeps every number as a float: an id of 7 comes back as 7.0.
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
