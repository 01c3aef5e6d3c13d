"""The device's loop: what is asynchronous, what fails late, what the clock counts."""

import time
from collections.abc import Callable, Sequence

import pytest

from batchtts.batching import AdaptiveLimit, OutOfMemory
from batchtts.data import BatchLimit, Utterance
from batchtts.infer import Answer, BusyClock, Infer, Loaded, Spoiled
from batchtts.models.base import Audio, Features, Item
from batchtts.models.fake import FakeFrontend, FakeModel, Sabotage
from batchtts.prepare import Segment


class LateModel(FakeModel):
    """Answers when asked for, as a GPU does."""

    def __init__(self, error: str = "") -> None:
        super().__init__(Sabotage())
        self._error = error
        self.asked_pcm16: bool | None = None

    def submit(self, batch: Sequence[Features], pcm16: bool) -> Callable[[], list[Audio]]:
        self.asked_pcm16 = pcm16

        def finish() -> list[Audio]:
            time.sleep(0.02)
            if self._error:
                raise RuntimeError(self._error)
            return self.synthesize(batch)

        return finish


class ChunkingModel(FakeModel):
    """Speaks in little memory what does not fit."""

    def synthesize_in_chunks(self, features: Features) -> Audio:
        return FakeModel(Sabotage()).synthesize([features])[0]


def segments(count: int) -> list[Segment]:
    frontend = FakeFrontend()
    made = []
    for n in range(count):
        text = "x" * (n + 1)
        utterance = Utterance(
            index=n,
            line=n,
            id=str(n),
            text=text,
            voice="fake:tone",
            lang="",
            speed=1.0,
            seed=n,
            file="",
            key="",
        )
        item = frontend.prepare(_item(text, n))
        made.append(Segment(utterance=utterance, number=0, count=1, pause_ms=0, features=item))
    return made


def _item(text: str, seed: int) -> Item:
    return Item(text=text, voice="tone", seed=seed)


def run(model: FakeModel, count: int = 6, size: int = 3) -> tuple[Infer, list[list[Answer]]]:
    """Have all segments spoken; returns the answers of each batch."""
    limit = AdaptiveLimit(BatchLimit(max_items=size))
    infer = Infer(lambda _: Loaded(model, limit), lambda _: None, pcm16=True)
    batches: list[list[Answer]] = []

    def emit(batch: list[tuple[Segment, Answer]]) -> None:
        batches.append([answer for _, answer in batch])
        for _ in batch:
            infer.finished()

    infer.expect(count)
    for segment in segments(count):
        infer.prepared([segment])
    infer.end(at_once=False)
    infer.run(lambda _: None, emit)
    return infer, batches


def test_a_model_that_answers_late_is_asked_for_int16_and_waited_for() -> None:
    model = LateModel()
    infer, batches = run(model)
    assert [len(batch) for batch in batches] == [3, 3]
    spoken = [answer() for batch in batches for answer in batch]
    assert all(isinstance(audio, Audio) for audio in spoken)
    assert model.asked_pcm16 is True
    assert infer.busy.seconds() >= 0.02


def test_a_batch_that_fails_late_fails_its_rows_and_not_the_worker() -> None:
    _, batches = run(LateModel("the copy failed"))
    outcomes = [answer() for batch in batches for answer in batch]
    assert all(isinstance(outcome, Spoiled) for outcome in outcomes)
    assert {outcome.text for outcome in outcomes if isinstance(outcome, Spoiled)} == {
        "RuntimeError: the copy failed"
    }


def test_a_poisoned_device_is_not_hidden() -> None:
    _, batches = run(LateModel("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        batches[0][0]()


@pytest.mark.parametrize("model", [FakeModel, ChunkingModel])
def test_what_does_not_fit_alone_is_spoken_in_chunks_where_the_model_can(
    model: type[FakeModel],
) -> None:
    _, batches = run(model(Sabotage(oom_item_above=5)))
    outcomes = [answer() for batch in batches for answer in batch]
    lost = [outcome for outcome in outcomes if isinstance(outcome, OutOfMemory)]
    assert len(lost) == (1 if model is FakeModel else 0)


def test_the_busy_clock_counts_overlapping_batches_once() -> None:
    clock = BusyClock()
    clock.enter()
    clock.enter()
    time.sleep(0.02)
    clock.leave()
    clock.leave()
    busy = clock.seconds()
    time.sleep(0.02)
    assert 0.02 <= busy == clock.seconds()
