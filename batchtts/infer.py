"""The stage that touches the device: packs segments into batches and gets their audio.

One thread runs `Infer.run`; everything else may be called from the other stages' threads.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from batchtts.batching import AdaptiveLimit, OutOfMemory, Packer, cost, is_sticky, run_splitting
from batchtts.models.base import Audio, Features, Model
from batchtts.prepare import Segment

Place = tuple[str, str]
"""(voice, precision): what decides which model speaks a segment."""


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Stands in for the audio of what the model failed on."""

    text: str
    """What the model said."""


Spoken = Audio | OutOfMemory | Spoiled
Answer = Callable[[], Spoken]
"""Waits for the audio of one segment; called once, from any thread."""


@dataclass(slots=True)
class Loaded:
    """A model on the device and how it is fed."""

    model: Model
    limit: AdaptiveLimit


@dataclass(slots=True)
class Figures:
    """What the device did with its time."""

    batches: int = 0
    batch_sizes: dict[int, int] = field(default_factory=dict)
    """Utterances or segments in a batch -> how many there were."""
    ooms: int = 0
    """Batches that were split because memory ran out."""
    real: int = 0
    """Units of `Features.size` that were asked for."""
    padded: int = 0
    """Units of `Features.size` that were computed."""
    wait_prepare_seconds: float = 0.0
    """The device was idle and waited for segments."""
    wait_write_seconds: float = 0.0
    """The device was idle and waited for post and write."""


class BusyClock:
    """Seconds in which at least one batch was on the device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._since = 0.0
        self._total = 0.0

    def enter(self) -> None:
        """A batch goes to the device."""
        with self._lock:
            if self._inside == 0:
                self._since = time.monotonic()
            self._inside += 1

    def leave(self) -> None:
        """Its audio is there."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._total += time.monotonic() - self._since

    def seconds(self) -> float:
        """Busy seconds so far."""
        with self._lock:
            running = time.monotonic() - self._since if self._inside else 0.0
            return self._total + running


