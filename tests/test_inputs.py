import csv
import io
import json
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.config import Columns, InputConfig
from batchtts.data import Row
from batchtts.errors import Exit, InputError, MissingExtraError
from batchtts.inputs import read_cells, read_rows, spool_stdin
from tests.conftest import CASES


def rows_of(path: Path, log: list[str] | None = None, **config: Any) -> list[Row]:
    said: list[str] = []
    rows = list(read_rows(str(path), InputConfig(**config), said.append))
    if log is not None:
        log += [line.removeprefix(f"{path}: ") for line in said]
    return rows


def texts(rows: list[Row]) -> dict[str, str]:
    return {row.id: row.text for row in rows}


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def refusal(path: Path, **config: Any) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(path, **config)
    assert caught.value.exit_code == Exit.USAGE
    return str(caught.value).replace(f"{path}", path.name)


# Encodings


def test_c01_a_byte_order_mark_is_no_part_of_the_first_id() -> None:
    rows = rows_of(CASES / "C01_bom_pipe.csv")
    assert [row.id for row in rows] == ["HG001", "HG002", "HG003"]
    assert rows[0].text == "The gate opens at six."


def test_c03_cp949_is_never_guessed_but_named() -> None:
    path = CASES / "C03_cp949.csv"
    message = refusal(path)
    assert message.startswith("C03_cp949.csv:1: byte 0xB9 at offset 0 is not UTF-8; save the file")
    assert (
        "`input: {encoding: ...}`; it looks like cp949 (the line then reads: 번호,문장)" in message
    )
    log: list[str] = []
    columns = Columns(id="번호", text="문장")
    rows = rows_of(path, log, encoding="cp949", columns=columns)
    assert [row.id for row in rows] == ["안내01", "안내02", "안내03"]
    assert rows[0].text == "주문이 접수되었습니다."
    assert log == ["encoding cp949, as configured"]


def test_c05_cp1252_is_no_latin_1() -> None:
    path = CASES / "C05_cp1252.txt"
    message = refusal(path)
    assert message.startswith("C05_cp1252.txt:1: byte 0x93 at offset 0 is not UTF-8")
    assert "looks like cp1252 (the line then reads: “Welcome,” said the guide – it’s" in message
    rows = rows_of(path, encoding="cp1252")
    assert rows[1].text == "The ticket costs 12\xa0€—cash only…"


def test_c06_mojibake_is_named_and_left_alone() -> None:
    log: list[str] = []
    rows = rows_of(CASES / "C06_mojibake.csv", log)
    assert log == ["2 texts look like UTF-8 read as cp1252: lines 2, 3"]
    assert rows[1].text == "The cafÃ© is open."


def test_c07_utf_16_with_its_mark_is_read() -> None:
    rows = rows_of(CASES / "C07_utf16le_bom.tsv")
    assert texts(rows) == {"w1": "Good morning, Seoul.", "w2": "좋은 아침입니다."}


def test_utf_8_counts_before_the_configured_encoding(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "Café.\n")
    assert rows_of(path, encoding="cp1252")[0].text == "Café."


# Cells and headers


def test_c09_a_semicolon_is_found_or_hinted_at() -> None:
    path = CASES / "C09_semicolon.csv"
    log: list[str] = []
    rows = rows_of(path, log)
    assert rows[0].text == "Der Preis beträgt 3,50 Euro."
    assert log == ["the cells are parted by ;, as its first line shows"]
    assert len(rows_of(path, delimiter=";")) == 3
    message = refusal(path, delimiter=",")
    assert 'it is: id;text. If ; part its cells, set `input: {delimiter: ";"}`' in message


def test_c11_a_pipe_file_knows_no_quotes() -> None:
    rows = rows_of(CASES / "C11_lone_quote.psv")
    assert len(rows) == 5
    assert rows[1].text == '"This quote is never closed.'
    assert rows[3].text == 'Use a 5" pipe for the sink.'


def test_c11_a_quote_left_open_is_named_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'id,text\n1,Fine.\n2,"Never closed.\n3,Swallowed.\n')
    assert refusal(path) == "a.csv:3: a quote is opened in this row and never closed"
    path = write(tmp_path, "b.csv", 'id,text\n1,Fine.\n2,"Never closed.\n3,"Next."\n')
    assert refusal(path).startswith("b.csv:3: a quote ends in the middle of a cell")


def test_c13_a_quoted_line_break_stays_in_its_text() -> None:
    rows = rows_of(CASES / "C13_quoted_newline.csv")
    assert [(row.id, row.line, row.index) for row in rows] == [
        ("x1", 2, 0),
        ("x2", 3, 1),
        ("x3", 6, 2),
    ]
    assert rows[1].text == 'Line one, with comma.\r\nLine two says "hello".\r\nLine three ends.'


