"""A whole worker in this process: four stages over a channel of queues, with the fake voice."""

import json
import queue
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from batchtts import output
from batchtts.config import Config, load_config
from batchtts.data import Lease, Record, Utterance
from batchtts.devices import Slot
from batchtts.messages import Busy, Bye, Done, Drain, Loading, Ready, Remark, Stats, Work
from batchtts.models.fake import mark_of, read_mark
from batchtts.spec import WorkerSpec
from batchtts.worker import Worker

SLOT = Slot(device="cpu", label="cpu", env={}, threads=1, share=1)


class Line:
    """Both ends of a channel, as queues."""

    def __init__(self) -> None:
        self.down: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.up: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def send(self, message: object) -> None:
        self.up.put(message)

    def recv(self) -> object:
        return self.down.get()


def utterance(index: int, text: str, voice: str = "fake:tone") -> Utterance:
    return Utterance(
        index=index,
        line=index + 1,
        id=f"u{index}",
        text=text,
        voice=voice,
        lang="",
        speed=1.0,
        seed=index,
        file=f"audio/u{index}.wav",
        key=f"k{index}",
    )


def settings(**overrides: object) -> Config:
    config = load_config(None, {"voice": "fake:tone", **overrides})
    return config.model_copy(update={"output": output.resolve(config.output)})


def work(
    folder: Path, utterances: list[Utterance], config: Config | None = None, **spec: Any
) -> tuple[dict[str, Record], list[Any]]:
    """Have a worker speak these; returns records by id, and everything else that it said."""
    line = Line()
    voices = dict.fromkeys(u.voice for u in utterances)
    worker = Worker(
        line,
        WorkerSpec(
            slot=SLOT,
            folder=folder,
            source="t.csv",
            config=config or settings(),
            models={voice: f"{voice} 1" for voice in voices},
            samples={voice: [u for u in utterances if u.voice == voice] for voice in voices},
            shares=dict.fromkeys(voices, len(utterances)),
            cache=None,
            **spec,
        ),
    )
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    line.down.put(Work(Lease(id=1, utterances=tuple(utterances))))
    line.down.put(Drain())
    records: dict[str, Record] = {}
    others = []
    while True:
        message = line.up.get(timeout=20)
        if isinstance(message, Done):
            for index, record in message.records:
                assert record.id not in records, "an utterance ended twice"
                assert record.id == f"u{index}"
                records[record.id] = record
        else:
            others.append(message)
        if isinstance(message, Bye):
            thread.join(5)
            return records, others


def sabotage(monkeypatch: pytest.MonkeyPatch, **switches: object) -> None:
    monkeypatch.setenv("BATCHTTS_FAKE", json.dumps(switches))


def test_every_file_says_its_own_text(tmp_path: Path) -> None:
    texts = [f"Sentence number {n}." * (n % 7 + 1) for n in range(60)]
    records, _ = work(tmp_path, [utterance(n, text) for n, text in enumerate(texts)])
    assert len(records) == 60
    for n, text in enumerate(texts):
        record = records[f"u{n}"]
        assert record.status == "ok"
        wave, rate = soundfile.read(tmp_path / record.file, dtype="float32")
        assert read_mark(wave) == mark_of(text)
        assert rate == record.sample_rate == 8000
        assert record.duration == pytest.approx(len(wave) / rate, abs=1e-3)
    assert not list(tmp_path.rglob(".*tmp*"))


def test_the_order_of_what_a_worker_says(tmp_path: Path) -> None:
    _, others = work(tmp_path, [utterance(n, "text") for n in range(5)])
    kinds = [type(m) for m in others if not isinstance(m, Remark)]
    assert kinds[:2] == [Loading, Ready]
    assert kinds[-2:] == [Stats, Bye]
    busy = [message for message in others if isinstance(message, Busy)]
    assert sorted(i for message in busy for i in message.indexes) == list(range(5))