class Infer:
    """The pool of segments that wait for the device, and the device's loop."""

    def __init__(
        self, load: Callable[[Place], Loaded], remark: Callable[[str], None], *, pcm16: bool
    ) -> None:
        """`load` puts a model on the device; `pcm16` asks models for int16 samples if they can."""
        self._load = load
        self._remark = remark
        self._pcm16 = pcm16
        self._models: dict[Place, Loaded] = {}
        self._change = threading.Condition()
        self._packers: dict[Place, Packer[Segment]] = {}
        self._preparing = 0
        self._unfinished = 0
        self._draining = self._stopping = False
        self.figures = Figures()
        self.busy = BusyClock()

    def expect(self, utterances: int) -> None:
        """So many utterances are on their way to the pool: a batch may wait for them."""
        with self._change:
            self._preparing += utterances
            self._unfinished += utterances

    def prepared(self, segments: Sequence[Segment]) -> None:
        """An expected utterance is there; without segments when it cannot be spoken."""
        with self._change:
            self._preparing -= 1
            self._add(segments)

    def again(self, segments: Sequence[Segment]) -> None:
        """Speak these another time."""
        with self._change:
            self._add(segments)

    def finished(self) -> None:
        """An expected utterance has its record."""
        with self._change:
            self._unfinished -= 1
            self._change.notify_all()

    def end(self, *, at_once: bool) -> None:
        """End when all is finished, or `at_once`, with what is on the device now."""
        with self._change:
            self._draining = True
            self._stopping = self._stopping or at_once
            self._change.notify_all()

    def model(self, place: Place) -> Model:
        """The model that speaks at this place; only the infer thread may be the first to ask."""
        if place not in self._models:
            self._models[place] = self._load(place)
        return self._models[place].model

    def run(
        self,
        announce: Callable[[list[Segment]], None],
        emit: Callable[[list[tuple[Segment, Answer]]], None],
    ) -> None:
        """Speak until told to end.

        Args:
            announce: told of each batch before it goes to the device.
            emit: given each batch with its answers; may block while post and write are behind.
        """
        place: Place | None = None
        while True:
            with self._idle("wait_prepare_seconds"):
                place = self._next_place(place)
            if place is None:
                return
            self.model(place)
            with self._idle("wait_prepare_seconds"):
                batch = self._take(place)
            if not batch:
                continue
            announce(batch)
            answers = self._speak(self._models[place], batch)
            with self._idle("wait_write_seconds"):
                emit(list(zip(batch, answers, strict=True)))

    @contextmanager
    def _idle(self, figure: str) -> Iterator[None]:
        """Count the time of a wait in which the device had nothing to do."""
        started, busy = time.monotonic(), self.busy.seconds()
        yield
        waited = time.monotonic() - started - (self.busy.seconds() - busy)
        setattr(self.figures, figure, getattr(self.figures, figure) + max(0.0, waited))

    # The pool; the condition is held in the methods below that say so ---------------------------

    def _add(self, segments: Sequence[Segment]) -> None:
        """Held."""
        for segment in segments:
            place = (segment.utterance.voice, segment.precision)
            packer = self._packers.setdefault(place, Packer())
            packer.add(segment, segment.features.size, segment.features.group)
        self._change.notify_all()

    def _ended(self) -> bool:
        """Held."""
        return self._stopping or (self._draining and not self._unfinished)

    def _next_place(self, place: Place | None) -> Place | None:
        """Wait for segments: stay with a voice while it has any, else take the fullest."""
        with self._change:
            while not self._ended():
                if place is not None and len(self._packers.get(place, ())):
                    return place
                filled = [here for here, packer in self._packers.items() if len(packer)]
                if filled:
                    return max(filled, key=lambda here: self._packers[here].pending_cost())
                self._change.wait()
            return None

    def _take(self, place: Place) -> list[Segment]:
        """Wait until a batch is full or nothing more is on its way; empty at the end."""
        loaded, packer = self._models[place], self._packers[place]
        with self._change:
            while not self._ended():
                limit = loaded.limit.current
                full = len(packer) >= limit.max_items or (
                    limit.max_cost is not None and packer.pending_cost() >= limit.max_cost
                )
                if full or not self._preparing:
                    return packer.take(limit, loaded.model.ragged)
                self._change.wait()
            return []

    # The device ---------------------------------------------------------------------------------

    def _speak(self, loaded: Loaded, batch: list[Segment]) -> list[Answer]:
        ooms: list[str] = []
        try:
            outcomes = run_splitting(
                lambda part: self._start(loaded.model, part),
                [segment.features for segment in batch],
                ooms.append,
                free_memory,
            )
        except Exception as error:
            if is_sticky(error):
                raise
            spoiled = Spoiled(f"{type(error).__name__}: {error}")
            # One bad utterance must not take its neighbours along: speak each of them alone.
            if len(batch) > 1:
                return [self._speak(loaded, [segment])[0] for segment in batch]
            return [lambda: spoiled]
        self._count(loaded, [segment.features.size for segment in batch], ooms)
        return [
            self._in_chunks(loaded.model, segment.features, outcome)
            if isinstance(outcome, OutOfMemory)
            else outcome
            for segment, outcome in zip(batch, outcomes, strict=True)
        ]

    def _count(self, loaded: Loaded, sizes: list[int], ooms: list[str]) -> None:
        figures = self.figures
        figures.batches += 1
        figures.batch_sizes[len(sizes)] = figures.batch_sizes.get(len(sizes), 0) + 1
        figures.real += sum(sizes)
        figures.padded += cost(sizes, loaded.model.ragged)
        if ooms:
            figures.ooms += 1
            loaded.limit.on_oom()
            self._remark(f"out of memory: a batch of {len(sizes)} was split: {ooms[0]}")
            self._remark(memory_summary())
        else:
            loaded.limit.on_success()

    def _start(self, model: Model, part: Sequence[Features]) -> list[Answer]:
        """Start a part of a batch; models without `submit` are done when this returns."""
        self.busy.enter()
        try:
            submit = getattr(model, "submit", None)
            if submit is None:
                audios = model.synthesize(part)
                finish: Callable[[], list[Audio]] = lambda: audios  # noqa: E731  a value, late
                self.busy.leave()
            else:
                finish = submit(part, self._pcm16)
        except BaseException:
            self.busy.leave()
            raise
        pending = _Pending(finish, self.busy.leave if submit else None)
        return [partial(pending.get, number) for number in range(len(part))]

    def _in_chunks(self, model: Model, features: Features, failure: OutOfMemory) -> Answer:
        """What does not fit alone is spoken in little memory, where the model can."""
        in_chunks = getattr(model, "synthesize_in_chunks", None)
        if in_chunks is None:
            return lambda: failure
        outcome = run_splitting(
            lambda part: [in_chunks(part[0])], [features], self._remark, free_memory
        )[0]
        return lambda: outcome


class _Pending:
    """The audio of a batch that is still on its way down; waited for once, by whoever asks."""

    def __init__(self, finish: Callable[[], list[Audio]], then: Callable[[], None] | None) -> None:
        self._finish = finish
        self._then = then
        self._lock = threading.Lock()
        self._outcome: list[Audio] | Spoiled | None = None

    def get(self, number: int) -> Audio | Spoiled:
        """The audio of one segment of the batch, or what went wrong with all of it."""
        with self._lock:
            if self._outcome is None:
                self._outcome = self._wait()
            return self._outcome if isinstance(self._outcome, Spoiled) else self._outcome[number]

    def _wait(self) -> list[Audio] | Spoiled:
        try:
            return self._finish()
        except Exception as error:
            if is_sticky(error):
                raise
            return Spoiled(f"{type(error).__name__}: {error}")
        finally:
            if self._then:
                self._then()


def free_memory() -> None:
    """Give back what nobody uses; never itself a reason to fail."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        with suppress(RuntimeError):  # even this can run out of memory
            torch.cuda.empty_cache()


def memory_summary() -> str:
    """What the device's allocator holds, for the log; empty where there is none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    return str(torch.cuda.memory_summary(abbreviated=True))
