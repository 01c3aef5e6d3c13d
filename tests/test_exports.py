"""Exports, each read by its own library where that is installed."""

import gc
import importlib
import json
import sys
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile

from batchtts import exports, manifest, output
from batchtts.config import OutputConfig
from batchtts.data import Record
from batchtts.errors import MissingExtraError, StorageError, UsageError

RATE = 8000
TEXTS = {
    "001": "Hello there.",
    "내일": "내일 오전에 방문해 주세요.",
    "a/b.c": 'One, "two" | three\nfour',
    "x.y": "The last one.",
}


def make_run(folder: Path, *, folders: bool = False, **keys: Any) -> list[Record]:
    """A finished run: four rows are ok, one failed, one was done twice."""
    config = output.resolve(OutputConfig(**keys))
    records = []
    for number, (id, text) in enumerate(TEXTS.items(), start=1):
        file = output.file_for(id, output.extension(config), folders)
        wave = np.full(1000 * number + 7, 0.1, np.float32)
        written = output.write(folder / file, wave, RATE, config, lease=1)
        records.append(
            Record(
                id=id,
                status="ok",
                file=file,
                duration=round(written.duration, 4),
                sample_rate=RATE,
                text=text,
                voice="hibari:heart",
                lang="ko" if id == "내일" else "",
                seed=2**63 - 1,
                checks={"verdict": "ok", "bytes": written.bytes},
            )
        )
    failed = Record(id="bad", status="failed", reason="empty text")
    with manifest.Journal(folder) as journal:
        journal.append_all([records[0], failed, *records])
    manifest.write_csv(folder, [*records, failed])
    return records


@pytest.fixture
def run(tmp_path: Path) -> Path:
    make_run(tmp_path / "run")
    return tmp_path / "run"


@cache
def codec_loads() -> bool:
    """Whether the codec library of `datasets` is here, and finds FFmpeg's libraries."""
    try:
        importlib.import_module("torchcodec.decoders")
    except (ImportError, OSError, RuntimeError):
        return False
    return True


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `datasets` pass audio through where its codec library does not load."""
    pytest.importorskip("datasets")
    if codec_loads():
        return
    codec = ModuleType("torchcodec.encoders")
    vars(codec)["AudioEncoder"] = object
    monkeypatch.setitem(sys.modules, "torchcodec", ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.encoders", codec)


@contextmanager
def careless_reader() -> Iterator[None]:
    """Around libraries that leave files to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def loaded(tmp_path: Path, kind: str, **arguments: Any) -> list[dict[str, Any]]:
    """Rows as `datasets` reads them, the audio as path and bytes."""
    import datasets

    datasets.disable_progress_bars()
    cache = str(tmp_path / "hf")
    with careless_reader():
        rows = datasets.load_dataset(kind, split="train", cache_dir=cache, **arguments)
        return list(rows.cast_column("audio", datasets.Audio(decode=False)))


