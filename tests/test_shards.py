"""Which shard is this, and do all of them together cover the input once?"""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts import shards
from batchtts.devices import Slot
from batchtts.errors import UsageError
from batchtts.shards import Coverage, Shard, books, find, from_environment, own_slots

ids = st.lists(st.text(max_size=20), unique=True, max_size=50)


@given(ids, st.integers(1, 20))
def test_every_id_belongs_to_exactly_one_shard(ids: list[str], total: int) -> None:
    for id in ids:
        assert sum(Shard(number, total).owns(id) for number in range(total)) == 1


def test_the_shard_of_an_id_never_changes() -> None:
    owners = [next(n for n in range(4) if Shard(n, 4).owns(id)) for id in ("000001", "a", "\ud800")]

    assert owners == [0, 2, 1]


def test_shards_are_about_equally_large() -> None:
    counts = [sum(Shard(n, 4).owns(f"{i:06d}") for i in range(4000)) for n in range(4)]

    assert all(900 < count < 1100 for count in counts)


@given(ids, st.randoms())
def test_coverage_knows_a_set_whatever_its_order(ids: list[str], random: Random) -> None:
    first, second = Coverage(), Coverage()
    for id in ids:
        first.add(id)
    random.shuffle(ids)
    for id in ids:
        second.add(id)

    assert first == second


def test_coverage_tells_one_id_twice_from_two_ids() -> None:
    twice, both = Coverage(), Coverage()
    for coverage, names in ((twice, "aa"), (both, "ab")):
        for name in names:
            coverage.add(name)

    assert twice.rows == both.rows
    assert twice.facts()["digest"] != both.facts()["digest"]


@pytest.mark.parametrize(
    ("option", "environ", "expected"),
    [
        pytest.param("1/4", {}, Shard(1, 4), id="option"),
        pytest.param("1/4", {"RANK": "3", "WORLD_SIZE": "8"}, Shard(1, 4), id="option-wins"),
        pytest.param("0/1", {"RANK": "3", "WORLD_SIZE": "8"}, None, id="whole"),
        pytest.param(None, {}, None, id="nothing"),
        pytest.param(None, {"RANK": "3"}, None, id="rank-alone"),
        pytest.param(None, {"RANK": "0", "WORLD_SIZE": "1"}, None, id="world-of-one"),
        pytest.param(None, {"RANK": "3", "WORLD_SIZE": "8"}, Shard(3, 8), id="torchrun"),
        pytest.param(
            None,
            {
                "SLURM_ARRAY_TASK_ID": "3",
                "SLURM_ARRAY_TASK_COUNT": "4",
                "SLURM_ARRAY_TASK_MIN": "1",
            },
            Shard(2, 4),
            id="slurm-from-1",
        ),
        pytest.param(
            None,
            {
                "SLURM_ARRAY_TASK_ID": "20",
                "SLURM_ARRAY_TASK_COUNT": "3",
                "SLURM_ARRAY_TASK_MIN": "0",
                "SLURM_ARRAY_TASK_STEP": "10",
            },
            Shard(2, 3),
            id="slurm-steps",
        ),
        pytest.param(
            None,
            {
                "SLURM_ARRAY_TASK_ID": "1",
                "SLURM_ARRAY_TASK_COUNT": "2",
                "RANK": "2",
                "WORLD_SIZE": "4",
            },
            Shard(6, 8),
            id="torchrun-in-slurm",
        ),
    ],
)
def test_from_environment(
    option: str | None, environ: dict[str, str], expected: Shard | None
) -> None:
    assert from_environment(option, environ) == expected


@pytest.mark.parametrize(
    ("option", "environ", "hint"),
    [
        pytest.param("4/4", {}, "0/4 to 3/4", id="past-the-end"),
        pytest.param("2", {}, "0/4 to 3/4", id="no-slash"),
        pytest.param("0/0", {}, "0/4 to 3/4", id="of-none"),
        pytest.param("-1/4", {}, "count from 0", id="negative"),
        pytest.param(None, {"RANK": "4", "WORLD_SIZE": "4"}, "RANK=4", id="rank"),
        pytest.param(None, {"RANK": "x", "WORLD_SIZE": "4"}, "RANK='x'", id="no-number"),
        pytest.param(
            None,
            {
                "SLURM_ARRAY_TASK_ID": "7",
                "SLURM_ARRAY_TASK_COUNT": "3",
                "SLURM_ARRAY_TASK_MIN": "1",
            },
            "array with gaps",
            id="slurm-gaps",
        ),
    ],
)
def test_nonsense_is_refused(option: str | None, environ: dict[str, str], hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        from_environment(option, environ)


@pytest.mark.parametrize(
    ("rank", "world", "expected"),
    [
        pytest.param("0", "2", [0, 2], id="half"),
        pytest.param("1", "2", [1, 3], id="other-half"),
        pytest.param("5", "6", [1], id="more-processes-than-slots"),
    ],
)
def test_ranks_on_one_machine_share_its_devices(rank: str, world: str, expected: list[int]) -> None:
    slots = [Slot(device="cuda:0", label=str(n), env={}, threads=1, share=1) for n in range(4)]

    assert own_slots(slots, {}) == slots
    assert own_slots(slots, {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}) == [
        slots[n] for n in expected
    ]


def test_each_shard_keeps_its_own_books(tmp_path: Path) -> None:
    assert books(tmp_path, None) == tmp_path
    folder = books(tmp_path, Shard(0, 2))
    folder.mkdir(parents=True)
    (tmp_path / shards.FOLDER / ".DS_Store").touch()

    assert folder == tmp_path / "shards" / "0-of-2"
    assert books(tmp_path, Shard(1, 2)) != folder
    assert find(tmp_path) == [Shard(0, 2)]


@pytest.mark.parametrize("shard", [None, Shard(0, 4)])
def test_a_folder_is_divided_one_way_only(tmp_path: Path, shard: Shard | None) -> None:
    Shard(1, 2).folder(tmp_path).mkdir(parents=True)

    with pytest.raises(UsageError, match="divided by 2; go on with --shard 0/2 to 1/2"):
        books(tmp_path, shard)


def test_a_whole_run_is_not_divided_later(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").touch()

    with pytest.raises(UsageError, match="not divided"):
        books(tmp_path, Shard(0, 2))
