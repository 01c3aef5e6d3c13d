"""The first stage of a worker: utterance -> segments, on the CPU, by the voice's front end.

Runs in a thread of the worker, or in processes of its own where G2P is the bottleneck.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from batchtts import text
from batchtts.config import Config
from batchtts.data import Utterance
from batchtts.models.base import Features, Frontend, Item, TooLongError, UnspeakableError
from batchtts.plan import seed_of

NOTHING = "nothing to speak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of an utterance, spoken alone, then joined."""

    utterance: Utterance
    number: int
    """Place in the utterance, from 0."""
    count: int
    """Segments of the utterance."""
    pause_ms: int
    """Pause after it, before the next one."""
    features: Features
    precision: str = ""
    """Not the run's own precision, but this one; empty for the run's own."""

    @property
    def seed(self) -> int:
        """Seed of its noise in this attempt."""
        return self.features.seed

    def again(self, attempt: int, precision: str) -> "Segment":
        """The same segment with another seed, and with this precision unless it is ""."""
        seed = seed_of(self.utterance.seed, self.number, attempt)
        return replace(
            self,
            features=replace(self.features, seed=seed),
            precision=precision or self.precision,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An utterance that cannot be spoken, and why."""

    utterance: Utterance
    reason: str
    status: str
    """"failed" or "skipped"."""


def prepare(frontend: Frontend, utterance: Utterance, config: Config) -> list[Segment] | Refused:
    """Turn an utterance into its segments, or say why it cannot be spoken."""
    try:
        pieces = list(_pieces(frontend, utterance, config))
    except UnspeakableError as error:
        skip = error.reason == NOTHING or config.text.on_unspeakable == "skip"
        status = "skipped" if skip else "failed"
        return Refused(utterance=utterance, reason=str(error), status=status)
    except Exception as error:  # noqa: BLE001  a plug-in's fault is one row's fault, not the run's
        reason = f"the front end failed: {type(error).__name__}: {error}"
        return Refused(utterance=utterance, reason=reason, status="failed")
    if not pieces:
        reason = f"{NOTHING}: {utterance.text}"
        return Refused(utterance=utterance, reason=reason, status="skipped")
    return [
        Segment(
            utterance=utterance,
            number=number,
            count=len(pieces),
            pause_ms=pause_ms,
            features=features,
        )
        for number, (features, pause_ms) in enumerate(pieces)
    ]


def _pieces(
    frontend: Frontend, utterance: Utterance, config: Config
) -> Iterator[tuple[Features, int]]:
    """Sentence by sentence, ever finer where one is too long; with the pause after each."""
    sentences = text.split(utterance.text, config.text, utterance.lang)
    waiting = [(piece.text, piece.pause_ms) for piece in reversed(sentences)]
    number = 0
    while waiting:
        piece, pause_ms = waiting.pop()
        try:
            yield _features(frontend, utterance, config, piece, number), pause_ms
            number += 1
        except TooLongError:
            parts = text.split_finer(piece)
            pauses = [0] * (len(parts) - 1) + [pause_ms]
            waiting.extend(reversed(list(zip(parts, pauses, strict=True))))
        except UnspeakableError as error:
            if error.reason != NOTHING:  # a piece of punctuation only is no loss
                raise


def _features(
    frontend: Frontend, utterance: Utterance, config: Config, piece: str, number: int
) -> Features:
    """Features of one piece; under `on_unspeakable: strip` without what the voice cannot say."""
    item = Item(
        text=piece,
        voice=utterance.voice.partition(":")[2],
        lang=utterance.lang,
        speed=utterance.speed,
        seed=seed_of(utterance.seed, number) if number else utterance.seed,
        options=config.options,
    )
    try:
        return frontend.prepare(item)
    except UnspeakableError as error:
        if config.text.on_unspeakable != "strip" or error.reason == NOTHING:
            raise
        dropped = error.what
    left = text.strip_unspeakable(piece, dropped)
    if not left or left == piece:
        raise UnspeakableError(piece, NOTHING)
    features = _features(frontend, replace(utterance, seed=item.seed), config, left, 0)
    notes = {**features.notes, "dropped": f"{dropped} {features.notes.get('dropped', '')}".strip()}
    return replace(features, notes=notes)
