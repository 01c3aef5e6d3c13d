"""The test that any adapter must pass; a plug-in's own tests call `check` and are done.

It tries each clause of the contract in models/base.py with real texts, and the first one that does
not hold is raised by name. What a run relies on most is that a batch sounds like a single.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from batchtts.errors import VoiceError
from batchtts.models.base import (
    Adapter,
    Audio,
    Features,
    Frontend,
    Item,
    Model,
    TooLongError,
    UnspeakableError,
    VoiceInfo,
    Waveform,
)

TEXTS = (
    "Yes.",
    "Good morning, and thank you for calling.",
    "The train to the coast leaves at nine, but the one after it is usually faster.",
    "Would you like to hear the opening hours again?",
    "In spring the river rises, the meadows turn green, and the children of the village run down"
    + " to the bridge to watch the boats go by, one after another, until the sun sets.",
)
"""Short and long, unsorted."""
PARTY_POPPER = "\N{PARTY POPPER}"
"""What hardly any voice can say."""
TOLERANCE = 0.01
"""Largest difference of two samples that should be the same, full scale being 1."""


class ContractError(AssertionError):
    """An adapter breaks a clause of the contract."""

    def __init__(self, clause: str, what: str) -> None:
        super().__init__(f"{clause}: {what}")
        self.clause = clause


def check(
    adapter: Adapter,
    voice: str,
    device: str = "cpu",
    *,
    precision: str | None = None,
    texts: Sequence[str] = TEXTS,
    unspeakable: str = PARTY_POPPER,
    tolerance: float = TOLERANCE,
    largest: int | None = None,
) -> None:
    """Try the whole contract on one voice.

    Args:
        adapter: the adapter to test.
        voice: one of its voices.
        device: where to load the voice.
        precision: number type to test; the adapter's first choice when omitted.
        texts: at least three texts of clearly different lengths that the voice can say.
        unspeakable: a character that it cannot say.
        tolerance: largest difference of samples that should be the same, full scale being 1.
        largest: size of the largest dummy; the model's limit when omitted.

    Raises:
        ContractError: the first clause that does not hold, by name.
    """
    with _clause("adapter"):
        _require(isinstance(adapter, Adapter), "it lacks a member of the protocol Adapter")
        info = _check_voice(adapter, voice)
        kinds = adapter.precisions(device)
        _require(bool(kinds), f"it offers no precision on {device}")
    with _clause("front end"):
        frontend = adapter.frontend(voice)
        _require(isinstance(frontend, Frontend), "it lacks a member of the protocol Frontend")
        features = _check_frontend(frontend, voice, texts)
    with _clause("model"):
        model = adapter.load(voice, device, precision or kinds[0])
        _require(isinstance(model, Model), "it lacks a member of the protocol Model")
        _require(model.sample_rate == info.sample_rate, "its sample rate is not the voice's")
        alone = [_one(model, one) for one in features]
    spoken = _Spoken(model=model, features=features, alone=alone, tolerance=tolerance)
    for clause, test in _CLAUSES.items():
        with _clause(clause):
            test(spoken)
    with _clause("speed"):
        _check_speed(frontend, voice, model, texts)
    with _clause("long text"):
        _check_long_text(frontend, voice, model, texts)
    with _clause("empty text"):
        _check_empty(frontend, voice, model)
    with _clause("unspeakable"):
        _check_unspeakable(frontend, voice, texts[0], unspeakable)
    with _clause("dummy"):
        _check_dummy(model, largest or model.max_size)
    with _clause("light import"):
        _check_light(adapter, frontend, Item(text=texts[0], voice=voice))


@contextmanager
def _clause(name: str) -> Iterator[None]:
    """Whatever fails inside breaks the clause of this name."""
    try:
        yield
    except Exception as error:
        what = str(error) if type(error) is ValueError else repr(error)
        raise ContractError(name, what) from error


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _check_voice(adapter: Adapter, voice: str) -> VoiceInfo:
    info = adapter.voice(voice)
    _require(bool(info.license), "the voice names no licence")
    _require(bool(info.fingerprint), "the voice has no fingerprint")
    for name, listed in adapter.voices().items():
        _require(listed.name == name, f"the voice listed as {name!r} calls itself {listed.name!r}")
    try:
        adapter.voice("no such voice")
    except VoiceError:
        return info
    message = "an unknown voice must raise VoiceError"
    raise ValueError(message)


def _items(voice: str, texts: Sequence[str], speed: float = 1.0) -> list[Item]:
    return [Item(text=t, voice=voice, speed=speed, seed=i + 1) for i, t in enumerate(texts)]


def _check_frontend(frontend: Frontend, voice: str, texts: Sequence[str]) -> list[Features]:
    """What it makes of the texts: the same in every copy and every thread."""
    items = _items(voice, texts)
    copy = pickle.loads(pickle.dumps(frontend))
    features = [copy.prepare(item) for item in items]
    with ThreadPoolExecutor(4) as threads:
        again = list(threads.map(frontend.prepare, items * 4))
    for item, one, other in zip(items * 4, features * 4, again, strict=True):
        _require(pickle.dumps(one) == pickle.dumps(other), f"it is not the same twice: {item.text}")
        _require(one.size > 0, f"the size of {item.text!r} is {one.size}")
        _require(isfinite(one.seconds) and one.seconds > 0, f"seconds are {one.seconds}")
        _require(one.seed == item.seed, "the seed is not the item's")
        hash(one.group)
    return features


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spoken:
    """A loaded model and the features to try it on."""

    model: Model
    features: list[Features]
    alone: list[Audio]
    """The audio of each, spoken alone."""
    tolerance: float

    def require_same(self, ours: Sequence[Audio], others: Sequence[Audio]) -> None:
        _require(len(ours) == len(others), f"{len(others)} waveforms for {len(ours)} features")
        for place, (one, other) in enumerate(zip(ours, others, strict=True)):
            lengths = f"{len(one.wave)} and {len(other.wave)} samples"
            _require(len(one.wave) == len(other.wave), f"item {place} has {lengths}")
            difference = float(np.abs(one.wave - other.wave).max(initial=0))
            _require(difference <= self.tolerance, f"item {place} differs by {difference:.2g}")


def _one(model: Model, features: Features) -> Audio:
    (audio,) = model.synthesize([features])
    return audio


def _check_waveforms(spoken: _Spoken) -> None:
    for features, audio in zip(spoken.features, spoken.alone, strict=True):
        wave: Waveform = audio.wave
        _require(wave.dtype == np.float32 and wave.ndim == 1, f"{wave.dtype} [{wave.shape}]")
        _require(bool(np.isfinite(wave).all()), "a sample is no finite number")
        _require(bool((np.abs(wave) <= 1).all()), "a sample is outside [-1, 1]")
        _require(bool(wave.any()), "a waveform is silent")
        _require(audio.finish == "ok", f"a plain text ended as {audio.finish!r}")
        seconds = len(wave) / spoken.model.sample_rate
        expected = features.seconds
        far = seconds > 3 * expected + 1 or expected > 3 * seconds + 1
        _require(not far, f"{seconds:.2f} s of audio where {expected:.2f} s were expected")


def _check_repeat(spoken: _Spoken) -> None:
    spoken.require_same(spoken.alone, [_one(spoken.model, f) for f in spoken.features])


def _check_lengths(spoken: _Spoken) -> None:
    together = spoken.model.synthesize(spoken.features)
    lengths = [len(audio.wave) for audio in together]
    alone = [len(audio.wave) for audio in spoken.alone]
    _require(lengths == alone, f"{lengths} samples in a batch, {alone} alone")


def _check_batch(spoken: _Spoken) -> None:
    spoken.require_same(spoken.alone, spoken.model.synthesize(spoken.features))


def _check_order(spoken: _Spoken) -> None:
    backwards = spoken.model.synthesize(spoken.features[::-1])
    spoken.require_same(spoken.alone, backwards[::-1])


def _check_neighbours(spoken: _Spoken) -> None:
    half = len(spoken.features) // 2
    first = spoken.model.synthesize(spoken.features[:half])
    spoken.require_same(spoken.alone, first + spoken.model.synthesize(spoken.features[half:]))


def _check_seed(spoken: _Spoken) -> None:
    features = spoken.features[-1]
    one, other = (_one(spoken.model, replace(features, seed=s)) for s in (1, 2))
    same = len(one.wave) == len(other.wave) and bool((one.wave == other.wave).all())
    _require(not same, "another seed gives the same audio")


def _check_submit(spoken: _Spoken) -> None:
    submit = getattr(spoken.model, "submit", None)
    if submit is None:
        return
    spoken.require_same(spoken.alone, submit(spoken.features, False)())
    coarse = submit(spoken.features, True)()
    _require(all(audio.wave.dtype == np.int16 for audio in coarse), "pcm16 is not int16")
    waves = [replace(a, wave=a.wave.astype(np.float32) / np.float32(32767)) for a in coarse]
    spoken.require_same(spoken.alone, waves)


def _check_chunks(spoken: _Spoken) -> None:
    in_chunks = getattr(spoken.model, "synthesize_in_chunks", None)
    if in_chunks is not None:
        spoken.require_same(spoken.alone, [in_chunks(f) for f in spoken.features])


_CLAUSES: dict[str, Callable[[_Spoken], None]] = {
    "waveforms": _check_waveforms,
    "same seed": _check_repeat,
    "other seed": _check_seed,
    "lengths": _check_lengths,
    "batch as alone": _check_batch,
    "order": _check_order,
    "neighbours": _check_neighbours,
    "submit": _check_submit,
    "chunks": _check_chunks,
}


def _check_speed(frontend: Frontend, voice: str, model: Model, texts: Sequence[str]) -> None:
    slow, fast = (
        len(_one(model, frontend.prepare(_items(voice, texts, speed)[-1])).wave)
        for speed in (0.8, 1.25)
    )
    _require(fast < slow, f"{fast} samples at speed 1.25, {slow} at 0.8")


def _check_long_text(frontend: Frontend, voice: str, model: Model, texts: Sequence[str]) -> None:
    """A text is taken within the model's limit, or refused with a limit that can be kept."""
    text = " ".join(texts)
    item = Item(text=" ".join([text] * (model.max_size // len(text) + 2)), voice=voice)
    try:
        size = frontend.prepare(item).size
    except TooLongError as error:
        _require(0 < error.limit <= model.max_size, f"refused with the limit {error.limit}")
        _require(error.size > error.limit, f"refused size {error.size} of {error.limit}")
    else:
        _require(size <= model.max_size, f"size {size} is over the limit {model.max_size}")


def _check_empty(frontend: Frontend, voice: str, model: Model) -> None:
    try:
        features = frontend.prepare(Item(text="", voice=voice))
    except UnspeakableError:
        return
    audio = _one(model, features)
    _require(audio.finish == "empty", f"it ended as {audio.finish!r}, neither refused nor 'empty'")


def _check_unspeakable(frontend: Frontend, voice: str, text: str, char: str) -> None:
    try:
        frontend.prepare(Item(text=f"{text} {char}", voice=voice))
    except UnspeakableError as error:
        _require(char in error.what, f"refused for {error.what!r}, which does not name {char!r}")
    else:
        message = f"{char!r} is dropped in silence"
        raise ValueError(message)


def _check_dummy(model: Model, largest: int) -> None:
    for size in (max(largest // 8, 1), largest):
        features = model.dummy(size)
        _require(features.size == size, f"dummy({size}) has size {features.size}")
        _require(len(_one(model, features).wave) > 0, f"dummy({size}) makes no audio")


_LIGHT = """
import importlib, pickle, sys
importlib.import_module(sys.argv[1])
for heavy in ("torch", "onnxruntime"):
    if heavy in sys.modules:
        sys.exit(f"importing {sys.argv[1]} imports {heavy}")
frontend, item = pickle.load(sys.stdin.buffer)
frontend.prepare(item)
if "torch" in sys.modules:
    sys.exit("the front end imports torch")
"""


def _check_light(adapter: Adapter, frontend: Frontend, item: Item) -> None:
    """In a fresh process: neither the adapter nor its front end imports what is heavy."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    result = subprocess.run(
        [sys.executable, "-c", _LIGHT, type(adapter).__module__],
        input=pickle.dumps((frontend, item)),
        env=environment,
        capture_output=True,
        check=False,
    )
    last = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    _require(result.returncode == 0, last)
