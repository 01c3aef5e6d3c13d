"""The benchmark on a made-up device, whose costs are known exactly."""

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from batchtts import bench
from batchtts.batching import cost
from batchtts.data import BatchLimit
from batchtts.errors import DeviceError
from batchtts.models.base import Audio, Features
from tests.made_up import MIB, Device, features_of

LIMIT = BatchLimit(max_items=16, max_cost=1600)


def made_up(memory: int = 16_000 * MIB) -> Device:
    return Device(fixed_seconds=0.010, unit_seconds=1e-5, memory=memory)


def test_the_costs_of_a_call_and_of_a_text_are_found() -> None:
    result = bench.run(device := made_up(), features_of([100] * 64), LIMIT, device)
    assert result.fixed_seconds == pytest.approx(0.010)
    assert result.item_seconds == pytest.approx(0.001)
    assert [num for num, _ in result.fit_points] == [1, 2, 4, 8, 16]
    assert (result.single.batches, result.single.largest) == (64, 1)
    assert (result.batch.batches, result.batch.largest) == (4, 16)
    assert result.single.seconds == pytest.approx([64 * 0.011] * 3)
    assert result.batch.seconds == pytest.approx([4 * 0.026] * 3)
    assert result.speedup == pytest.approx(64 * 0.011 / (4 * 0.026))
    assert result.batch.speed == pytest.approx(640 / (4 * 0.026))
    assert result.padding_share == 0


def test_padding_is_counted_and_groups_are_kept_apart() -> None:
    device = made_up()
    features = features_of([100, 96], "a") + features_of([50], "b")
    result = bench.run(device, features, LIMIT, device)
    assert result.batch.batches == 2
    assert result.padding_share == pytest.approx(4 / 250)


def test_the_ways_take_turns_after_a_warm_up() -> None:
    device = made_up()
    bench.run(device, features_of([100] * 4), BatchLimit(max_items=2), device, rounds=1)
    runs = [len(sizes) for sizes in device.tried]
    warm_up, first, second = [1, 1, 1, 2, 2], [1, 1, 2], [2, 1, 1]
    assert runs[: len(warm_up) + 6] == warm_up + first + second


def test_stages_stand_in_the_order_of_the_work() -> None:
    device = made_up()
    given: list[int] = []

    def spend(seconds: float, audios: Sequence[Audio]) -> None:
        given.append(len(audios))
        device.seconds += seconds

    result = bench.run(
        device,
        features_of([100] * 16),
        LIMIT,
        device,
        before={"prepare": lambda audios: spend(0.5, audios)},
        after={"post": lambda audios: spend(0.1, audios), "write": lambda a: spend(0.2, a)},
    )
    assert list(result.stages) == ["prepare", "infer", "post", "write"]
    assert result.stages == pytest.approx(
        {"prepare": 0.5, "infer": 0.026, "post": 0.1, "write": 0.2}
    )
    assert given == [16, 16, 16]


def test_a_device_without_fixed_cost_gains_nothing() -> None:
    device = Device(fixed_seconds=0.0, unit_seconds=1e-3)
    result = bench.run(device, features_of([100] * 4), BatchLimit(max_items=1), device)
    assert result.speedup == pytest.approx(1)
    assert result.fixed_seconds == pytest.approx(0, abs=1e-9)
    assert [num for num, _ in result.fit_points] == [1, 2, 4]


def test_a_dip_gives_no_negative_costs() -> None:
    class Odd(Device):
        def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
            self.seconds += 0.1 / cost([1] * len(batch), ragged=True)
            return super().synthesize(batch)

    device = Odd(fixed_seconds=0.0, unit_seconds=0.0)
    result = bench.run(device, features_of([100] * 4), LIMIT, device)
    assert result.fixed_seconds >= 0
    assert result.item_seconds == 0


def test_running_out_of_memory_is_said_in_words() -> None:
    device = made_up(memory=300 * MIB)
    with pytest.raises(DeviceError, match="a batch of 16 ran out of memory: CUDA out of memory"):
        bench.run(device, features_of([200] * 16), BatchLimit(max_items=16), device)


def test_the_result_can_be_read_by_people_and_machines() -> None:
    device = made_up()
    result = bench.run(device, features_of([100] * 64), LIMIT, device)
    found = json.loads(json.dumps(result.as_dict()))
    assert found["batch"]["speed"] == pytest.approx(result.batch.speed)
    console = Console(file=io.StringIO(), width=100)
    console.print(bench.render(result))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "speedup 6.77x, padding share 0.0%" in text
    assert "a call costs 10.0 ms, each text of typical length 1.00 ms more" in text
    assert "infer 100%" in text
