"""Cases C33 to C75 of texts, from the input file to the front end of a real voice, and to audio."""

import csv
import json
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile

from batchtts import manifest, models, output, run
from batchtts.audio import speech_bounds
from batchtts.config import Config, load_config
from batchtts.data import Record
from batchtts.inputs import read_rows
from batchtts.models.base import Frontend
from batchtts.models.hibari.features import Spoken
from batchtts.options import Options
from batchtts.plan import EMPTY, utterances
from batchtts.prepare import Refused, Segment, prepare
from batchtts.progress import NoScreen
from batchtts.voices import voice_finder
from tests.conftest import CASES

Result = list[Segment] | Refused | str
"""What became of a row: its segments, a refusal, or why it was not even tried."""


def settings(**overrides: object) -> Config:
    config = load_config(None, {"voice": "hibari:heart", "devices": "cpu", **overrides})
    return config.model_copy(update={"output": output.resolve(config.output)})


@cache
def frontend() -> Frontend:
    return models.adapter("hibari").frontend("heart")


def prepared(name: str, **overrides: object) -> dict[str, Result]:
    """The rows of a case as a worker gets them, by id."""
    source, config = str(CASES / name), settings(**overrides)
    rows = read_rows(source, config.input, lambda _: None)
    found: dict[str, Result] = {}
    for utterance, problem in utterances(rows, config, voice_finder(source, config), folders=False):
        found[utterance.id] = problem or prepare(frontend(), utterance, config)
    return found


def segments(result: Result) -> list[Segment]:
    assert isinstance(result, list), result
    return result


def ids(result: Result) -> bytes:
    """Phoneme ids without the boundaries: equal ids are equal speech."""
    sentences = b"".join(b"".join(spoken(segment).sentences) for segment in segments(result))
    return sentences.replace(b"\0", b"")


def spoken(segment: Segment) -> Spoken:
    data = segment.features.data
    assert isinstance(data, Spoken)
    return data


def ids_of(written: str) -> bytes:
    config = settings()
    source = CASES / "C34_punct_only.csv"
    row = next(iter(read_rows(str(source), config.input, lambda _: None)))
    row = type(row)(index=0, line=2, id="x", text=written)
    ((utterance, _),) = utterances([row], config, voice_finder("", config), folders=False)
    return ids(prepare(frontend(), utterance, config))


def refusal(result: Result) -> tuple[str, str]:
    assert isinstance(result, Refused)
    return result.status, result.reason


# By policy


def test_c33_emoji_fail_the_row_unless_they_may_be_left_out() -> None:
    strict = prepared("C33_emoji.csv")
    assert refusal(strict["em2"]) == ("failed", "the voice cannot say: 🎉")
    assert ids(strict["em6"]) == ids_of("No emoji here.")
    assert refusal(prepared("C33_emoji.csv", **SKIP)["em3"])[0] == "skipped"
    lenient = prepared("C33_emoji.csv", **STRIP)
    assert refusal(lenient["em1"]) == ("skipped", "nothing to speak: 👍")
    assert ids(lenient["em2"]) == ids_of("Great job")
    assert ids(lenient["em3"]) == ids_of("Family day on Sunday.")
    assert ids(lenient["em4"]) == ids_of("Visit now")
    assert ids(lenient["em5"]) == ids_of("1 Press one")
    assert segments(lenient["em2"])[0].features.notes["dropped"] == "🎉"


SKIP = {"text.on_unspeakable": "skip"}
STRIP = {"text.on_unspeakable": "strip"}


def test_c34_marks_alone_are_skipped_and_nothing_shifts() -> None:
    found = prepared("C34_punct_only.csv")
    assert {id: ids(found[id]) for id in ("p1", "p3", "p5")} == {
        "p1": ids_of("One."),
        "p3": ids_of("Two."),
        "p5": ids_of("Three."),
    }
    for id in ("p2", "p4"):
        status, reason = refusal(found[id])
        assert (status, reason.partition(":")[0]) == ("skipped", "nothing to speak")


def test_c42_amounts_and_times_are_said_as_people_do() -> None:
    found = prepared("C42_currency_time.csv")
    assert ids(found["y1"]) == ids_of("Your total is eighteen dollars and forty cents.")
    assert ids_of("34,50 €") == ids_of("thirty four euros and fifty cents")
    assert ids_of("$2,350.75") == ids_of(
        "two thousand three hundred fifty dollars and seventy five cents"
    )
    assert ids_of("50%") == ids_of("fifty percent")
    assert ids(found["y4"]) == ids_of("The train leaves at seven O five a.m.")