def test_c14_any_line_end_ends_a_line() -> None:
    assert texts(rows_of(CASES / "C14_mixed_eol.txt")) == {
        "000001": "Line one ends with CRLF.",
        "000002": "Line two ends with LF.",
        "000003": "Line three ends with CR.",
        "000004": "Line four has no ending.",
    }


def test_c15_without_a_header_no_row_is_eaten() -> None:
    log: list[str] = []
    rows = rows_of(CASES / "C15_no_header.psv", log)
    assert texts(rows) == {"u1": "Alpha line.", "u2": "Beta line.", "u3": "Gamma line."}
    assert log == ["no header; its columns are id, text, 3"]


def test_c15_a_table_without_a_header_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "u1,Alpha line.\nu2,Beta line.\n")
    message = refusal(path)
    assert "a.csv:1: the first row names no column 'text'; it is: u1 | Alpha line.. Name" in message
    assert "`input: {header: no}`" in message
    assert texts(rows_of(path, header="no")) == {"u1": "Alpha line.", "u2": "Beta line."}


def test_c17_a_row_of_another_width_is_a_problem_of_its_own() -> None:
    path = CASES / "C17_ragged_ljspeech.psv"
    rows = rows_of(path)
    assert [(row.id, bool(row.problem)) for row in rows] == [
        ("r1", False),
        ("r2", True),
        ("r3", True),
        ("r4", True),
        ("r5", False),
    ]
    assert (
        rows[1].problem == "3 cells where there are 2 columns; a text in a pipe file cannot hold |"
    )
    assert rows[2].line == 3
    third = rows_of(path, columns=Columns(text="3"))
    assert [(row.id, row.text) for row in third if not row.problem] == [
        ("r2", "Doctor Kim has two cats.")
    ]


def test_c18_no_text_is_cut_at_a_delimiter_of_its_own() -> None:
    rows = rows_of(CASES / "C18_delim_in_text.csv")
    assert rows[0].problem == (
        "4 cells where there are 2 columns; a text that holds , must stand in quotes"
    )
    assert (rows[1].id, rows[1].problem) == ("c2", "")
    rows = rows_of(CASES / "C18_delim_in_text.psv")
    assert [(row.id, bool(row.problem)) for row in rows] == [("p1", True), ("p2", False)]


def test_c19_blank_lines_are_no_rows_and_blank_cells_are() -> None:
    rows = rows_of(CASES / "C19_empty_rows.csv")
    assert [(row.id, row.line) for row in rows] == [
        ("e1", 2),
        ("e2", 4),
        ("e3", 5),
        ("e4", 6),
        ("e5", 7),
    ]
    assert not any(row.text.strip() for row in rows[1:4])