def test_figures_count_batches_and_padding(tmp_path: Path) -> None:
    rows = [utterance(n, "x" * (10 + n)) for n in range(8)]
    _, others = work(tmp_path, rows, settings(**{"batch.size": 4}))
    figures = others[-2].figures
    assert figures["batches"] == 2
    assert figures["batch_sizes"] == {4: 2}
    assert figures["real"] == sum(range(10, 18))
    assert figures["padded"] == 4 * 17 + 4 * 13
    assert figures["busy_seconds"] >= 0


@pytest.mark.parametrize("size", [1, 3, 100])
def test_audio_does_not_depend_on_the_batch(tmp_path: Path, size: int) -> None:
    rows = [utterance(n, "x" * (5 * n + 3)) for n in range(9)]
    alone, _ = work(tmp_path / "a", rows, settings(**{"batch.size": 1}))
    batched, _ = work(tmp_path / "b", rows[::-1], settings(**{"batch.size": size}))
    for id, record in alone.items():
        assert batched[id].checks["crc32"] == record.checks["crc32"]


def test_a_long_text_becomes_one_file(tmp_path: Path) -> None:
    text = " ".join(f"This is sentence number {n} of a long chapter." for n in range(60))
    records, _ = work(tmp_path, [utterance(0, text), utterance(1, "Short.")])
    assert records["u0"].status == "ok"
    assert records["u0"].duration > 0.01 * len(text)
    assert len(list(tmp_path.rglob("*.wav"))) == 2


def test_pauses_between_sentences_are_not_suspect(tmp_path: Path) -> None:
    texts = ["One sentence. And another one. And a third.", *(f"Only one, {n}." for n in range(60))]
    config = settings(**{"text.sentence_pause_ms": 2000})
    records, _ = work(tmp_path, [utterance(n, text) for n, text in enumerate(texts)], config)
    assert {record.attempts for record in records.values()} == {1}
    assert records["u0"].duration > 4


def test_out_of_memory_splits_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [utterance(n, "x" * 50) for n in range(32)]
    whole, _ = work(tmp_path / "a", rows, settings(**{"batch.size": 16}))
    sabotage(monkeypatch, oom_above=300)
    split, others = work(tmp_path / "b", rows, settings(**{"batch.size": 16}))
    assert {r.checks["crc32"] for r in split.values()} == {
        r.checks["crc32"] for r in whole.values()
    }
    assert others[-2].figures["ooms"] >= 1
    assert any(isinstance(m, Remark) and "out of memory" in m.text for m in others)


def test_what_does_not_fit_alone_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, oom_item_above=200)
    records, _ = work(tmp_path, [utterance(0, "x" * 201), *(utterance(n, "y") for n in (1, 2))])
    assert records["u0"].status == "failed"
    assert records["u0"].reason.startswith("out of memory: CUDA out of memory")
    assert {records["u1"].status, records["u2"].status} == {"ok"}


def test_a_bad_utterance_does_not_take_its_neighbours_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, error_on="bad")
    texts = ["good", "bad apple", "fine", "well"]
    records, _ = work(tmp_path, [utterance(n, text) for n, text in enumerate(texts)])
    assert [records[f"u{n}"].status for n in range(4)] == ["ok", "failed", "ok", "ok"]
    assert "told to fail" in records["u1"].reason


def test_not_a_number_never_becomes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch, nan_on="broken")
    records, _ = work(tmp_path, [utterance(0, "a broken one"), utterance(1, "a good one")])
    assert records["u0"].status == "failed"
    assert "non-finite" in records["u0"].reason
    assert records["u0"].attempts == 3
    assert records["u1"].status == "ok"
    assert not (tmp_path / "audio/u0.wav").exists()


