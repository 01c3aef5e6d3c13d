import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from rich.console import Console

from batchtts import manifest
from batchtts.asr import AsrChoice
from batchtts.data import Record
from batchtts.errors import Exit, UsageError
from batchtts.models.base import Waveform
from batchtts.verify import VerifyResult, render, verify
from tests.conftest import CASES

TEXTS = (CASES / "spoken.txt").read_text("utf-8").splitlines()
"""500 English texts of many kinds; many differ in a name or a number only."""
RATE = 24_000


@dataclass
class Spoken:
    """A folder of speech, as a run leaves it, that can be spoilt."""

    folder: Path
    records: dict[str, Record]

    def wave(self, id: str) -> Waveform:
        wave: Waveform = soundfile.read(self.folder / self.records[id].file, dtype="float32")[0]
        return wave

    def put(self, id: str, wave: Waveform, rate: int = RATE) -> None:
        """Replace the audio as a faulty run would have made it: the record agrees with the file."""
        path = self.folder / self.records[id].file
        soundfile.write(path, wave, rate, subtype="PCM_16")
        checks = {"verdict": "ok", "crc32": f"{zlib.crc32(path.read_bytes()):08x}"}
        self.records[id] = replace(
            self.records[id], duration=len(wave) / rate, sample_rate=rate, checks=checks
        )

    def verify(self, **options: Any) -> VerifyResult:
        lines = [json.dumps(record.as_dict()) + "\n" for record in self.records.values()]
        (self.folder / manifest.JOURNAL).write_text("".join(lines), "utf-8")
        return verify(self.folder, log=lambda _: None, **options)


@pytest.fixture(scope="module")
def voice() -> Any:
    import hibari

    return hibari.Hibari()


def speak(voice: Any, folder: Path, texts: list[str]) -> Spoken:
    spoken = Spoken(folder, {})
    (folder / "audio").mkdir()
    for number, text in enumerate(texts):
        id = f"{number:03}"
        spoken.records[id] = Record(
            id=id, status="ok", file=f"audio/{id}.wav", text=text, voice="hibari:heart", lang="en"
        )
        spoken.put(id, voice(text, seed=number))
    return spoken


def swap(spoken: Spoken, one: str, other: str) -> None:
    first, second = spoken.wave(one), spoken.wave(other)
    spoken.put(one, second)
    spoken.put(other, first)


def truncate(wave: Waveform, _: random.Random) -> Waveform:
    """Cut in the middle of a sound between a third and three quarters."""
    loud = np.abs(wave) > 0.3 * np.abs(wave).max()
    places = np.flatnonzero(loud)
    inside = places[(places > 0.35 * len(wave)) & (places < 0.75 * len(wave))]
    return wave[: inside[-1]]


