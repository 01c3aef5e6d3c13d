"""What a person sees of the probe."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from batchtts.probe import ProbeResult
from batchtts.probe_table import render
from tests.made_up import Device, probe


def shown(result: ProbeResult, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=100).print(render(result))
    file.seek(0)
    return file.read()


def test_the_table_holds_every_point_and_the_choice(tmp_path: Path) -> None:
    device = Device(fixed_seconds=0.01, unit_seconds=1e-5)
    result = probe(device, [100] * 50, tmp_path)
    text = shown(result)
    rows = [line for line in text.splitlines() if "│" in line and "MiB" not in line]
    assert len(rows) == len(result.points)
    assert "128 " in text
    assert "<- chosen" in next(line for line in text.splitlines() if line.startswith("   128 █"))
    assert "memory: 100 MiB + 102.4 KiB per unit" in text
    assert f"choice: {result.choice}" in " ".join(text.split())
    assert "choice (from the cache)" in shown(probe(device, [100] * 50, tmp_path))


def test_a_terminal_without_blocks_gets_plain_signs() -> None:
    text = shown(probe(Device(), [100] * 50), encoding="ascii")
    assert "####" in text
    assert text.isascii()


def test_names_and_notes_are_shown_as_they_are() -> None:
    result = replace(probe(Device()), device="GPU [a] b", notes=("a [b] c",))
    text = shown(result)
    assert "GPU [a] b" in text
    assert "note: a [b] c" in text


def test_what_was_not_measured_is_one_sentence() -> None:
    text = shown(probe(Device(), size=32))
    assert text.split() == [
        "choice:",
        "batches",
        "of",
        "32,",
        "as",
        "the",
        "config",
        "says:",
        "nothing",
        "was",
        "measured",
    ]