def test_c43_phone_numbers_and_codes_digit_by_digit() -> None:
    found = prepared("C43_phone.csv")
    assert ids(found["t1"]) == ids_of(
        "Call plus one, five five five, zero one zero, zero one nine nine now."
    )
    assert ids(found["t3"]) == ids_of("Order zero zero zero one two three is ready.")
    assert refusal(found["t2"]) == ("failed", "the voice cannot say: 대표번호는입니다")
    as_numbers = prepared("C43_phone.csv", **{"text.numbers": "voice"})
    assert ids(as_numbers["t3"]) == ids_of("Order one hundred twenty three is ready.")


def test_c44_addresses_as_the_config_says() -> None:
    literal = prepared("C44_url_mail.csv")
    domain = prepared("C44_url_mail.csv", **{"text.urls": "domain"})
    assert len(ids(domain["w1"])) < len(ids(literal["w1"])) / 2
    assert ids(domain["w1"]) == ids_of("See example.com for details.")
    assert ids(domain["w2"]) == ids(literal["w2"])
    skip = prepared("C44_url_mail.csv", **{"text.urls": "skip"})
    assert ids(skip["w1"]) == ids_of("See for details.")


def test_c45_abbreviations_end_no_sentence() -> None:
    found = segments(prepared("C45_abbrev.csv")["a1"])
    assert len(found) == 2
    assert sum(len(spoken(segment).sentences) for segment in found) == 2


def test_c47_another_script_is_named_and_fails_the_row() -> None:
    strict = prepared("C47_mixed_script.csv")
    assert refusal(strict["x2"]) == ("failed", "the voice cannot say: 김")
    assert refusal(strict["x3"]) == ("failed", "the voice cannot say: Привет")
    lenient = prepared("C47_mixed_script.csv", **STRIP)
    assert ids(lenient["x2"]) == ids_of("Meet Ms. at gate 5.")
    assert segments(lenient["x3"])[0].features.notes["dropped"] == "Привет"


def test_c48_c62_what_looks_the_same_is_said_the_same() -> None:
    found = prepared("C48_zero_width.csv")
    assert ids(found["z1"]) == ids(found["z0"])
    assert len({ids(result) for result in prepared("C62_apostrophes.csv").values()}) == 1


def test_c50_the_second_page_is_spoken() -> None:
    page, red, *_, end = prepared("C50_controls.txt", **{"input.allow_empty": True}).values()
    first, second = segments(page)
    assert (ids([first]), ids([second])) == (ids_of("Page one."), ids_of("Page two."))
    assert first.pause_ms == settings().text.paragraph_pause_ms
    assert ids(red) == ids_of("Red text here.")
    assert end != EMPTY


def test_c53_repeats_are_bounded() -> None:
    found = prepared("C53_repeats.csv")
    assert all(sum(s.features.seconds for s in segments(r)) < 30 for r in found.values())
    assert ids(found["r2"]) == ids_of("Stop!!!")


def test_c57_every_line_is_spoken_with_a_pause_after_it() -> None:
    found = segments(prepared("C57_inner_newlines.csv")["n1"])
    assert [ids([segment]) for segment in found] == [
        ids_of(line) for line in ("Items:", "Apple", "Pear", "Plum")
    ]
    pause = settings().text.sentence_pause_ms
    assert [segment.pause_ms for segment in found] == [pause, pause, pause, 0]


def test_c58_tags_go_where_asked_and_marks_of_mathematics_stay() -> None:
    found = prepared("C58_markup.csv", **{"text.markup": "strip"})
    assert ids(found["k1"]) == ids_of("Hi\nthere")
    assert ids(found["k2"]) == ids_of("Use bold & 'quotes'\nand a new line.")
    literal = prepared("C58_markup.csv")
    assert ids(found["k3"]) == ids(literal["k3"])
    assert ids(found["k4"]) == ids(literal["k4"]) == ids_of("Our R and D team.")


def test_c60_scripts_that_the_voice_lacks_are_named_without_direction_marks() -> None:
    found = prepared("C60_rtl.csv")
    assert refusal(found["r1"]) == ("failed", "the voice cannot say: مرحبا" + "ق")
    assert refusal(found["r3"]) == ("failed", "the voice cannot say: עברית")
    lenient = prepared("C60_rtl.csv", **STRIP)
    assert ids(lenient["r1"]) == ids_of("123")
    assert ids(lenient["r3"]) == ids_of("English end.")