def repeat(wave: Waveform, chance: random.Random) -> Waveform:
    """The whole twice, or half a second inside once more."""
    if chance.random() < 0.5:
        return np.concatenate([wave, wave])
    middle = len(wave) // 2
    return np.concatenate([wave[:middle], wave[middle - RATE // 2 :]])


def clip(wave: Waveform, _: random.Random) -> Waveform:
    return np.clip(8 * wave, -1, 1)


def buzz(wave: Waveform, _: random.Random) -> Waveform:
    ramp = np.arange(len(wave), dtype=np.float32)
    square: Waveform = np.float32(0.2) * np.sign(np.sin(2 * np.pi * 120 / RATE * ramp))
    return square


def silence(wave: Waveform, _: random.Random) -> Waveform:
    return np.zeros_like(wave)


Spoil = Callable[[Waveform, random.Random], Waveform]
SPOILS: dict[str, Spoil] = {
    "truncated": truncate,
    "repeated": repeat,
    "clipped": clip,
    "buzz": buzz,
    "silent": silence,
}


def spoil(spoken: Spoken, count: int, seed: int, pairs: int) -> dict[str, str]:
    """Plant faults of 8 kinds, `count` of each and swapped pairs; returns id -> what was done."""
    chance = random.Random(seed)
    ids = list(spoken.records)
    chance.shuffle(ids)
    pick = iter(ids)
    done: dict[str, str] = {}
    for _ in range(pairs):
        one, other = next(pick), next(pick)
        swap(spoken, one, other)
        done |= {one: "swapped", other: "swapped"}
    for kind, change in SPOILS.items():
        for id in take(pick, count):
            spoken.put(id, change(spoken.wave(id), chance))
            done[id] = kind
    for id in take(pick, count):
        spoken.put(id, spoken.wave(id), 16_000)
        done[id] = "wrong rate"
    for id in take(pick, count):
        spoken.put(id, spoken.wave(next(pick)))
        done[id] = "same audio"
    return done


def take(items: Iterator[str], count: int) -> list[str]:
    return [next(items) for _ in range(count)]


def accused(result: VerifyResult) -> set[str]:
    return {problem.id for problem in result.problems}


def missed(result: VerifyResult, planted: dict[str, str]) -> dict[str, str]:
    return {id: kind for id, kind in planted.items() if id not in accused(result)}


def originals(spoken: Spoken, planted: dict[str, str]) -> set[str]:
    """The rows whose audio was planted elsewhere too: without listening they look as guilty."""
    copied = {spoken.records[id].checks["crc32"] for id, k in planted.items() if k == "same audio"}
    return {id for id, record in spoken.records.items() if record.checks["crc32"] in copied}


@pytest.fixture
def spoken(voice: Any, tmp_path: Path) -> Spoken:
    return speak(voice, tmp_path, TEXTS[:34])


def test_planted_faults_are_found_and_good_files_are_not_accused(spoken: Spoken) -> None:
    assert spoken.verify().problems == []
    planted = spoil(spoken, 2, seed=1, pairs=1)
    audible = {id: kind for id, kind in planted.items() if kind != "swapped"}
    plain = spoken.verify()
    assert missed(plain, audible) == {}
    assert accused(plain) <= set(planted) | originals(spoken, planted)
    heard = spoken.verify(asr=AsrChoice())
    assert missed(heard, planted) == {}
    assert accused(heard) <= set(planted)
    found = {problem.id for problem in heard.problems if problem.kind == "swapped"}
    assert found >= {id for id, kind in planted.items() if kind == "swapped"}
    assert heard.exit_code == Exit.FAILED_ROWS
    assert heard.worst[0]["why"]


@pytest.mark.slow
def test_fifty_faults_in_five_hundred_files(voice: Any, tmp_path: Path) -> None:
    spoken = speak(voice, tmp_path, TEXTS)
    assert len(spoken.verify(asr=AsrChoice()).problems) <= 2
    planted = spoil(spoken, 6, seed=2, pairs=4)
    assert len(planted) == 50
    audible = {id: kind for id, kind in planted.items() if kind != "swapped"}
    plain, heard = spoken.verify(), spoken.verify(asr=AsrChoice())
    assert missed(plain, audible) == {}
    assert missed(heard, planted) == {}
    assert len(accused(plain) - set(planted) - originals(spoken, planted)) <= 2
    assert len(accused(heard) - set(planted)) <= 2


@pytest.fixture
def small(voice: Any, tmp_path: Path) -> Spoken:
    return speak(voice, tmp_path, TEXTS[:4])


def kinds(result: VerifyResult) -> dict[str, str]:
    return {problem.id or problem.file: problem.kind for problem in result.problems}


def test_files_that_are_not_what_their_records_say(small: Spoken) -> None:
    paths = [small.folder / record.file for record in small.records.values()]
    paths[0].unlink()
    paths[1].write_bytes(b"no audio at all")
    data = bytearray(paths[2].read_bytes())
    data[2000] ^= 1
    paths[2].write_bytes(data)
    paths[3].write_bytes(paths[3].read_bytes()[:-9000])
    (small.folder / "audio" / "stray.wav").touch()
    result = small.verify()
    found = kinds(result)
    assert found["audio/stray.wav"] == "orphan"
    assert [found[id] for id in small.records][:3] == ["missing", "unreadable", "changed"]
    assert "wrong length" in {problem.kind for problem in result.problems if problem.id == "003"}


def test_two_rows_with_one_file(small: Spoken) -> None:
    small.records["002"] = replace(small.records["001"], id="002")
    (small.folder / "audio/002.wav").unlink()
    assert kinds(small.verify()) == {"002": "shared file"}


def test_copies_of_equal_texts_are_no_problem(small: Spoken) -> None:
    twin = replace(small.records["002"], text=small.records["001"].text.upper())
    small.records["002"] = twin
    small.put("002", small.wave("001"))
    assert small.verify(asr=AsrChoice()).problems == []


def test_rows_without_audio_are_counted_and_not_accused(small: Spoken) -> None:
    small.records["x"] = Record(id="x", status="failed", reason="cannot say it")
    result = small.verify()
    assert result.counts["rows failed"] == 1
    assert (result.problems, result.exit_code) == ([], Exit.OK)


def test_a_second_run_goes_on_where_the_first_stopped(
    small: Spoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small.verify(asr=AsrChoice(), mos=True)
    journal = small.folder / "verify.jsonl"
    journal.write_text(journal.read_text("utf-8") + '["torn', "utf-8")

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("it was found out before")

    for name in ("filecheck.measure", "asr.Listener.hear", "mos.Judge.rate"):
        monkeypatch.setattr(f"batchtts.{name}", refuse)
    again = small.verify(asr=AsrChoice(), mos=True)
    assert again.as_dict() == first.as_dict()
    assert again.sounds == first.sounds
    assert all(sound.mos["overall"] > 2 for sound in again.sounds.values())


def test_a_sample_reads_some_files_and_looks_for_all(small: Spoken) -> None:
    result = small.verify(sample=2)
    assert result.counts["files read"] == 2
    assert small.verify(sample=99).counts["files read"] == 4


def test_a_language_that_the_recogniser_does_not_know_is_told(small: Spoken) -> None:
    small.records["001"] = replace(small.records["001"], lang="ko-KR")
    (small.folder / manifest.JOURNAL).write_text(
        "".join(json.dumps(r.as_dict()) + "\n" for r in small.records.values()), "utf-8"
    )
    told: list[str] = []
    result = verify(small.folder, asr=AsrChoice(), log=told.append)
    assert result.counts["files heard"] == 3
    assert told == ["1 files are in languages that the recogniser does not know"]


def test_a_row_without_language_has_that_of_its_voice(small: Spoken) -> None:
    small.records = {id: replace(record, lang="") for id, record in small.records.items()}
    small.records["001"] = replace(small.records["001"], voice="elsewhere:nobody")
    assert small.verify(asr=AsrChoice()).problems == []
    lines = (small.folder / "verify.jsonl").read_text("utf-8").splitlines()
    pages = [json.loads(line) for line in lines]
    heard = {name.rpartition(":")[2] for _, name, _ in pages if name.startswith("heard:")}
    assert heard == {"", "en-US"}


def test_a_folder_without_manifest_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output folder of a run"):
        verify(tmp_path, log=print)


def test_the_result_is_shown_and_kept(small: Spoken) -> None:
    small.put("001", silence(small.wave("001"), random.Random(0)))
    result = small.verify()
    console = Console(width=120, file=StringIO())
    console.print(render(result))
    assert "wrong: 1 silence" in console.file.getvalue()  # type: ignore[attr-defined]
    kept = json.loads((small.folder / "verify.json").read_text("utf-8"))
    assert kept["problems"] == result.as_dict()["problems"]
    assert json.loads(json.dumps(result.as_dict()))["exit_code"] == 3
