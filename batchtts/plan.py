"""All work of a run, decided before any model loads; pure: no files, no devices, no clock.

rows -> utterances (defaults, cleaning, seed, key) -> what is done, what is twice, what is to speak
and in which order.
"""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from batchtts import output, text
from batchtts.config import Config
from batchtts.data import Record, Row, Utterance
from batchtts.manifest import Prior
from batchtts.models.base import VoiceInfo
from batchtts.normalise import normalise

EMPTY = "empty text"
KEY_SCHEMA = 1
"""Counts up when the same key would mean other audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """A voice as a run knows it."""

    name: str
    """"adapter:name", as utterances carry it."""
    info: VoiceInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """An utterance that says exactly what another one says: it gets a copy of that file."""

    utterance: Utterance
    of: str
    """Id of the utterance that is spoken, or was in an earlier run."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a run will do."""

    ids: list[str] = field(default_factory=list)
    """All ids in input order."""
    indexes: "array[int]" = field(default_factory=lambda: array("Q"))
    """`Utterance.index` of each id."""
    todo: list[Utterance] = field(default_factory=list)
    """To speak: voice by voice, longest first."""
    twins: list[Twin] = field(default_factory=list)
    settled: list[Record] = field(default_factory=list)
    """Rows that end before any model loads: empty texts, malformed rows."""
    kept: int = 0
    """Rows that an earlier run settled and that still stand."""
    gone: list[str] = field(default_factory=list)
    """Ids of the manifest that are no longer in the input; their files stay."""
    seconds: float = 0.0
    """Expected audio of `todo`."""
    changes: Counter[str] = field(default_factory=Counter)
    """What was changed in the texts before they are spoken, and how often."""
    shard: dict[str, Any] = field(default_factory=dict)
    """Of a shard: its name, and the rows and the digest of the whole input, for `merge`."""


def utterances(
    rows: Iterable[Row],
    config: Config,
    voices: Callable[[Row], Voice],
    *,
    folders: bool,
    owns: Callable[[str], bool] = lambda _: True,
    changes: Counter[str] | None = None,
) -> Iterator[tuple[Utterance, str]]:
    """Lay the config's defaults under each row, clean its text, and give it seed, key and file.

    Of two rows whose files some system would take for one, the later one gets a mapped name.

    Args:
        rows: the input.
        config: its `output` is resolved.
        voices: describes the voice of a row.
        folders: spread the files over folders.
        owns: whether the row of an id is this shard's; the others' rows only take their files.
        changes: is given what was changed in the texts, and how often.

    Yields:
        Each utterance with the reason why it cannot be spoken, or "".
    """
    extension = output.extension(config.output)
    settings = _settings(config)
    taken: set[int] = set()
    changes = Counter() if changes is None else changes
    for row in rows:
        file = _file(row, extension, taken, folders=folders)
        if not owns(row.id):
            continue
        voice = voices(row)
        speed = config.speed if row.speed is None else row.speed
        lang = config.lang if row.lang is None else row.lang
        spoken = _spoken(row.text, config, lang or _language(voice.info), changes)
        seed = seed_of(config.seed, voice.name, spoken) if row.seed is None else row.seed
        identity = (spoken, voice.name, voice.info.fingerprint, lang, speed, seed)
        utterance = Utterance(
            index=row.index,
            line=row.line,
            id=row.id,
            text=spoken,
            voice=voice.name,
            lang=lang,
            speed=speed,
            seed=seed,
            file=file,
            key=_key(settings, identity),
        )
        yield utterance, row.problem or ("" if spoken else EMPTY)


def _spoken(written: str, config: Config, lang: str, changes: Counter[str]) -> str:
    """What is said for a text; the lexicon's word comes before the rules for numbers."""
    cleaned = text.clean(written, config.text)
    changes.update(cleaned.notes)
    spoken = cleaned.text
    if config.text.lexicon:
        spoken, words = text.apply_lexicon(spoken, config.text.lexicon)
        changes["lexicon"] += words
    if config.text.numbers == "digits":
        spoken, numbers = normalise(spoken, english=lang.lower().startswith("en"))
        changes["numbers"] += numbers
    return spoken


def _language(info: VoiceInfo) -> str:
    """The voice's language; empty where it has none, or several."""
    return info.languages[0] if len({tag[:2] for tag in info.languages}) == 1 else ""


