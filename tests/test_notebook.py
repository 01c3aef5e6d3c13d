from pathlib import Path

from batchtts.notebook import FILE, Notebook


def test_findings_are_there_after_a_crash(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.put("0011", "heard", "hällo")
        notebook.put("0011", "mos", {"overall": 3.0})
    with (tmp_path / FILE).open("a") as file:
        file.write('["0022", "hea')
    with Notebook(tmp_path) as notebook:
        assert notebook.get("0011", "heard") == "hällo"
        assert notebook.get("0022", "heard") is None
        notebook.put("0033", "heard", "after the torn line")
    again = Notebook(tmp_path)
    assert again.get("0033", "heard") == "after the torn line"
    assert again.get("0011", "mos") == {"overall": 3.0}


def test_lines_of_another_shape_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"a": 1}\n[1, 2]\nnull\n["c", "n", 5]\n', "utf-8")
    assert Notebook(tmp_path).get("c", "n") == 5