def test_suspects_are_spoken_again_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, runaway_share=0.05, silent_share=0.02)
    rows = [utterance(n, f"Sentence number {n}, of some length.") for n in range(400)]
    records, others = work(tmp_path, rows, settings(**{"checks.retries": 4}))
    assert {record.status for record in records.values()} == {"ok"}
    assert {record.checks["verdict"] for record in records.values()} == {"ok"}
    again = [record for record in records.values() if record.attempts > 1]
    assert 10 <= len(again) <= 60
    assert all(record.seed != int(record.id[1:]) for record in again)
    assert others[-2].figures["retries"] >= len(again)
    assert others[-2].figures["batches"] < 400 / 4


def test_what_stays_suspect_is_kept_or_failed_as_the_config_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch, runaway_share=1.0)
    kept, _ = work(tmp_path / "a", [utterance(0, "Runs away.")])
    assert kept["u0"].status == "ok"
    assert kept["u0"].checks["verdict"].startswith("suspect:")
    failed, _ = work(
        tmp_path / "b", [utterance(0, "Runs away.")], settings(**{"checks.on_suspect": "fail"})
    )
    assert failed["u0"].status == "failed"


def test_two_voices_never_share_a_batch(tmp_path: Path) -> None:
    rows = [utterance(n, "text", ("fake:tone", "fake:other")[n % 2]) for n in range(12)]
    records, others = work(tmp_path, rows)
    assert len(records) == 12
    for message in others:
        if isinstance(message, Busy):
            assert len({index % 2 for index in message.indexes}) == 1


def test_refused_rows_are_recorded(tmp_path: Path) -> None:
    records, _ = work(tmp_path, [utterance(0, "☢"), utterance(1, "..."), utterance(2, "fine")])
    assert [records[f"u{n}"].status for n in range(3)] == ["failed", "skipped", "ok"]
    assert records["u0"].model == "fake:tone 1"


def test_prepare_in_processes_gives_the_same(tmp_path: Path) -> None:
    rows = [utterance(n, f"Text {n}") for n in range(20)]
    here, _ = work(tmp_path / "a", rows)
    there, _ = work(tmp_path / "b", rows, prepare_processes=1)
    assert {r.checks["crc32"] for r in here.values()} == {r.checks["crc32"] for r in there.values()}


def test_telephone_output(tmp_path: Path) -> None:
    config = settings(**{"output.preset": "telephony"})
    records, _ = work(tmp_path, [utterance(0, "Hello.")], config)
    info = soundfile.info(tmp_path / records["u0"].file)
    assert (info.samplerate, info.channels, info.subtype) == (8000, 1, "ULAW")
    assert np.isfinite(records["u0"].checks["peak_dbfs"])


def test_a_book_goes_stretch_by_stretch_into_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchtts.assembly.LONG_SECONDS", 20.0)
    monkeypatch.setattr("batchtts.assembly.STRETCH_SECONDS", 5.0)
    text = " ".join(f"This is sentence number {n} of a very long book." for n in range(200))
    short = [utterance(n, f"Short {n}.") for n in range(1, 20)]
    records, _ = work(tmp_path, [utterance(0, text), *short])
    assert {record.status for record in records.values()} == {"ok"}
    wave, rate = soundfile.read(tmp_path / records["u0"].file, dtype="float32")
    assert len(wave) / rate == pytest.approx(records["u0"].duration, abs=1e-3)
    assert records["u0"].duration > 0.009 * len(text)
    assert records["u0"].checks["verdict"] == "ok"
    assert output.is_whole(tmp_path / records["u0"].file, records["u0"])


def test_a_book_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchtts.assembly.LONG_SECONDS", 20.0)
    monkeypatch.setattr("batchtts.assembly.STRETCH_SECONDS", 5.0)
    sabotage(monkeypatch, error_on="number 150")
    text = " ".join(f"This is sentence number {n} of a very long book." for n in range(200))
    records, _ = work(tmp_path, [utterance(0, text), utterance(1, "Short.")])
    assert records["u0"].status == "failed"
    assert records["u1"].status == "ok"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["u1.wav"]
