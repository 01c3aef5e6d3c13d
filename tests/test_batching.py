"""Packing, the adaptive limit, and running out of memory in the middle."""

import gc
import weakref
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts.batching import (
    AdaptiveLimit,
    OutOfMemory,
    Packer,
    cost,
    fits,
    is_fragmented,
    is_sticky,
    looks_like_oom,
    padding_share,
    peak_bytes,
    run_splitting,
)
from batchtts.data import BatchLimit, MemoryFit

SIZES = st.lists(st.integers(1, 500), max_size=80)
FITS = st.builds(
    MemoryFit,
    base=st.just(1000.0),
    linear=st.floats(0.1, 10),
    quadratic=st.floats(0, 0.1),
    budget=st.floats(1000, 50_000),
)
LIMITS = st.builds(
    BatchLimit,
    max_items=st.integers(1, 40),
    max_cost=st.none() | st.integers(1, 5000),
    memory=st.none() | FITS,
)


class OutOfMemoryError(RuntimeError):
    """Named as torch's own."""


class AcceleratorError(RuntimeError):
    """Named as torch's own."""


def packed(sizes: Sequence[int], limit: BatchLimit, ragged: bool) -> list[list[int]]:
    packer: Packer[int] = Packer()
    for size in sizes:
        packer.add(size, size, None)
    batches = []
    while batch := packer.take(limit, ragged):
        batches.append(batch)
    return batches


def test_cost_counts_padding_unless_ragged() -> None:
    assert cost([3, 5, 2], ragged=False) == 15
    assert cost([3, 5, 2], ragged=True) == 10
    assert cost([], ragged=False) == 0


def test_fits_asks_count_cost_and_memory() -> None:
    fit = MemoryFit(base=100, linear=1, quadratic=1, budget=112)
    assert peak_bytes([2, 3], fit, ragged=True) == 100 + 6 + 12
    assert peak_bytes([2, 3], fit, ragged=False) == 100 + 12 + 12
    assert fits([3], BatchLimit(max_items=1, max_cost=3, memory=fit), ragged=False)
    assert not fits([3, 3], BatchLimit(max_items=1), ragged=False)
    assert not fits([3, 1], BatchLimit(max_items=2, max_cost=5), ragged=False)
    assert fits([3, 1], BatchLimit(max_items=2, max_cost=5), ragged=True)
    assert not fits([3, 1], BatchLimit(max_items=2, memory=fit), ragged=True)


@given(SIZES, LIMITS, st.booleans())
def test_every_batch_is_within_the_limit_or_one_item(
    sizes: list[int], limit: BatchLimit, ragged: bool
) -> None:
    batches = packed(sizes, limit, ragged)
    assert sorted(size for batch in batches for size in batch) == sorted(sizes)
    assert all(len(batch) == 1 or fits(batch, limit, ragged) for batch in batches)
    assert all(batch == sorted(batch, reverse=True) for batch in batches)
    longest = [batch[0] for batch in batches]
    assert longest == sorted(longest, reverse=True)


@given(SIZES, LIMITS)
def test_a_ragged_batch_is_full(sizes: list[int], limit: BatchLimit) -> None:
    batches = packed(sizes, limit, ragged=True)
    for number, batch in enumerate(batches):
        for later in batches[number + 1 :]:
            assert not any(fits([*batch, size], limit, ragged=True) for size in later)


def test_groups_are_never_mixed_and_the_longest_goes_first() -> None:
    packer: Packer[str] = Packer()
    for name, size, group in [("a1", 5, "a"), ("b1", 9, "b"), ("a2", 7, "a"), ("b2", 1, "b")]:
        packer.add(name, size, group)
    assert (len(packer), packer.pending_cost()) == (4, 22)
    limit = BatchLimit(max_items=8)
    assert packer.take(limit, ragged=True) == ["b1", "b2"]
    assert packer.pending_cost() == 12
    assert packer.take(limit, ragged=True) == ["a2", "a1"]
    assert packer.take(limit, ragged=True) == []
    assert (len(packer), packer.pending_cost()) == (0, 0)


def test_equal_sizes_leave_as_they_came() -> None:
    packer: Packer[object] = Packer()
    things = [object() for _ in range(5)]
    for thing in things:
        packer.add(thing, 7, None)
    assert packer.take(BatchLimit(max_items=5), ragged=False) == things


