import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.config import Columns, InputConfig
from batchtts.inputs import read_rows
from tests.conftest import CASES
from tests.reading import refusal, rows_of, texts, write


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