# Every form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("to", [name for name in exports.EXPORTS if name != "parquet"])
def test_an_export_can_be_repeated_and_leaves_no_temporary_file(
    to: str, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out"

    def content() -> dict[Path, int]:
        return {path: path.stat().st_size for path in out.parent.rglob("*") if path.is_file()}

    assert exports.export(run, to, out) == len(TEXTS)
    first = content()
    assert exports.export(run, to, out) == len(TEXTS)
    assert content() == first
    assert not [path for path in first if ".tmp-" in path.name]


@pytest.mark.parametrize("to", exports.EXPORTS)
def test_a_run_without_audio_cannot_be_exported(to: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no finished audio"):
        exports.export(tmp_path, to, tmp_path / "out")


@pytest.mark.parametrize("to", [name for name in exports.EXPORTS if name != "parquet"])
def test_a_file_that_is_gone_stops_the_export(to: str, run: Path, tmp_path: Path) -> None:
    (run / "audio" / "x.y.wav").unlink()
    with pytest.raises(UsageError, match=r"x\.y\.wav is missing: run the same generate command"):
        exports.export(run, to, tmp_path / "out")


def test_an_unknown_form_names_those_there_are(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'kaldi'; valid: hf, ljspeech, lhotse, nemo, parquet"):
        exports.export(run, "kaldi", tmp_path / "out")


@pytest.mark.parametrize("to", ["nemo", "ljspeech", "webdataset", "lhotse"])
def test_a_place_that_cannot_be_written_is_an_error_of_storage(
    to: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"):
        exports.export(run, to, tmp_path / "file" / "out")


# Each form ------------------------------------------------------------------------------------


def test_nemo_has_its_three_keys_and_paths_beside_the_manifest(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "sets" / "train.json"
    exports.export(run, "nemo", out)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["text"] for line in lines] == list(TEXTS.values())
    for line in lines:
        path = out.parent / line["audio_filepath"]
        assert not Path(line["audio_filepath"]).is_absolute()
        assert soundfile.info(path).duration == pytest.approx(line["duration"], abs=1e-4)


def test_ljspeech_is_three_columns_without_quoting(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "lj"
    exports.export(run, "ljspeech", out)
    rows = [line.split("|") for line in (out / "metadata.csv").read_text().splitlines()]
    assert [row[1] for row in rows] == [
        *("Hello there.", "내일 오전에 방문해 주세요.", 'One, "two" / three four', "The last one."),
    ]
    for name, text, normalized in rows:
        assert text == normalized
        assert soundfile.info(out / "wavs" / f"{name}.wav").samplerate == RATE


def test_ljspeech_holds_wav_alone(tmp_path: Path) -> None:
    make_run(tmp_path, format="flac")
    with pytest.raises(UsageError, match=r"ljspeech holds WAV alone.*output\.format wav"):
        exports.export(tmp_path, "ljspeech", tmp_path / "out")


@pytest.mark.parametrize("keys", [{}, {"format": "flac"}, {"encoding": "mulaw"}])
def test_lhotse_reads_its_own(keys: dict[str, Any], tmp_path: Path) -> None:
    lhotse = pytest.importorskip("lhotse")
    make_run(tmp_path, **keys)
    out = tmp_path / "lhotse"
    exports.export(tmp_path, "lhotse", out)
    recordings = lhotse.RecordingSet.from_jsonl(out / "recordings.jsonl.gz")
    supervisions = lhotse.SupervisionSet.from_jsonl(out / "supervisions.jsonl.gz")
    lhotse.validate(recordings, read_data=True)
    lhotse.validate(supervisions)
    cuts = lhotse.CutSet.from_manifests(recordings=recordings, supervisions=supervisions)
    assert {cut.recording_id: cut.supervisions[0].text for cut in cuts} == TEXTS
    assert [cut.load_audio().shape[1] for cut in cuts] == [1007, 2007, 3007, 4007]


def test_webdataset_reads_its_own(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    webdataset = pytest.importorskip("webdataset")
    monkeypatch.setattr(exports, "SHARD_BYTES", 4000)
    out = tmp_path / "wds"
    exports.export(run, "webdataset", out)
    shards = sorted(map(str, out.iterdir()))
    assert len(shards) > 1
    with careless_reader():
        samples = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [sample["txt"].decode() for sample in samples] == list(TEXTS.values())
    assert [json.loads(sample["json"])["id"] for sample in samples] == list(TEXTS)
    assert [len(sample["wav"]) for sample in samples] == [2058, 4058, 6058, 8058]


def test_webdataset_shards_are_the_same_each_time(run: Path, tmp_path: Path) -> None:
    for name in "ab":
        exports.export(run, "webdataset", tmp_path / name)
    first, second = (tmp_path / name / "shard-000000.tar" for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as tar:
        assert {member.mode for member in tar} == {0o644}


@pytest.mark.usefixtures("undecoded")
@pytest.mark.parametrize("folders", [False, True])
def test_audiofolder_reads_an_exported_folder(folders: bool, tmp_path: Path) -> None:
    make_run(tmp_path / "run", folders=folders)
    out = tmp_path / "out"
    exports.export(tmp_path / "run", "hf", out)
    rows = loaded(tmp_path, "audiofolder", data_dir=str(out))
    assert {row["id"]: row["text"] for row in rows} == TEXTS
    for row in rows:
        assert soundfile.info(row["audio"]["path"]).duration == pytest.approx(
            row["duration"], abs=1e-4
        )


@pytest.mark.usefixtures("undecoded")
def test_audiofolder_reads_the_run_itself(run: Path, tmp_path: Path) -> None:
    rows = loaded(tmp_path, "audiofolder", data_dir=str(run))
    assert {row["id"]: row["text"] for row in rows if row["status"] == "ok"} == TEXTS
    assert all(row["audio"] is None for row in rows if row["status"] != "ok")
    exports.export(run, "hf", run)
    assert {
        row["id"]: row["text"] for row in loaded(tmp_path, "audiofolder", data_dir=str(run))
    } == (TEXTS)


def test_audiofolder_decodes_the_run(run: Path, tmp_path: Path) -> None:
    """With its real codec library, which needs those of FFmpeg 4 to 8."""
    datasets = pytest.importorskip("datasets")
    if not codec_loads():
        pytest.skip("torchcodec does not load")
    datasets.disable_progress_bars()
    with careless_reader():
        arguments = {"split": "train", "cache_dir": str(tmp_path / "hf")}
        rows = datasets.load_dataset("audiofolder", data_dir=str(run), **arguments)
        sounds = [row["audio"].get_all_samples() for row in rows if row["status"] == "ok"]
    assert [tuple(sound.data.shape) for sound in sounds] == [
        (1, 1007),
        (1, 2007),
        (1, 3007),
        (1, 4007),
    ]


def parquet_rows(out: Path) -> Iterator[dict[str, Any]]:
    parquet = pytest.importorskip("pyarrow.parquet")
    for path in sorted(out.iterdir()):
        yield from parquet.read_table(path).to_pylist()


def test_parquet_holds_the_audio(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(exports, "SHARD_BYTES", 4000)
    monkeypatch.setattr(exports, "ROW_GROUP", 1)
    exports.export(run, "parquet", tmp_path / "pq")
    rows = list(parquet_rows(tmp_path / "pq"))
    assert len(list((tmp_path / "pq").iterdir())) > 1
    assert {row["id"]: row["text"] for row in rows} == TEXTS
    for row in rows:
        assert row["audio"]["bytes"] == (run / row["audio"]["path"]).read_bytes()
        assert row["sample_rate"] == RATE


@pytest.mark.usefixtures("undecoded")
def test_datasets_reads_parquet_with_audio(run: Path, tmp_path: Path) -> None:
    exports.export(run, "parquet", tmp_path / "pq")
    rows = loaded(tmp_path, "parquet", data_files=str(tmp_path / "pq" / "*.parquet"))
    assert {row["id"]: row["text"] for row in rows} == TEXTS
    assert all(row["audio"]["bytes"].startswith(b"RIFF") for row in rows)


def test_parquet_without_its_library_names_the_extra(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'batchtts\[parquet\]'"):
        exports.export(run, "parquet", tmp_path / "pq")