def test_one_over_long_utterance_does_not_set_the_cost_of_the_others() -> None:
    sizes = [3000] + [40 + n % 21 for n in range(500)]
    for most in (2000, 8000, 50_000):
        batches = packed(sizes, BatchLimit(max_items=256, max_cost=most), ragged=False)
        assert padding_share(batches, ragged=False) < 0.1
        assert batches[0] == [3000]
        assert len(batches) < 2 * sum(sizes) / most + 4


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=300), st.integers(100, 50_000))
def test_padding_never_costs_more_than_another_batch(sizes: list[int], most: int) -> None:
    for batch in packed(sizes, BatchLimit(max_items=256, max_cost=most), ragged=False):
        assert len(batch) == 1 or cost(batch, ragged=False) - sum(batch) <= most * 0.05


def test_an_explicit_count_is_obeyed_whatever_the_padding() -> None:
    assert packed([100, 1, 1, 1], BatchLimit(max_items=3), ragged=False) == [[100, 1, 1], [1]]


def test_padding_share() -> None:
    assert padding_share([[10, 5], [4, 4]], ragged=False) == pytest.approx(5 / 28)
    assert padding_share([[10, 5]], ragged=True) == 0
    assert padding_share([], ragged=False) == 0


def test_the_limit_gives_way_and_comes_back() -> None:
    fit = MemoryFit(base=100, linear=1, quadratic=0, budget=1100)
    limit = BatchLimit(max_items=100, max_cost=1000, memory=fit)
    adaptive = AdaptiveLimit(limit)
    assert adaptive.current is limit
    adaptive.on_oom()
    assert adaptive.ooms == 1
    assert (adaptive.current.max_items, adaptive.current.max_cost) == (75, 750)
    assert adaptive.current.memory is not None
    assert adaptive.current.memory.budget == 850
    for _ in range(49):
        adaptive.on_success()
    assert adaptive.current.max_cost == 750
    adaptive.on_success()
    assert adaptive.current.max_cost == 787
    for _ in range(50 * 6):
        adaptive.on_success()
    assert adaptive.current is limit


def test_a_share_of_the_limit_is_never_passed() -> None:
    adaptive = AdaptiveLimit(BatchLimit(max_items=100), share=0.5)
    for _ in range(200):
        adaptive.on_success()
    assert adaptive.current.max_items == 50


def test_the_limit_always_leaves_room_for_one() -> None:
    adaptive = AdaptiveLimit(BatchLimit(max_items=2, max_cost=3))
    for _ in range(100):
        adaptive.on_oom()
    assert adaptive.current == BatchLimit(max_items=1, max_cost=1)
    assert adaptive.ooms == 100


OOMS = [
    OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("CUDA error: out of memory"),
    AcceleratorError("CUDA error: out of memory"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if ..."),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuFFT error: CUFFT_INTERNAL_ERROR"),
    RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ..."),
    MemoryError(),
    OSError(12, "Cannot allocate memory"),
]
STICKY = [
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: unspecified launch failure"),
    AcceleratorError("CUDA error: misaligned address"),
    AcceleratorError("CUDA error: something new"),
]
HARMLESS = [
    ValueError("cannot say: CUDA out of memory, device-side assert"),
    RuntimeError("shape mismatch"),
    KeyError("x"),
]


@pytest.mark.parametrize("error", OOMS, ids=repr)
def test_all_names_of_out_of_memory_count(error: Exception) -> None:
    assert looks_like_oom(error)
    assert not is_sticky(error)


@pytest.mark.parametrize("error", STICKY, ids=repr)
def test_a_poisoned_context_is_told_from_out_of_memory(error: Exception) -> None:
    assert is_sticky(error)
    assert not looks_like_oom(error)


@pytest.mark.parametrize("error", HARMLESS, ids=repr)
def test_other_errors_are_neither(error: Exception) -> None:
    assert not looks_like_oom(error)
    assert not is_sticky(error)


def test_torch_names_its_error_as_expected() -> None:
    import torch

    assert looks_like_oom(torch.OutOfMemoryError("no memory"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert looks_like_oom(caught.value)


class Device:
    """Synthesizes by naming its input; out of memory above a sum, or whenever told to."""

    def __init__(self, room: int, faults: Sequence[bool] = ()) -> None:
        self.room = room
        self.faults = list(faults)
        self.spoken: list[int] = []
        self.tried: list[int] = []
        self.faulty = 0

    def synthesize(self, batch: Sequence[int]) -> list[str]:
        self.tried.append(len(batch))
        if sum(batch) > self.room or (self.faults and self.faults.pop()):
            self.faulty += 1
            raise OutOfMemoryError("CUDA out of memory. (fake)")
        self.spoken += batch
        return [str(size) for size in batch]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 1000))
