"""The benchmark's own arithmetic; what it measures is no matter for a test."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.bench import growth, tables
from tests.bench.endtoend import Contender, judge
from tests.bench.parts import OWN, Operations, Parts
from tests.bench.processes import FailedError, environment, python, run
from tests.bench.texts import texts


def test_texts_differ_and_are_the_same_for_a_seed() -> None:
    some = texts(2000)
    assert len(set(some)) == 2000
    assert some[:10] == texts(10)
    assert some[:10] != texts(10, seed=1)
    assert min(map(len, some)) < 20
    assert max(map(len, some)) > 200
    assert not any("{" in text or "\n" in text for text in some)


def test_ratios_are_taken_within_a_round() -> None:
    def runs(*speeds: float) -> list[dict[str, float]]:
        rest = {"speed_per_core": 1.0, "wall": 1.0, "first_file": 1.0, "peak_bytes": 1.0}
        return [{"speed": speed, **rest} for speed in speeds]

    contenders = [
        Contender(name="one", commands=lambda _, __: [], ours=False),
        Contender(name="two", commands=lambda _, __: [], ours=False),
        Contender(name="both", commands=lambda _, __: [], ours=False, single=False),
        Contender(name="we", commands=lambda _, __: [], ours=True),
    ]
    found = judge(
        contenders,
        {
            "one": runs(1, 1, 1),
            "two": runs(10, 2, 4),
            "both": runs(90, 90, 90),
            "we": runs(20, 6, 8),
        },
    )
    assert found["best_reference"] == "two"
    assert found["contenders"][3]["ratio"] == {"median": 2, "min": 2, "max": 3}


def test_operations_are_counted_from_shapes_for_the_part_that_works() -> None:
    parts = Parts()
    x, weight = torch.zeros(5, 3), torch.zeros(7, 3)
    image, kernel = torch.zeros(1, 4, 1, 9), torch.zeros(4, 1, 1, 3)
    with Operations(parts) as counter, torch.inference_mode():
        functional.linear(x.bfloat16(), weight.bfloat16())
        with parts.entered("filter"):
            functional.conv2d(image, kernel, groups=4)
    assert counter.counted == {
        (OWN, "bf16"): 2 * 5 * 3 * 7,
        ("filter", "fp32"): 2 * 4 * 7 * 3,
    }


def test_a_bend_tells_what_grows_faster_than_the_work() -> None:
    counts = [100, 1000, 10_000]
    straight = [3 + 0.5 * count for count in counts]
    assert growth.bend(counts, straight) == pytest.approx(1)
    assert growth.line(counts, straight) == pytest.approx((3, 0.5))
    assert growth.bend(counts, [count**2 for count in counts]) == pytest.approx(10)
    assert growth.bend([1, 2], [1, 2]) is None


def test_every_manifest_cost_is_told_for_every_size(tmp_path: Path) -> None:
    found = growth.manifest_costs((10, 20), tmp_path)
    assert all(len(costs) == 2 and min(costs) > 0 for costs in found["microseconds"].values())
    assert "| append |" in tables.render({"manifest": found})


def test_a_command_that_fails_ends_the_benchmark_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match=r"No module named tests\.bench\.nothing"):
        run([python("tests.bench.nothing")], environment(tmp_path))


def test_the_machines_facts_are_in_the_table() -> None:
    facts: dict[str, Any] = {
        "cpu": "a CPU",
        "cores": 2,
        "system": "Linux",
        "python": "3.11",
        "versions": {"torch": "2.13"},
        "commit": "abc",
        "command": "make bench",
        "started": "today",
        "load_before": 7.5,
        "busy": True,
    }
    text = tables.render(json.loads(json.dumps({"machine": facts})))
    for fact in ("a CPU", "torch 2.13", "abc", "make bench", "only the ratios"):
        assert fact in text
