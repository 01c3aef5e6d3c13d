"""The probe on made-up devices: no accident on a linear one, few trials, never over the limit."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts.batching import fits
from batchtts.config import BatchConfig
from batchtts.data import BatchLimit
from batchtts.errors import DeviceError
from batchtts.memory import most_items
from batchtts.models.base import Audio, Features
from batchtts.probe import ProbeResult, find_limit
from batchtts.probe_cache import ProbeKey
from tests.made_up import KEY, MIB, Device, features_of, probe


def true_limit(device: Device, size: int) -> int:
    num = 0
    while num < 256 and device.peak_of([size] * (num + 1)) <= device.memory:
        num += 1
    return num


DEVICES = st.builds(
    Device,
    base=st.floats(10 * MIB, 2000 * MIB),
    linear=st.floats(0.001 * MIB, 2 * MIB),
    quadratic=st.floats(0, 0.005 * MIB),
    memory=st.integers(4000 * MIB, 100_000 * MIB),
    ragged=st.booleans(),
)
LENGTHS = st.lists(st.integers(5, 600), min_size=1, max_size=40)


@settings(deadline=None, max_examples=40)
@given(DEVICES, LENGTHS)
def test_a_linear_device_is_measured_without_accident(device: Device, sizes: list[int]) -> None:
    result = probe(device, sizes, probe="memory")
    longest = result.longest
    if device.peak_of([longest] * 2) <= device.memory:
        assert device.ooms == 0
    assert len(result.points) <= 6
    chosen = most_items(longest, result.limit)
    assert chosen <= true_limit(device, longest)


@settings(deadline=None, max_examples=40)
@given(DEVICES, LENGTHS, st.floats(0, 3000), st.integers(1, 20_000))
def test_steps_of_workspace_do_not_lead_over_the_limit(
    device: Device, sizes: list[int], step: float, every: int
) -> None:
    device.workspace = lambda total: step * MIB * (total // every) ** 0.5
    if device.peak_of([max(sizes)]) > device.memory:
        return
    result = probe(device, sizes)
    assert sum(point.stage != "knee" for point in result.points) <= 6
    longest = result.longest
    chosen = most_items(longest, result.limit)
    assert chosen <= max(1, true_limit(device, longest))


def test_a_step_of_workspace_is_converged_upon() -> None:
    device = Device(
        workspace=lambda total: 4000 * MIB if total > 3000 else 0.0, memory=10_000 * MIB
    )
    result = probe(device, [100], probe="memory")
    chosen = most_items(100, result.limit)
    assert 0.5 * true_limit(device, 100) <= chosen <= true_limit(device, 100)
    assert device.ooms == 0


@pytest.mark.parametrize("ragged", [False, True])
def test_the_fit_finds_the_coefficients(ragged: bool) -> None:
    device = Device(quadratic=0.002 * MIB, ragged=ragged, memory=20_000 * MIB)
    fit = probe(device, [50, 100, 200]).limit.memory
    assert fit is not None
    assert fit.base == pytest.approx(device.base, rel=1e-3)
    assert fit.linear == pytest.approx(device.linear, rel=1e-2)
    assert fit.quadratic == pytest.approx(device.quadratic, rel=1e-2)
    assert fit.budget == pytest.approx(0.8 * device.memory)


def test_the_knee_is_the_smallest_batch_near_the_best_speed() -> None:
    device = Device(fixed_seconds=0.01, unit_seconds=1e-5)
    result = probe(device, [100] * 50)
    # t(B) = 10 + B ms: 95 % of the best speed is reached where the fixed part is 5 % of the time.
    assert result.knee is not None
    assert result.knee.items == 128
    assert result.limit.max_cost == 12_800
    assert "batches of about 128 texts" in result.choice
    speeds = [point.speed for point in result.points if point.stage == "knee"]
    assert max(speeds) == speeds[-1]


def test_a_flat_device_is_left_at_one() -> None:
    result = probe(Device(fixed_seconds=0.0, unit_seconds=1e-3), [100] * 50)
    assert result.knee is not None
    assert result.knee.items == 1
    assert [point.items for point in result.points if point.stage == "knee"] == [1, 2, 4]


def test_one_dip_does_not_end_the_search() -> None:
    class Dipping(Device):
        def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
            self.seconds += 0.01 if len(batch) == 2 else 0.0
            return super().synthesize(batch)

    result = probe(Dipping(fixed_seconds=0.01, unit_seconds=1e-5), [100] * 50)
    assert result.knee is not None
    assert result.knee.items == 128


def test_memory_bounds_the_search_for_the_knee() -> None:
    device = Device(memory=301 * MIB, fixed_seconds=0.1)
    result = probe(device, [100] * 50)
    assert device.ooms == 0
    assert result.knee is not None
    assert [point.items for point in result.points if point.stage == "knee"] == [1, 2, 4, 8, 14]
    assert result.knee.items == 14
    assert result.memory_limit == 14
    assert "memory takes 14 of the longest" in result.choice


def test_the_longest_text_of_the_run_is_measured() -> None:
    """C81: short texts first, long ones later."""
    device = Device(memory=2000 * MIB)
    result = probe(device, [13] * 60 + [420] * 10)
    assert result.longest == 420
    assert max(point.longest for point in result.points) == 420
    assert fits([420] * most_items(420, result.limit), result.limit, False)
    assert true_limit(device, 420) >= most_items(420, result.limit) >= 4


def test_an_outlier_does_not_set_the_measurement() -> None:
    result = probe(Device(), [40] * 500 + [3000])
    assert result.longest == 40
    assert any("batches of their own" in note for note in result.notes)


def test_a_text_that_does_not_fit_alone_leaves_the_others_a_limit() -> None:
    """C80: the longest does not fit at all."""
    device = Device(linear=MIB, memory=410 * MIB)
    result = probe(device, [50, 90, 110, 350])
    assert result.longest == 110
    assert device.ooms == 1
    assert result.memory_limit == 2


def test_a_device_on_which_nothing_fits_is_an_error() -> None:
    """C80: no default batch larger than all that failed, no endless halving."""
    device = Device(memory=10 * MIB)
    with pytest.raises(DeviceError, match=r"not even one text of size \d+ .* 10 MiB are free"):
        probe(device)
    assert len(device.tried) < 10


def test_an_explicit_size_is_obeyed_and_nothing_is_measured() -> None:
    device = Device()
    assert probe(device, size=32).limit == BatchLimit(max_items=32)
    assert device.tried == []


def test_the_probe_can_be_turned_off() -> None:
    device = Device()
    result = probe(device, probe="off", max_size=8)
    assert result.limit == BatchLimit(max_items=8, max_cost=600)
    assert "60 s of audio" in result.choice
    assert device.tried == []


def test_max_size_caps() -> None:
    result = probe(Device(), [100] * 9, max_size=5)
    assert result.limit.max_items == 5
    assert max(point.items for point in result.points) <= 5


def test_a_tiny_job_is_not_measured(tmp_path: Path) -> None:
    device = Device()
    result = probe(device, folder=tmp_path, job_size=2000)
    assert device.tried == []
    assert "too small" in result.choice
    assert result.limit.max_cost == 600


def test_a_small_share_of_the_job_is_measured_and_holds_for_one_like_it(tmp_path: Path) -> None:
    device = Device(fixed_seconds=0.05, unit_seconds=0.001)
    job = 100_000
    result = probe(device, [100] * 50, tmp_path, job_size=job)
    assert device.seconds < 0.04 * job * (0.05 + 0.1) / 100
    assert any("time box" in note for note in result.notes)
    assert probe(device, [100] * 50, tmp_path, job_size=job + job // 5).from_cache
    assert not probe(device, [100] * 50, tmp_path, job_size=2 * job).from_cache
    assert not probe(device, [100] * 50, tmp_path).from_cache


def test_a_knee_beyond_the_time_box_is_not_taken_for_a_small_one(tmp_path: Path) -> None:
    device = Device(fixed_seconds=0.05, unit_seconds=0.0001)
    result = probe(device, [100] * 50, tmp_path, job_size=20_000)
    assert result.knee is not None
    assert result.knee.cost < 600
    assert result.limit.max_cost == 600
    assert "were not enough" in result.choice
    assert probe(device, [100] * 50, tmp_path, job_size=20_000).limit == result.limit


def test_what_the_full_time_box_cut_short_is_kept(tmp_path: Path) -> None:
    """A slow device shall not be measured again and again."""
    slow = Device(fixed_seconds=1.0, unit_seconds=0.02, exact=False)
    first = probe(slow, [100] * 50, tmp_path)
    assert slow.seconds < 45
    assert any("time box" in note for note in first.notes)
    assert first.knee is not None
    assert probe(slow, [100] * 50, tmp_path).from_cache


def test_no_time_at_all_leaves_the_default(tmp_path: Path) -> None:
    result = probe(Device(fixed_seconds=9.0), [100] * 50, tmp_path, job_size=10_000)
    assert result.knee is None
    assert result.limit == BatchLimit(max_items=256, max_cost=600)
    assert "could not be measured" in result.choice


def test_a_second_run_reads_what_the_first_one_kept(tmp_path: Path) -> None:
    first_device, second_device = Device(), Device()
    first = probe(first_device, folder=tmp_path / "new" / "folder")
    second = probe(second_device, folder=tmp_path / "new" / "folder")
    assert (first.from_cache, second.from_cache) == (False, True)
    assert second.limit == first.limit
    assert second.points == first.points
    assert second_device.tried == []
    third = probe(second_device, folder=tmp_path / "new" / "folder", probe="force")
    assert not third.from_cache
    assert second_device.tried


def test_a_kept_result_knows_todays_memory_and_longer_texts(tmp_path: Path) -> None:
    probe(Device(), [100] * 9, tmp_path)
    smaller = Device(memory=1000 * MIB)
    today = probe(smaller, [100] * 9, tmp_path)
    assert today.from_cache
    assert today.limit.memory is not None
    assert today.limit.memory.budget == pytest.approx(800 * MIB)
    assert probe(smaller, [124] * 9, tmp_path).from_cache
    assert not probe(smaller, [126] * 9, tmp_path).from_cache


def test_other_weights_other_precision_other_device_are_measured_anew(tmp_path: Path) -> None:
    identity = {"name": "a"}
    files = {
        KEY.file(tmp_path, identity),
        KEY.file(tmp_path, {"name": "b"}),
        KEY.file(tmp_path, identity, "memory"),
        ProbeKey(adapter="made-up", fingerprint="2", precision="fp32").file(tmp_path, identity),
        ProbeKey(adapter="made-up", fingerprint="1", precision="bf16").file(tmp_path, identity),
    }
    assert len(files) == 5


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"points": 3}', "\x00"])
def test_a_broken_cache_is_measured_over(broken: str, tmp_path: Path) -> None:
    KEY.file(tmp_path, Device().identity()).write_text(broken)
    assert not probe(Device(), folder=tmp_path).from_cache
    assert probe(Device(), folder=tmp_path).from_cache


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert probe(Device(), folder=tmp_path / "file" / "probe").knee is not None


def test_twin_workers_measure_once(tmp_path: Path) -> None:
    started = threading.Barrier(2)
    results: list[ProbeResult] = []

    def work() -> None:
        started.wait()
        results.append(probe(Device(), folder=tmp_path))

    twins = [threading.Thread(target=work) for _ in range(2)]
    for twin in twins:
        twin.start()
    for twin in twins:
        twin.join()
    assert sorted(result.from_cache for result in results) == [False, True]


def test_groups_are_not_mixed_in_a_measured_batch() -> None:
    device = Device()
    seen: list[set[object]] = []
    speak = device.synthesize

    def synthesize(batch: Sequence[Features]) -> list[Audio]:
        seen.append({features.group for features in batch})
        return speak(batch)

    device.synthesize = synthesize  # type: ignore[method-assign]
    samples = features_of([50] * 9, "a") + features_of([60] * 5, "b")
    find_limit(device, samples, BatchConfig(), KEY, device, device, None, lambda _line: None)
    assert all(len(groups) == 1 for groups in seen)


def test_repeated_texts_get_seeds_of_their_own() -> None:
    device = Device()
    seen: list[list[int]] = []
    speak = device.synthesize

    def synthesize(batch: Sequence[Features]) -> list[Audio]:
        seen.append([features.seed for features in batch])
        return speak(batch)

    device.synthesize = synthesize  # type: ignore[method-assign]
    probe(device, [100])
    assert all(len(set(seeds)) == len(seeds) for seeds in seen)


def test_a_rough_meter_is_never_pushed_to_its_limit() -> None:
    """On a CPU nothing raises: the host kills."""
    device = Device(exact=False, memory=1000 * MIB, fixed_seconds=0.1)
    result = probe(device, [100] * 50)
    assert not any(point.stage == "validate" for point in result.points)
    assert result.limit.memory is not None
    assert result.memory_limit is None
    assert device.ooms == 0
    assert max(point.items for point in result.points) == 32


def test_the_result_is_plain_data(tmp_path: Path) -> None:
    found = json.loads(json.dumps(probe(Device(), folder=tmp_path).as_dict()))
    assert found["points"][0]["stage"] == "memory"
    assert found["limit"]["memory"]["budget"] > 0
    assert {"choice", "knee", "memory_limit", "from_cache", "device", "notes"} <= set(found)
    assert all(point["speed"] > 0 for point in found["points"])


def test_more_samples_are_made_for_a_measurement_only(tmp_path: Path) -> None:
    device, few, asked = Device(), features_of([100, 40]), []

    def more() -> list[Features]:
        asked.append("more")
        return features_of([100, 80, 60, 40])

    for _ in range(2):  # the second time it is known
        find_limit(
            device, few, BatchConfig(), KEY, device, device, tmp_path, lambda _: None, more=more
        )
    tiny = find_limit(
        device, few, BatchConfig(), KEY, device, device, None, lambda _: None, job_size=1, more=more
    )
    assert "too small" in tiny.choice
    assert asked == ["more"]
