"""Inputs of the tests: written, read, refused."""

from pathlib import Path
from typing import Any

import pytest

from batchtts.config import InputConfig
from batchtts.data import Row
from batchtts.errors import Exit, InputError
from batchtts.inputs import read_rows


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