def _file(row: Row, extension: str, taken: set[int], *, folders: bool) -> str:
    name = output.safe_file if row.file else output.file_for
    asked = row.file or row.id
    file = name(asked, extension, folders)
    if hash(output.collision_key(file)) in taken:
        file = output.file_for(row.id, extension, folders, hashed=True)
    taken.add(hash(output.collision_key(file)))
    return file


def seed_of(*parts: object) -> int:
    """A seed from anything: the same parts give the same seed, 0 <= seed < 2**63."""
    digest = blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _settings(config: Config) -> bytes:
    """The part of the config that shapes every utterance's audio."""
    sound = config.output.model_dump(exclude={"dir", "layout", "cache"})
    pauses = config.text.model_dump(include={"sentence_pause_ms", "paragraph_pause_ms"})
    shaping = [KEY_SCHEMA, sound, pauses, config.options, config.precision]
    return json.dumps(shaping, sort_keys=True, default=str).encode()


def _key(settings: bytes, identity: tuple[object, ...]) -> str:
    return blake2b(
        repr(identity).encode(), key=blake2b(settings).digest(), digest_size=16
    ).hexdigest()


def make_plan(
    items: Iterable[tuple[Utterance, str]],
    prior: Mapping[str, Prior],
    is_right: Callable[[Prior], bool],
    seconds_of: Callable[[Utterance], float],
    source: str,
    *,
    retry_failed: bool = False,
) -> Plan:
    """Decide what is to be done.

    Args:
        items: what `utterances` yields.
        prior: the manifest of earlier runs, by id.
        is_right: does the file of an ok record still stand as the record says?
        seconds_of: expected audio seconds of an utterance.
        source: name of the input, for records.
        retry_failed: speak rows again that failed with the same key.
    """
    plan = Plan()
    speakers: dict[str, str] = {}
    for utterance, reason in items:
        plan.ids.append(utterance.id)
        plan.indexes.append(utterance.index)
        before = prior.get(utterance.id)
        if reason:
            status = "skipped" if reason == EMPTY else "failed"
            if before is None or (before.status, before.key) != (status, utterance.key):
                record = record_of(utterance, source, status=status, reason=reason)
                plan.settled.append(record)
            else:
                plan.kept += 1
        elif before and _stands(before, utterance, is_right, retry_failed=retry_failed):
            plan.kept += 1
            if before.status == "ok":
                speakers.setdefault(utterance.key, utterance.id)
        else:
            plan.todo.append(utterance)
    _find_twins(plan, speakers)
    _order(plan, seconds_of)
    plan.gone = list(prior.keys() - set(plan.ids)) if prior else []
    return plan


def _stands(
    before: Prior, utterance: Utterance, is_right: Callable[[Prior], bool], *, retry_failed: bool
) -> bool:
    if before.key != utterance.key:
        return False
    if before.status == "ok":
        return before.file == utterance.file and is_right(before)
    return not (before.status == "failed" and retry_failed)


def _find_twins(plan: Plan, speakers: dict[str, str]) -> None:
    spoken = []
    for utterance in plan.todo:
        speaker = speakers.setdefault(utterance.key, utterance.id)
        if speaker == utterance.id:
            spoken.append(utterance)
        else:
            plan.twins.append(Twin(utterance=utterance, of=speaker))
    plan.todo = spoken


def _order(plan: Plan, seconds_of: Callable[[Utterance], float]) -> None:
    """Voice by voice, so that batches are full; longest first, so that the tail is short."""
    voices = {voice: n for n, voice in enumerate(dict.fromkeys(u.voice for u in plan.todo))}
    plan.todo.sort(key=seconds_of, reverse=True)  # stable: equals stay in input order
    plan.todo.sort(key=lambda utterance: voices[utterance.voice])
    plan.seconds = sum(map(seconds_of, plan.todo))


def record_of(utterance: Utterance, source: str, **result: object) -> Record:
    """The record of an utterance: its own fields, and the result's over them."""
    fields: dict[str, object] = {
        "id": utterance.id,
        "text": utterance.text,
        "voice": utterance.voice,
        "lang": utterance.lang,
        "speed": utterance.speed,
        "seed": utterance.seed,
        "key": utterance.key,
        "source": f"{source}:{utterance.line}",
    }
    return Record(**(fields | result))  # type: ignore[arg-type]
