"""The lease book: every utterance is settled once, whatever dies."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts.data import Lease, Utterance
from batchtts.leases import DEPTH, LeaseBook


def make(index: int, voice: str = "fake:tone", length: int = 10) -> Utterance:
    return Utterance(
        index=index,
        line=index + 1,
        id=f"u{index}",
        text="x" * length,
        voice=voice,
        lang="",
        speed=1.0,
        seed=0,
        file=f"audio/u{index}.wav",
        key=str(index),
    )


def book(count: int) -> LeaseBook:
    return LeaseBook([make(i) for i in range(count)], lambda u: len(u.text) * 0.1)


def take(b: LeaseBook, worker: int, workers: int = 1, seconds: float = 1e9) -> Lease:
    lease = b.take(worker, workers=workers, seconds=seconds)
    assert lease is not None
    return lease


def test_a_worker_holds_two_leases_and_no_more() -> None:
    b = book(100)
    for _ in range(DEPTH):
        take(b, 1, seconds=3.0)
    assert b.take(1, workers=1, seconds=3.0) is None
    assert b.held_by(1) == 6


def test_leases_shrink_near_the_end() -> None:
    b = book(16)
    sizes = [len(take(b, worker, workers=4).utterances) for worker in range(4)]
    assert sizes == [2, 2, 2, 2]


def test_fewer_rows_than_workers() -> None:
    b = book(1)
    assert len(take(b, 1, workers=8).utterances) == 1
    assert b.take(2, workers=8, seconds=60) is None


def test_a_lease_holds_one_voice() -> None:
    b = LeaseBook([make(0, "fake:tone"), make(1, "fake:other")], lambda _: 0.0)
    assert [u.index for u in take(b, 1).utterances] == [0]
    assert [u.index for u in take(b, 1).utterances] == [1]


def test_settling_twice_counts_once() -> None:
    b = book(4)
    lease = take(b, 1)
    assert b.settle(lease.utterances[0].index) is not None
    assert b.settle(lease.utterances[0].index) is None
    assert b.unsettled == 3


def test_only_what_was_on_the_device_is_suspect() -> None:
    b = book(8)
    first = take(b, 1, seconds=4.0)
    b.announce(1, [first.utterances[0].index, first.utterances[1].index])
    assert b.lost(1) == []
    lone = take(b, 2, seconds=4.0)
    assert [u.index for u in lone.utterances] == [0]
    assert lone.attempt == 2
    assert b.take(2, workers=1, seconds=4.0) is None, "suspects are alone on their device"


def test_a_row_is_given_up_after_two_crashes_alone() -> None:
    b = book(1)
    deaths = 0
    given_up: list[Utterance] = []
    while not given_up:
        lease = take(b, 1)
        b.announce(1, [lease.utterances[0].index])
        given_up = b.lost(1)
        deaths += 1
    assert [u.index for u in given_up] == [0]
    assert deaths == 3
    assert b.unsettled == 0


def test_an_ordered_end_leaves_no_suspicion() -> None:
    b = book(4)
    take(b, 1)
    b.give_back(1)
    assert [u.index for u in take(b, 2).utterances] == [0, 1, 2, 3]


@pytest.mark.parametrize("poison", [0, 5, 11])
def test_the_poison_row_is_found_and_the_others_are_spoken(poison: int) -> None:
    b = book(12)
    settled: set[int] = set()
    given_up: list[Utterance] = []
    deaths = 0
    while b.unsettled:
        lease = take(b, 1)
        batch = [u.index for u in lease.utterances]
        b.announce(1, batch)
        if poison in batch:
            deaths += 1
            given_up += b.lost(1)
            continue
        settled.update(i for i in batch if b.settle(i))
    assert [u.index for u in given_up] == [poison]
    assert settled == set(range(12)) - {poison}
    assert deaths <= 7


@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**32))
def test_each_utterance_is_settled_once_whatever_dies(count: int, workers: int, seed: int) -> None:
    chance = random.Random(seed)
    b = book(count)
    out: dict[int, list[int]] = {w: [] for w in range(workers)}
    ended: list[int] = []
    for _ in range(10_000):
        if not b.unsettled:
            break
        worker = chance.randrange(workers)
        lease = b.take(worker, workers=workers, seconds=chance.choice([0.5, 5.0, 50.0]))
        if lease:
            out[worker] += [u.index for u in lease.utterances]
        fate = chance.random()
        if fate < 0.2:
            ended += [u.index for u in b.lost(worker)]
            out[worker] = []
        elif fate < 0.3:
            b.give_back(worker)
            out[worker] = []
        elif out[worker]:
            batch = [out[worker].pop() for _ in range(min(3, len(out[worker])))]
            b.announce(worker, batch)
            ended += [i for i in batch if b.settle(i)]
    assert sorted(ended) == list(range(count))
