"""The demo as a newcomer runs it: the embedded voice, heard by a recogniser."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from batchtts import manifest, output, run, text, wer
from batchtts.asr import AsrChoice, Listener
from batchtts.audio import Samples
from batchtts.config import Config, load_config
from batchtts.data import Record
from batchtts.errors import Exit
from batchtts.options import Options
from batchtts.progress import NoScreen
from batchtts.summary import Summary
from tests.conftest import ROOT

DEMO = str(ROOT / "configs/demo.csv")
TOLERANCE = 1e-2
"""Largest difference of a sample between two ways to batch: see the voice's own tests."""


def settings(**overrides: object) -> Config:
    config = load_config(ROOT / "configs/demo.yaml", overrides)
    return config.model_copy(update={"output": output.resolve(config.output)})


def speak(folder: Path, limit: int | None = None, **overrides: object) -> Summary:
    return run.generate(DEMO, settings(**overrides), folder, Options(limit=limit), NoScreen())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    summary = speak(folder)
    assert summary.exit_code is Exit.OK
    return folder


@pytest.fixture(scope="module")
def records(demo: Path) -> dict[str, Record]:
    return manifest.read(demo)


def wave_of(folder: Path, record: Record) -> Samples:
    wave: Samples = soundfile.read(folder / record.file, dtype="float32")[0]
    return wave


def test_every_row_is_a_file_of_24_khz_16_bit_mono_that_is_not_silent(
    demo: Path, records: dict[str, Record]
) -> None:
    assert len(records) == 100
    for record in records.values():
        assert record.status == "ok"
        assert record.checks["verdict"] == "ok"
        info = soundfile.info(demo / record.file)
        assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16")
        assert np.abs(wave_of(demo, record)).max() > 0.05


def test_running_it_again_does_nothing(demo: Path, records: dict[str, Record]) -> None:
    summary = speak(demo)
    assert (summary.spoken, summary.kept) == (0, len(records))


def test_a_recogniser_hears_what_is_written(demo: Path, records: dict[str, Record]) -> None:
    plain = [record for record in records.values() if not record.id.startswith("short")]
    plain.sort(key=lambda record: record.duration)
    waves = [soxr.resample(wave_of(demo, record), 24_000, 16_000) for record in plain]
    heard = Listener(AsrChoice()).hear(waves, "en")
    said = [wer.normalize(record.text) for record in plain]
    errors = sum(
        wer.distance(text, wer.normalize(words)) for text, words in zip(said, heard, strict=True)
    )
    assert errors / sum(map(len, said)) < 0.08


WAYS = pytest.mark.parametrize(
    "overrides",
    [{"devices": "cpu"}, {"batch.size": 1, "devices": "cpu"}, {"batch.size": 16}],
    ids=["one worker", "batch 1", "batch 16"],
)


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exact")
    speak(folder, limit=16, precision="fp32")
    return folder


@WAYS
def test_the_audio_is_the_same_however_it_is_batched(
    exact: Path, tmp_path: Path, overrides: dict[str, object]
) -> None:
    speak(tmp_path, limit=16, precision="fp32", **overrides)
    assert len(compared(exact, tmp_path)) == 16


@WAYS
def test_so_is_a_sentence_in_the_precision_that_is_chosen_here(
    demo: Path, tmp_path: Path, overrides: dict[str, object]
) -> None:
    """Between sentences bf16 may lift a quiet block of 5 ms over the threshold that cuts it."""
    speak(tmp_path, limit=16, **overrides)
    assert len(compared(demo, tmp_path, most_sentences=1)) >= 8


def compared(one: Path, other: Path, most_sentences: int = 99) -> list[str]:
    """Compare the rows of the second folder of up to so many sentences; their ids."""
    records, ids = manifest.read(one), []
    for id, found in manifest.read(other).items():
        if len(text.split(found.text, Config().text, "en")) > most_sentences:
            continue
        first, second = wave_of(one, records[id]), wave_of(other, found)
        assert len(first) == len(second)
        assert np.abs(first - second).max() < TOLERANCE
        ids.append(id)
    return ids