def test_each_is_spoken_exactly_once_in_order(batch: list[int], room: int) -> None:
    device = Device(room)
    frees: list[None] = []
    audios = run_splitting(device.synthesize, batch, lambda _text: None, lambda: frees.append(None))
    expected = [
        OutOfMemory("CUDA out of memory. (fake)") if size > room else str(size) for size in batch
    ]
    assert audios == expected
    assert device.spoken == [size for size in batch if size <= room]
    assert len(device.tried) <= 2 * len(batch)
    assert len(frees) == device.faulty


@given(st.integers(1, 40), st.lists(st.booleans(), max_size=60))
def test_any_pattern_of_faults_loses_and_doubles_nothing(num: int, faults: list[bool]) -> None:
    device = Device(10**9, faults)
    batch = list(range(num))
    audios = run_splitting(device.synthesize, batch, lambda _text: None, lambda: None)
    lost = [n for n, audio in enumerate(audios) if isinstance(audio, OutOfMemory)]
    assert len(audios) == num
    assert device.spoken == [n for n in batch if n not in lost]
    assert all(audio == str(n) for n, audio in enumerate(audios) if n not in lost)


def test_a_split_is_told_once_and_a_lone_item_is_not_blamed_on_the_limit() -> None:
    told: list[str] = []
    device = Device(10)
    audios = run_splitting(device.synthesize, [99, 1, 1, 1, 1, 1, 1, 1], told.append, lambda: None)
    assert told == ["CUDA out of memory. (fake)"]
    assert [isinstance(audio, OutOfMemory) for audio in audios] == [True] + [False] * 7
    assert device.tried == [8, 4, 2, 1, 1, 2, 4]
    told.clear()
    run_splitting(device.synthesize, [99], told.append, lambda: None)
    assert told == []


class Tensor:
    """Something that a weak reference can watch."""


def test_memory_is_really_freed_before_the_retry() -> None:
    """C78: while the error lives, the failed frame keeps its tensors."""
    watched: list[weakref.ref[Tensor]] = []
    alive: list[bool] = []

    def synthesize(batch: Sequence[int]) -> list[int]:
        tensor = Tensor()
        if len(batch) > 1:
            watched.append(weakref.ref(tensor))
            raise OutOfMemoryError("CUDA out of memory. (fake)")
        return list(batch)

    def free() -> None:
        alive.append(watched[-1]() is not None)

    gc.disable()
    try:
        assert run_splitting(synthesize, [1, 2, 3, 4], lambda _text: None, free) == [1, 2, 3, 4]
    finally:
        gc.enable()
    assert alive == [False, False, False]


FRAGMENTED = (
    "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 7.79 GiB of "
    "which 100.00 MiB is free. Of the allocated memory 3.00 GiB is allocated by PyTorch, and "
    "1.50 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
    "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


def test_fragmentation_is_tried_once_more_at_the_same_size() -> None:
    """C85: freeing joins the pieces, so the batch need not shrink."""
    assert is_fragmented(FRAGMENTED)
    assert not is_fragmented(FRAGMENTED.replace("1.50 GiB is res", "1.50 MiB is res"))
    assert not is_fragmented("CUDA out of memory.")
    freed: list[None] = []
    tried: list[int] = []
    told: list[str] = []

    def synthesize(batch: Sequence[int]) -> list[int]:
        tried.append(len(batch))
        if not freed:
            raise OutOfMemoryError(FRAGMENTED)
        return list(batch)

    assert run_splitting(synthesize, [1, 2], told.append, lambda: freed.append(None)) == [1, 2]
    assert (tried, told) == ([2, 2], [])


def test_other_errors_pass_through_and_a_wrong_number_of_answers_is_one() -> None:
    def broken(batch: Sequence[int]) -> list[int]:
        raise ValueError(batch)

    with pytest.raises(ValueError, match="1, 2"):
        run_splitting(broken, [1, 2], lambda _text: None, lambda: None)
    with pytest.raises(RuntimeError, match="a batch of 2 with 1 waveforms"):
        run_splitting(lambda batch: list(batch[:1]), [1, 2], lambda _text: None, lambda: None)
