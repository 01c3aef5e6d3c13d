import csv
import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchtts.config import Columns, InputConfig
from batchtts.inputs import read_cells, read_rows, spool_stdin
from tests.conftest import CASES
from tests.reading import refusal, rows_of, texts, write


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
