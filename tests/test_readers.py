import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.config import InputConfig
from batchtts.errors import MissingExtraError
from batchtts.inputs import read_cells
from tests.reading import refusal, rows_of, texts, write


def test_json_lines_are_as_written(tmp_path: Path) -> None:
    lines = [
        '{"id": 7, "text": "One.", "speed": 1.50, "note": {"a": [1, null]}}',
        "",
        '{"id": "007", "text": "둘.", "seed": 3, "voice": null}',
        '{"text": "Three."}',
    ]
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    rows = rows_of(path)
    assert [(row.id, row.line) for row in rows] == [("7", 1), ("007", 3), ("000003", 4)]
    assert (rows[0].speed, rows[1].seed, rows[1].voice) == (1.5, 3, None)
    (cells,) = [cells for _, cells in read_cells(str(path), InputConfig(), {0})]
    assert cells == {"id": "7", "text": "One.", "speed": "1.50", "note": '{"a": ["1", null]}'}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "no line of JSON: Expecting property name"),
        ('["One."]', "no line of JSON: it must be an object"),
        ('{"text": "a", "text": "b"}', "no line of JSON: the key 'text' is there twice"),
        (r'{"text": "\ud83d alone"}', "no line of JSON: half of a surrogate pair, '\\ud83d"),
        ("[" * 100_000, "no line of JSON: nested too deeply"),
        ('{"txt": "One."}', "no 'text' in this record"),
    ],
)
def test_a_broken_json_line_is_the_problem_of_its_row(
    tmp_path: Path, line: str, problem: str
) -> None:
    path = write(tmp_path, "a.jsonl", f'{{"id": "x", "text": "Fine."}}\n{line}\n')
    first, second = rows_of(path)
    assert first.problem == ""
    assert second.problem.startswith(problem)
    assert (second.id, second.line) == ("000002", 2)
    if problem.startswith("no line"):
        assert list(read_cells(str(path), InputConfig(), {1})) == [
            (1, {"id": "000002", "line": line})
        ]


def test_a_broken_first_json_line_does_not_hide_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{\n{"name": "Mina"}\n')
    rows = rows_of(path, template="Hello {{ name }}.")
    assert [row.text for row in rows if not row.problem] == ["Hello Mina."]


def test_a_whole_emoji_in_json_escapes_is_no_half_pair(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", r'{"text": "\ud83d\ude00"}')
    assert rows_of(path)[0].text == "\U0001f600"


def sheet(tmp_path: Path, rows: list[list[Any]]) -> Path:
    import xlsxwriter

    path = tmp_path / "a.xlsx"
    with xlsxwriter.Workbook(path) as book:
        page = book.add_worksheet("texts")
        for number, row in enumerate(rows):
            for column, value in enumerate(row):
                if isinstance(value, date):
                    page.write_datetime(number, column, value, book.add_format({"num_format": 14}))
                else:
                    page.write(number, column, value)
        book.add_worksheet("more")
    return path


def test_a_sheet_is_read_as_it_is_shown(tmp_path: Path) -> None:
    path = sheet(
        tmp_path,
        [
            ["id", "text", "speed", "day"],
            [7, "One, two.", 1.5, date(2026, 11, 30)],
            [],
            ["007", "NA", "", ""],
        ],
    )
    log: list[str] = []
    first, second = rows_of(path, log)
    assert (first.id, first.text, first.speed, first.line) == ("7", "One, two.", 1.5, 2)
    assert (second.id, second.text, second.speed, second.line) == ("007", "NA", None, 4)
    assert log == ["only the first of 2 sheets is read, 'texts'"]
    (cells,) = [cells for _, cells in read_cells(str(path), InputConfig(), {0})]
    assert cells["day"] == "2026-11-30"


def test_a_sheet_must_name_its_columns(tmp_path: Path) -> None:
    path = sheet(tmp_path, [["Alpha."], ["Beta."]])
    assert "the first row names no column 'text'; it is: Alpha.." in refusal(path)
    assert texts(rows_of(path, header="no")) == {"000001": "Alpha.", "000002": "Beta."}


def test_a_sheet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sheet(tmp_path, [["text"], ["Alpha."]])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'batchtts\[xlsx\]'"):
        rows_of(path)


def test_what_is_no_sheet_is_refused(tmp_path: Path) -> None:
    assert "a.xlsx: no sheet can be read from it" in refusal(write(tmp_path, "a.xlsx", "id,text"))


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(CELL, CELL, max_size=3), min_size=1, max_size=5))
def test_what_json_writes_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, objects: list[dict[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    lines = [json.dumps({"id": str(i), "text": "", **cells}) for i, cells in enumerate(objects)]
    path.write_text("\n".join(lines), encoding="utf-8")
    config = InputConfig(on_duplicate="suffix")
    for (_, cells), line in zip(
        read_cells(str(path), config, range(len(lines))), lines, strict=True
    ):
        assert {**json.loads(line), "id": cells["id"]} == cells