def test_blank_cells_of_a_spreadsheet_are_no_fault(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text,,\n1,One.,,\n,,,\n2,Two.,,,,\n")
    assert texts(rows_of(path)) == {"1": "One.", "2": "Two."}


def test_column_names_are_found_in_any_case(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "ID, Text ,Voice\n1,One.,hibari:sky\n")
    (row,) = rows_of(path)
    assert (row.id, row.text, row.voice) == ("1", "One.", "hibari:sky")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text,note,note\n1,One.,a,b\n")
    assert refusal(path) == "a.csv:1: 2 columns are called 'note'; rename all but one"


def test_a_missing_text_column_shows_the_header(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,txt\n1,One.\n")
    assert refusal(path) == (
        "a.csv: no column 'text'; the columns are id, txt; "
        "name it in the config, `input: {columns: {text: ...}}`"
    )


def test_a_header_in_a_pipe_file_is_said_aloud(tmp_path: Path) -> None:
    log: list[str] = []
    assert texts(rows_of(write(tmp_path, "a.psv", "id|text\n1|One.\n"), log)) == {"1": "One."}
    assert log == [f"{tmp_path}/a.psv:1: the first row names the columns: id | text"]


# Ids


def test_c20_an_id_used_twice_names_both_lines() -> None:
    path = CASES / "C20_duplicate_ids.csv"
    assert refusal(path) == (
        "C20_duplicate_ids.csv:5: the id 'dup' is already used on line 3; "
        "rename them, or set `input: {on_duplicate: suffix}`"
    )
    rows = rows_of(path, on_duplicate="suffix")
    assert [row.id for row in rows] == ["one", "dup", "two", "dup-2"]


def test_a_suffix_makes_no_new_duplicate(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text\nx,1\nx-2,2\nx,3\nx,4\nx-2,5\n")
    ids = [row.id for row in rows_of(path, on_duplicate="suffix")]
    assert ids == ["x", "x-2", "x-3", "x-4", "x-2-2"]


def test_many_rows_of_one_id_take_no_time(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text\n" + "same,A text.\n" * 20_000)
    begin = time.process_time()
    assert rows_of(path, on_duplicate="suffix")[-1].id == "same-20000"
    assert time.process_time() - begin < 3


def test_at_most_twenty_faults_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,text\n" + "same,A text.\n" * 100)
    lines = refusal(path).split("\n")
    assert len(lines) == 20
    assert lines[-1].startswith(
        "a.csv:22: the id 'same' is already used on line 2 (and perhaps more)"
    )


@pytest.mark.parametrize("name", ["C23_path_ids.csv", "C24_long_ids.csv", "C26_reserved_names.csv"])
def test_c23_c24_c26_ids_are_as_written(name: str) -> None:
    with (CASES / name).open(encoding="utf-8", newline="") as file:
        written = [row["id"] for row in csv.DictReader(file)]
    assert [row.id for row in rows_of(CASES / name)] == written


def test_c27_leading_zeros_stay() -> None:
    rows = rows_of(CASES / "C27_leading_zeros.csv")
    assert [row.id for row in rows] == ["001", "0010", "04", "4", "000"]


def test_c29_null_words_are_words() -> None:
    rows = rows_of(CASES / "C29_null_words.csv")
    assert [row.text for row in rows[:5]] == ["NA", "N/A", "null", "None", "NaN"]
    assert len(rows) == 6


def test_a_row_without_an_id_is_called_by_its_number(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text\nOne.\n\nTwo.\n")
    assert texts(rows_of(path)) == {"000001": "One.", "000002": "Two."}
    path = write(tmp_path, "b.csv", "id,text\nx,One.\n ,Two.\n")
    assert texts(rows_of(path)) == {"x": "One.", "000002": "Two."}
    path = write(tmp_path, "c.txt", "One.\n\nTwo.\n")  # a line keeps its id when others are blanked
    assert texts(rows_of(path)) == {"000001": "One.", "000003": "Two."}


# Files without texts, and files that are none


def test_c31_nothing_to_do_is_said(tmp_path: Path) -> None:
    path = CASES / "C31_header_only.csv"
    assert refusal(path) == "no texts in C31_header_only.csv (1 header line, 0 rows)"
    assert rows_of(path, allow_empty=True) == []
    path = CASES / "C31_empty.csv"
    assert refusal(path) == "no texts in C31_empty.csv (0 header lines, 0 rows)"
    (tmp_path / "texts.csv").touch()
    path = tmp_path / "text.csv"
    assert refusal(path) == "text.csv does not exist; in its folder are texts.csv"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)
    assert "is no plain file; standard input is -" in refusal(Path("/dev/null"))
    assert "cannot be read: File name too long" in refusal(tmp_path / ("x" * 300 + ".csv"))
    path = write(tmp_path, "a.doc", "One.\n")
    assert "what kind of file is it? Its name must end in .txt, .csv" in refusal(path)
    assert texts(rows_of(path, kind="txt")) == {"000001": "One."}


def test_c50_the_end_mark_of_dos_is_no_row() -> None:
    rows = rows_of(CASES / "C50_controls.txt")
    assert len(rows) == 4
    assert rows[0].text == "Page one.\x0cPage two."


def test_c57_line_breaks_stay_and_backslashes_are_backslashes() -> None:
    rows = rows_of(CASES / "C57_inner_newlines.csv")
    assert [row.text for row in rows] == ["Items:\nApple\nPear\nPlum", r"Literal\nbackslash n."]


# Per-row options


def test_each_row_has_its_own_voice_speed_and_seed(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.csv",
        "id,text,voice,lang,speed,seed,file\n1,One.,hibari:sky,en-GB, 1.25 ,7,one\n2,Two.,,,,,\n",
    )
    first, second = rows_of(path)
    assert (first.voice, first.lang, first.speed, first.seed, first.file) == (
        "hibari:sky",
        "en-GB",
        1.25,
        7,
        "one",
    )
    assert (second.voice, second.lang, second.speed, second.seed, second.file) == (None,) * 5


@pytest.mark.parametrize("speed", ["fast", "1,5", "0.1", "5", "nan", "inf", "-1"])
def test_a_wrong_speed_is_the_problem_of_its_row(tmp_path: Path, speed: str) -> None:
    path = write(tmp_path, "a.tsv", f"id\ttext\tspeed\n1\tOne.\t{speed}\n2\tTwo.\t1\n")
    first, second = rows_of(path)
    assert first.problem == f"speed {speed!r} is no number from 0.25 to 4.0"
    assert (second.problem, second.speed) == ("", 1.0)


@pytest.mark.parametrize("seed", ["-1", "1.0", "x", "1_0", str(2**63), "²"])
def test_a_wrong_seed_is_the_problem_of_its_row(tmp_path: Path, seed: str) -> None:
    path = write(tmp_path, "a.tsv", f"id\ttext\tseed\n1\tOne.\t{seed}\n")
    (row,) = rows_of(path)
    assert row.problem == f"seed {seed!r} is no whole number from 0 to {2**63 - 1}"


# Templates


def test_a_template_makes_the_text_from_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,name,first city\n1,Mina,Oslo\n2,,Rome\n")
    template = 'Hello {{ name }}, welcome to {{ row["first city"] }}.'
    first, second = rows_of(path, template=template)
    assert first.text == "Hello Mina, welcome to Oslo."
    assert second.problem == (
        "the template fails on this row: it needs 'name', and that cell is empty"
    )


def test_columns_of_a_template_are_checked_before_anything(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,name\n1,Mina\n")
    message = refusal(path, template="{{ name }}, {{ city }} and {{ row['zip'] }}")
    assert message == "a.csv: no column 'city', 'zip'; the columns are id, name"


# JSON lines


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


# Sheets


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


# failed.csv and standard input


def failed_csv(path: Path, tmp_path: Path, config: InputConfig, indexes: set[int]) -> Path:
    """A failed.csv as a run writes it."""
    rows = [{**cells, "reason": "why"} for _, cells in read_cells(str(path), config, indexes)]
    failed = tmp_path / "failed.csv"
    with failed.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return failed


@pytest.mark.parametrize(
    ("name", "text", "config"),
    [
        ("a.txt", "One.\n\nTwo, too.\nThree.\n", InputConfig(kind="txt")),
        ("a.csv", "text,voice\nOne.,a\nTwo.,b\nThree.,c\n", InputConfig()),
        (
            "a.csv",
            "A,B\n1,One.\n2,Two.\n3,Three.\n",
            InputConfig(columns=Columns(id="A", text="B")),
        ),
        ("a.csv", "1;One.\n2;Two.\n3;Three.\n", InputConfig(header="no", delimiter=";")),
        ("a.psv", "1|One.\n2|Two.\n3|Three.\n", InputConfig(kind="psv")),
        ("a.psv", "1|x|One.\n2|x|Two.\n3|x|Three.\n", InputConfig(columns=Columns(text="3"))),
        ("a.tsv", "id\tname\n1\tAda\n2\tMina\n3\tJun\n", InputConfig(template="Hi {{ name }}.")),
        ("a.jsonl", '{"text": "One."}\n{"text": "Two."}\n{"text": "Three."}\n', InputConfig()),
        ("a.csv", "id,text\nx,One.\nx,Two.\nx,Three.\n", InputConfig(on_duplicate="suffix")),
    ],
)
def test_the_failed_rows_of_a_run_are_an_input_with_the_same_config(
    tmp_path: Path, name: str, text: str, config: InputConfig
) -> None:
    path = write(tmp_path, name, text)
    before = list(read_rows(str(path), config, print))
    again = list(read_rows(str(failed_csv(path, tmp_path, config, {1, 2})), config, print))
    assert [(row.id, row.text, row.voice) for row in again] == [
        (row.id, row.text, row.voice) for row in before[1:]
    ]


def test_the_cells_of_an_odd_row_are_all_kept() -> None:
    cells = dict(read_cells(str(CASES / "C18_delim_in_text.csv"), InputConfig(), {0}))
    assert cells == {0: {"id": "c1", "text": "Hello, world, again."}}


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input_is_one_text_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin("Hello, there.\n안녕.\n".encode()))
    rows = list(read_rows("-", InputConfig(), print))
    assert texts(rows) == {"000001": "Hello, there.", "000002": "안녕."}
    monkeypatch.setattr(sys, "stdin", _Stdin(b"id,text\n1,One.\n"))
    spooled = spool_stdin(tmp_path)
    assert texts(rows_of(spooled, kind="csv")) == {"1": "One."}


# Scale and properties


def test_c32_rows_come_one_at_a_time_and_quickly(tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        yield "id,text\n"
        for number in range(50_000):
            yield f"r{number:07d},Line number {number}.\n"

    path = tmp_path / "long.csv"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines())
    begin = time.process_time()
    rows = read_rows(str(path), InputConfig(), print)
    assert next(rows).id == "r0000000"
    assert time.process_time() - begin < 0.2  # the first row does not wait for the last
    assert sum(1 for _ in rows) == 49_999
    assert time.process_time() - begin < 3  # a million in a minute even on a slow machine


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8), st.sampled_from(",;\t"))
def test_what_csv_writes_is_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], delimiter: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["note", "text"])
        writer.writerows(rows)
    read = list(read_rows(str(path), InputConfig(allow_empty=True), lambda _: None))
    assert [row.text for row in read] == [text for note, text in rows if (note + text).strip()]
    assert not any(row.problem for row in read)


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
