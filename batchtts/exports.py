"""A finished folder in the forms that other tools read; only rows that are ok."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchtts import manifest, storage
from batchtts.errors import MissingExtraError, UsageError
from batchtts.output import describe

if TYPE_CHECKING:
    from batchtts.data import Record

SHARD_BYTES = 500_000_000
"""Audio bytes in a shard of webdataset or Parquet."""

ROW_GROUP = 100
"""Rows of Parquet held in memory, and read at once: their audio stands in them."""


def export(folder: Path, to: str, out: Path) -> int:
    """Write the ok rows of a run in another form.

    Args:
        folder: The run's output folder.
        to: A key of `EXPORTS`.
        out: The file (nemo) or the folder (all others) to make.

    Returns:
        How many rows were written.

    Raises:
        UsageError: there is no such form, no ok row, a file is missing, or the form cannot hold it.
        MissingExtraError: Parquet needs pyarrow.
        StorageError: `out` cannot be written.
    """
    if to not in EXPORTS:
        message = f"--to: there is no {to!r}; valid: {', '.join(EXPORTS)}"
        raise UsageError(message)
    ids = [prior.id for prior in manifest.read_prior(folder).values() if prior.status == "ok"]
    if not ids:
        message = f"{folder} has no finished audio to export; is it the folder of a run?"
        raise UsageError(message)
    EXPORTS[to](folder, _present(folder, manifest.read_in_order(folder, ids)), out)
    return len(ids)


def _present(folder: Path, records: Iterable["Record"]) -> Iterator["Record"]:
    """The records, each with its file still there."""
    for record in records:
        if not (folder / record.file).is_file():
            message = f"{folder / record.file} is missing: run the same generate command again"
            raise UsageError(message)
        yield record


def _nemo(folder: Path, records: Iterable["Record"], out: Path) -> None:
    """One JSON line a row; audio paths relative to the manifest, as NeMo resolves them."""
    home = out.parent.resolve()

    def line(record: "Record") -> Mapping[str, Any]:
        return {
            "audio_filepath": os.path.relpath((folder / record.file).resolve(), home),
            "duration": record.duration,
            "text": record.text,
            "id": record.id,
            "voice": record.voice,
            "lang": record.lang,
        }

    storage.replace_by_lines(out, map(_json_line, map(line, records)))


def _lhotse(folder: Path, records: Iterable["Record"], out: Path) -> None:
    """Recordings and supervisions of lhotse, gzipped; audio paths are absolute, as it wants."""
    with ExitStack() as stack:
        recordings, supervisions = (
            stack.enter_context(
                gzip.open(stack.enter_context(storage.replacing(out / f"{name}.jsonl.gz")), "wb")
            )
            for name in ("recordings", "supervisions")
        )
        for record in records:
            path = (folder / record.file).resolve()
            _, sample_rate, num_samples = describe(path)
            recording = {
                "id": record.id,
                "sources": [{"type": "file", "channels": [0], "source": str(path)}],
                "sampling_rate": sample_rate,
                "num_samples": num_samples,
                "duration": num_samples / sample_rate,
                "channel_ids": [0],
            }
            supervision = {
                "id": record.id,
                "recording_id": record.id,
                "start": 0.0,
                "duration": num_samples / sample_rate,
                "channel": 0,
                "text": record.text,
                "language": record.lang or None,
                "speaker": record.voice,
            }
            recordings.write(_json_line(recording))
            supervisions.write(_json_line(supervision))


def _ljspeech(folder: Path, records: Iterable["Record"], out: Path) -> None:
    """metadata.csv of `name|text|text` and wavs/; the form has no quoting, so `|` becomes `/`."""

    def line(record: "Record") -> bytes:
        if not record.file.endswith(".wav"):
            message = f"ljspeech holds WAV alone, {record.file} is none; run with output.format wav"
            raise UsageError(message)
        name = Path(record.file).stem
        storage.copy(folder / record.file, out / "wavs" / f"{name}.wav")
        text = " ".join(record.text.replace("|", "/").split())
        return f"{name}|{text}|{text}\n".encode()

    storage.replace_by_lines(out / "metadata.csv", map(line, records))


def _hf(folder: Path, records: Iterable["Record"], out: Path) -> None:
    """A folder for Hugging Face's audiofolder: audio and metadata.csv; `out` may be the run's."""

    def linked(record: "Record") -> "Record":
        if out.resolve() != folder.resolve():
            storage.copy(folder / record.file, out / record.file)
        return record

    manifest.write_csv(out, map(linked, records), names=[manifest.METADATA])


def _webdataset(folder: Path, records: Iterable["Record"], out: Path) -> None:
    """Tar shards of samples: `<number>.<ext>`, `.txt` and `.json`, the last with the id."""
    numbers = count()
    for shard, rows in enumerate(_shards(folder, records)):
        path = out / f"shard-{shard:06}.tar"
        with storage.replacing(path) as temp, tarfile.open(temp, "w") as tar:
            for record in rows:
                key = f"{next(numbers):09}"
                _add(tar, key + Path(record.file).suffix, (folder / record.file).read_bytes())
                _add(tar, f"{key}.txt", record.text.encode())
                _add(tar, f"{key}.json", _json_line(record.as_dict()))


def _add(tar: tarfile.TarFile, name: str, body: bytes) -> None:
    """Add a file without owner or time, so that the same run makes the same shard."""
    info = tarfile.TarInfo(name)
    info.size = len(body)
    tar.addfile(info, io.BytesIO(body))


def _parquet(folder: Path, records: Iterable["Record"], out: Path) -> None:
    """Parquet files with the audio in them, as Hugging Face's `datasets` loads them."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("export --to parquet", "parquet") from error
    kinds: dict[str, Any] = {
        **dict.fromkeys(("id", "text", "voice", "lang"), pa.string()),
        "duration": pa.float64(),
        "sample_rate": pa.int32(),
    }
    features = {"audio": {"_type": "Audio"}} | {
        name: {"_type": "Value", "dtype": "float64" if name == "duration" else str(kind)}
        for name, kind in kinds.items()
    }
    audio = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    told = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema({"audio": audio} | kinds, told)
    for shard, rows in enumerate(_shards(folder, records)):
        path = out / f"part-{shard:05}.parquet"
        with storage.replacing(path) as temp, parquet.ParquetWriter(temp, schema) as writer:
            for group in _groups(rows):
                table = [
                    {name: getattr(record, name) for name in kinds}
                    | {"audio": {"bytes": (folder / record.file).read_bytes(), "path": record.file}}
                    for record in group
                ]
                writer.write_table(pa.Table.from_pylist(table, schema))


def _shards(folder: Path, records: Iterable["Record"]) -> Iterator[Iterator["Record"]]:
    """Runs of records with about `SHARD_BYTES` of audio each; every run must be used up."""
    rest = iter(records)

    def shard(first: "Record") -> Iterator["Record"]:
        size = 0
        record: Record | None = first
        while record is not None:
            size += (folder / record.file).stat().st_size
            yield record
            record = next(rest, None) if size < SHARD_BYTES else None

    for record in rest:
        yield shard(record)


def _groups(records: Iterator["Record"]) -> Iterator[list["Record"]]:
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) == ROW_GROUP:
            yield group
            group = []
    if group:
        yield group


def _json_line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


EXPORTS: Mapping[str, Callable[[Path, Iterable["Record"], Path], None]] = {
    "hf": _hf,
    "ljspeech": _ljspeech,
    "lhotse": _lhotse,
    "nemo": _nemo,
    "parquet": _parquet,
    "webdataset": _webdataset,
}
"""Name of a form -> what writes it."""
