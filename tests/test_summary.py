"""The figures at the end: truthful, readable, with advice where a device waits."""

import json
from pathlib import Path

from rich.console import Console

from batchtts.errors import Exit
from batchtts.summary import Summary, render


def figures(**changes: object) -> dict[str, object]:
    return {
        "batch_sizes": {4: 2, 1: 1},
        "real": 90,
        "padded": 100,
        "ooms": 1,
        "retries": 2,
        "batches": 3,
        "precision": "fp32",
        "batch_choice": "batches of 4",
        "alive_seconds": 10.0,
        "busy_seconds": 5.0,
        "wait_prepare_seconds": 1.0,
        "wait_write_seconds": 1.0,
        "load_seconds": 2.0,
        "probe_seconds": 1.0,
    } | changes


def summary(**changes: object) -> Summary:
    made = Summary(outcome="done", exit_code=Exit.OK, counts={"ok": 9}, spoken=9)
    made.load = {"cuda:0": {"busy": 0.9, "energy": 120.0}}
    made.add_times(60.0, 10.0)
    made.add_figures({"cuda:0": [figures(**changes)], "cuda:1": [figures(), figures()]})
    return made


def shown(made: Summary, width: int = 100) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(render(made, "out"))
    return captured.get()


def test_figures_of_all_workers_are_added() -> None:
    made = summary()
    assert made.batch_sizes == {"1": 3, "4": 6}
    assert (made.batches, made.ooms, made.retries) == (9, 3, 6)
    assert made.padding_share == 0.1
    assert made.devices["cuda:0"]["busy"] == 0.5
    assert (made.speed, made.rtf) == (6.0, 0.166667)
    assert made.energy == 2.0


def test_a_device_that_waits_is_worth_a_line() -> None:
    assert summary().advice() == ""
    assert "front end" in summary(wait_prepare_seconds=4.0).advice()
    assert "disk" in summary(wait_write_seconds=4.0).advice()
    assert "advice" in shown(summary(wait_write_seconds=4.0))


def test_precision_load_and_energy_are_shown() -> None:
    text = shown(summary())
    assert "50% busy, fp32" in text
    assert "cuda:0: busy 0.9, energy 120" in text
    assert "2.00 J per second of audio" in text


def test_it_is_kept_as_json(tmp_path: Path) -> None:
    summary().write(tmp_path)
    kept = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert (kept["exit_code"], kept["counts"], kept["batches"]) == (0, {"ok": 9}, 9)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_nothing_to_do_is_said() -> None:
    made = Summary(outcome="done", exit_code=Exit.OK, counts={"ok": 9}, kept=9)
    assert "nothing to do, 9 kept" in shown(made)


def test_it_fits_a_narrow_terminal() -> None:
    assert all(len(line) <= 40 for line in shown(summary(), 40).splitlines())
