"""The plan: what is done, what is twice, what is to speak, and in which order."""

import pytest

from batchtts.config import Config, load_config
from batchtts.data import Row, Utterance
from batchtts.manifest import Prior
from batchtts.models.base import VoiceInfo
from batchtts.plan import Plan, Voice, make_plan, record_of, seed_of, utterances


def info(fingerprint: str = "1") -> VoiceInfo:
    return VoiceInfo(
        name="tone", languages=(), sample_rate=8000, license="x", fingerprint=fingerprint
    )


def rows(*texts: str, **fields: object) -> list[Row]:
    return [
        Row(index=n, line=n + 1, id=f"u{n}", text=text, **fields)  # type: ignore[arg-type]
        for n, text in enumerate(texts)
    ]


def made(
    items: list[Row], config: Config | None = None, fingerprint: str = "1"
) -> list[tuple[Utterance, str]]:
    voice = Voice(name="fake:tone", info=info(fingerprint))
    named = {"fake:other": Voice(name="fake:other", info=info())}
    return list(
        utterances(
            items, config or Config(), lambda row: named.get(row.voice or "", voice), folders=False
        )
    )


def plan_of(items: list[Row], prior: dict[str, Prior] | None = None, **options: bool) -> Plan:
    return make_plan(
        made(items), prior or {}, lambda _: True, lambda u: float(len(u.text)), "t.csv", **options
    )


def prior_of(utterance: Utterance, status: str = "ok") -> Prior:
    return Prior(
        id=utterance.id,
        status=status,  # type: ignore[arg-type]
        key=utterance.key,
        file=utterance.file if status == "ok" else "",
        duration=1.0,
        sample_rate=8000,
        bytes=100,
    )


def test_longest_first_voice_by_voice() -> None:
    items = [*rows("a", "ccc", "bb"), *rows("dddd", voice="fake:other")]
    items[3] = Row(index=3, line=4, id="u3", text="dddd", voice="fake:other")
    assert [u.id for u in plan_of(items).todo] == ["u1", "u2", "u0", "u3"]


def test_what_stands_is_kept_and_loads_nothing() -> None:
    items = rows("one", "two")
    prior = {u.id: prior_of(u) for u, _ in made(items)}
    found = plan_of(items, prior)
    assert (found.kept, found.todo, found.settled) == (2, [], [])


def test_a_changed_text_or_voice_is_spoken_again() -> None:
    prior = {u.id: prior_of(u) for u, _ in made(rows("one", "two"))}
    assert [u.id for u in plan_of(rows("one", "changed"), prior).todo] == ["u1"]
    newer = {u.id: prior_of(u) for u, _ in made(rows("one", "two"), fingerprint="2")}
    assert len(plan_of(rows("one", "two"), newer).todo) == 2


def test_a_broken_file_is_spoken_again() -> None:
    items = rows("one", "two")
    prior = {u.id: prior_of(u) for u, _ in made(items)}
    found = make_plan(made(items), prior, lambda p: p.id != "u1", lambda _: 1.0, "t.csv")
    assert [u.id for u in found.todo] == ["u1"]


@pytest.mark.parametrize("retry", [False, True])
def test_failed_rows_wait_until_they_are_asked_for(retry: bool) -> None:
    items = rows("one")
    prior = {u.id: prior_of(u, "failed") for u, _ in made(items)}
    assert len(plan_of(items, prior, retry_failed=retry).todo) == retry


def test_rows_that_left_the_input_are_told() -> None:
    prior = {u.id: prior_of(u) for u, _ in made(rows("one", "two"))}
    assert plan_of(rows("one"), prior).gone == ["u1"]


def test_the_same_text_is_spoken_once() -> None:
    found = plan_of(rows("same", "other", "same", "same"))
    assert sorted(u.id for u in found.todo) == ["u0", "u1"]
    assert [(twin.utterance.id, twin.of) for twin in found.twins] == [("u2", "u0"), ("u3", "u0")]


def test_a_twin_of_a_kept_utterance_is_not_spoken() -> None:
    prior = {u.id: prior_of(u) for u, _ in made(rows("same"))}
    found = plan_of(rows("same", "same"), prior)
    assert found.todo == []
    assert [(twin.utterance.id, twin.of) for twin in found.twins] == [("u1", "u0")]


def test_empty_and_malformed_rows_end_before_any_model_loads() -> None:
    items = [*rows("fine", "  "), Row(index=2, line=3, id="u2", text="x", problem="4 cells")]
    found = plan_of(items)
    assert [(r.id, r.status, r.reason) for r in found.settled] == [
        ("u1", "skipped", "empty text"),
        ("u2", "failed", "4 cells"),
    ]
    assert found.settled[0].source == "t.csv:2"


def test_settled_rows_are_recorded_once() -> None:
    items = rows(" ")
    prior = {u.id: prior_of(u, "skipped") for u, _ in made(items)}
    found = plan_of(items, prior)
    assert (found.kept, found.settled) == (1, [])


def test_the_key_follows_what_shapes_the_audio_and_nothing_else() -> None:
    def key(**overrides: object) -> str:
        config = load_config(None, {name.replace("__", "."): v for name, v in overrides.items()})
        return made(rows("one"), config)[0][0].key

    same = key()
    assert same == key(output__layout="flat") == key(devices="cpu,cpu") == key(batch__size=4)
    others = [
        key(speed=1.5),
        key(seed=1),
        key(lang="en"),
        key(output__format="flac"),
        key(text__sentence_pause_ms=1),
        key(precision="fp32"),
    ]
    assert len({same, *others}) == 7


def test_files_that_some_system_takes_for_one_are_told_apart() -> None:
    items = [Row(index=n, line=n, id=id, text="x") for n, id in enumerate(("a", "A", "b"))]
    files = [u.file for u, _ in made(items)]
    assert files[0] == "audio/a.wav"
    assert files[2] == "audio/b.wav"
    assert len({file.casefold() for file in files}) == 3


def test_lexicon_and_template_are_in_the_text() -> None:
    config = load_config(None, {"text.lexicon": {"NASA": "nassa"}})
    assert made(rows("Ask NASA."), config)[0][0].text == "Ask nassa."


def test_seeds_are_stable_and_in_range() -> None:
    assert seed_of(0, "fake:tone", "one") == seed_of(0, "fake:tone", "one")
    assert 0 <= seed_of("x") < 2**63
    assert len({seed_of(0, "v", str(n)) for n in range(1000)}) == 1000


def test_a_record_has_the_fields_of_its_utterance() -> None:
    utterance = made(rows("one"))[0][0]
    record = record_of(utterance, "t.csv", status="failed", reason="why")
    assert (record.id, record.text, record.source) == ("u0", "one", "t.csv:1")
    assert (record.key, record.voice, record.reason) == (utterance.key, "fake:tone", "why")