def test_c65_thousands_of_texts_leave_nothing_open() -> None:
    config = settings()
    row = next(iter(read_rows(str(CASES / "C34_punct_only.csv"), config.input, lambda _: None)))
    opened = []
    for count in range(1500):
        one = type(row)(index=count, line=2, id="x", text=f"Item number {count} is ready.")
        ((utterance, _),) = utterances([one], config, voice_finder("", config), folders=False)
        segments(prepare(frontend(), utterance, config))
        if count in (100, 1499):
            opened.append((len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))
    assert opened[0] == opened[1]


# To audio

SPACE = bytes([16])
"""Phoneme id of the gap between two words."""


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Record]]:
    """The cases whose sound is the point, in one run."""
    folder = tmp_path_factory.mktemp("cases")
    run_on = _text("C51_runon.csv", "r1")
    words = run_on.split()
    with_commas = " ".join(
        word + ("," if number % 9 == 8 else "") for number, word in enumerate(words)
    )
    rows = {"run-on": run_on, "with-commas": with_commas}
    rows |= {f"short-{id}": _text("C55_short.csv", id) for id in ("s1", "s2", "s3", "s4", "s5")}
    rows |= {f"final-{id}": _text("C63_final_punct.csv", id) for id in ("f1", "f2", "f3", "f4")}
    rows |= {
        "repeat": _text("C53_repeats.csv", "r1"),
        "lines": _text("C57_inner_newlines.csv", "n1"),
    }
    source = folder / "in.jsonl"
    lines = (json.dumps({"id": id, "text": said}) for id, said in rows.items())
    source.write_text("\n".join(lines), encoding="utf-8")
    run.generate(str(source), settings(), folder / "out", Options(), NoScreen())
    return folder / "out", manifest.read(folder / "out")


def _text(name: str, id: str) -> str:
    with (CASES / name).open(encoding="utf-8", newline="") as file:
        return next(row["text"] for row in csv.DictReader(file) if row["id"] == id)


Audio = tuple[Path, dict[str, Record]]


def wave_of(audio: Audio, id: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.float32]], int]:
    folder, records = audio
    wave, sample_rate = soundfile.read(folder / records[id].file, dtype="float32")
    return wave, sample_rate


def test_c51_a_long_sentence_without_marks_is_all_there(audio: Audio) -> None:
    _, records = audio
    assert {record.status for record in records.values()} == {"ok"}
    ratio = records["run-on"].duration / records["with-commas"].duration
    assert 0.75 < ratio < 1.25
    said = records["run-on"].text
    assert ids_of(said).count(SPACE) == len(said.split()) - 1


@pytest.mark.parametrize("id", ["s1", "s2", "s3", "s4", "s5"])
def test_c55_short_prompts_are_speech_and_end_quietly(audio: Audio, id: str) -> None:
    wave, sample_rate = wave_of(audio, f"short-{id}")
    start, stop = speech_bounds(wave, sample_rate)
    assert 0.15 <= (stop - start) / sample_rate <= 2.5
    assert _tail(wave, sample_rate) < -40


def test_c63_no_noise_after_the_last_mark(audio: Audio) -> None:
    seconds = []
    for id in ("f1", "f2", "f3", "f4"):
        wave, sample_rate = wave_of(audio, f"final-{id}")
        seconds.append(wave.size / sample_rate)
        assert _tail(wave, sample_rate) < -40
    assert max(seconds) - min(seconds) < 0.5


def _tail(wave: np.ndarray[tuple[int], np.dtype[np.float32]], sample_rate: int) -> float:
    """Level of the last 50 ms, dBFS."""
    tail = wave[-sample_rate // 20 :]
    return float(10 * np.log10(np.mean(tail**2) + 1e-12))


def test_c53_a_stretched_word_ends(audio: Audio) -> None:
    assert audio[1]["repeat"].duration < 30


def test_c75_seams_neither_click_nor_gape(audio: Audio) -> None:
    wave, sample_rate = wave_of(audio, "lines")
    steps = np.abs(np.diff(wave))
    quiet = np.abs(wave) < 1e-4
    edges = np.flatnonzero(np.diff(quiet.astype(np.int8)))
    assert steps[edges].max() <= np.quantile(steps, 0.999)
    longest, current = 0, 0
    start, stop = speech_bounds(wave, sample_rate)
    for is_quiet in quiet[start:stop]:
        current = current + 1 if is_quiet else 0
        longest = max(longest, current)
    assert longest / sample_rate <= settings().text.sentence_pause_ms / 1000 + 0.06
