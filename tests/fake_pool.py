"""A pool of scripted workers under a clock that jumps: hours of a run in milliseconds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from batchtts.data import Record, Utterance
from batchtts.devices import Slot
from batchtts.messages import Busy, Bye, Died, Done, Drain, Ready, Work
from batchtts.plan import record_of

Script = Callable[[int, object], Iterable[tuple[float, object]]]
"""(worker, message or None at the start) -> (seconds after what it said before, message) pairs."""

EXIT = Died("ended with exit code 0")
KILLED = Died("killed by SIGKILL", out_of_memory=True)
SEGFAULT = Died("killed by SIGSEGV")
LOAD_SECONDS = 1.0
BATCH_SECONDS = 1.0


def slots(count: int, device: str = "cpu") -> list[Slot]:
    return [
        Slot(device=device, label=f"{device}/{n}", env={"SEAT": str(n)}, threads=1, share=count)
        for n in range(1, count + 1)
    ]


def utterances(count: int, voice: str = "fake:tone") -> list[Utterance]:
    """Each lasts ten seconds."""
    return [
        Utterance(
            index=n,
            line=n + 1,
            id=f"u{n}",
            text=f"text {n}",
            voice=voice,
            lang="",
            speed=1.0,
            seed=0,
            file=f"audio/u{n}.wav",
            key=str(n),
        )
        for n in range(count)
    ]


def done(*rows: Utterance) -> Done:
    return Done(tuple((u.index, record_of(u, "s", status="ok", duration=10.0)) for u in rows))


def busy(*rows: Utterance) -> Busy:
    return Busy(tuple(u.index for u in rows), 10.0 * len(rows))


def healthy(_worker: int, message: object) -> Iterable[tuple[float, object]]:
    """Loads, speaks each lease in one batch, says goodbye."""
    match message:
        case None:
            yield LOAD_SECONDS, Ready("fp32", "")
        case Work(lease):
            yield 0.0, busy(*lease.utterances)
            yield BATCH_SECONDS, done(*lease.utterances)
        case Drain():
            yield 0.1, Bye()
            yield 0.1, EXIT
        case _:
            raise AssertionError(message)


def crashing_on(poison: set[int], death: Died = SEGFAULT) -> Script:
    """Dies over each of these rows."""

    def act(worker: int, message: object) -> Iterable[tuple[float, object]]:
        if isinstance(message, Work) and poison & {u.index for u in message.lease.utterances}:
            yield 0.0, busy(*message.lease.utterances)
            yield BATCH_SECONDS, death
        else:
            yield from healthy(worker, message)

    return act


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakePool:
    """See `batchtts.pools.base.Pool`."""

    script: Script
    clock: Clock = field(default_factory=Clock)
    started: list[tuple[float, int, Any]] = field(default_factory=list)
    """(when, worker, spec)."""
    sent: list[tuple[int, object]] = field(default_factory=list)
    killed: list[tuple[float, int]] = field(default_factory=list)
    closed: bool = False
    _saying: dict[int, list[tuple[float, object]]] = field(default_factory=dict)
    """Worker -> (when, message), in order; a worker whose `Died` was heard is gone."""

    def start(self, worker: int, spec: object, environment: dict[str, str]) -> None:
        assert environment
        self.started.append((self.clock.now, worker, spec))
        self._saying[worker] = []
        self._say(worker, self.script(worker, None))

    def send(self, worker: int, message: object) -> None:
        self.sent.append((worker, message))
        if worker not in self._saying:
            return
        if isinstance(message, Drain) and message.at_once:
            self._finish_batch(worker)
        self._say(worker, self.script(worker, message))

    def poll(self, timeout: float) -> list[tuple[int, object]]:
        due = [saying[0][0] for saying in self._saying.values() if saying]
        self.clock.now = min(max(self.clock.now, min(due, default=1e9)), self.clock.now + timeout)
        heard: list[tuple[int, object]] = []
        for worker, saying in list(self._saying.items()):
            while saying and saying[0][0] <= self.clock.now:
                message = saying.pop(0)[1]
                heard.append((worker, message))
                if isinstance(message, Died):
                    del self._saying[worker]
                    break
        return heard

    def kill(self, worker: int) -> None:
        self.killed.append((self.clock.now, worker))
        if worker in self._saying:
            self._saying[worker] = [(self.clock.now, KILLED)]

    def close(self) -> None:
        self.closed = True

    def _say(self, worker: int, words: Iterable[tuple[float, object]]) -> None:
        saying = self._saying[worker]
        if any(isinstance(message, Died) for _, message in saying):
            return
        when = max(self.clock.now, saying[-1][0] if saying else 0.0)
        for delay, message in words:
            when += delay
            saying.append((when, message))

    def _finish_batch(self, worker: int) -> None:
        saying = self._saying[worker]
        ends = [n for n, (_, message) in enumerate(saying) if isinstance(message, Done)]
        del saying[ends[0] + 1 if ends else len(saying) :]


@dataclass
class Books:
    """A watcher that remembers. See `batchtts.coordinator.Watcher`."""

    committed: list[int] = field(default_factory=list)
    given_up: dict[int, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    aloud: list[str] = field(default_factory=list)
    devices: dict[str, str] = field(default_factory=dict)

    def commit(self, utterance: Utterance, record: Record) -> None:
        assert record.id == utterance.id
        self.committed.append(utterance.index)

    def give_up(self, utterance: Utterance, reason: str) -> None:
        assert utterance.index not in self.given_up
        self.given_up[utterance.index] = reason

    def device(self, label: str, uuid: str) -> None:
        self.devices[label] = uuid

    def event(self, text: str, *, aloud: bool = False) -> None:
        (self.aloud if aloud else self.events).append(text)

    def tick(self) -> None:
        return
