"""Audio into object stores, against a real S3 server on this machine that comes and goes."""

import csv
import json
import shutil
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from batchtts import manifest, output, places, remote, run
from batchtts.config import Config, load_config
from batchtts.data import Record
from batchtts.errors import Exit, IncompleteError, StorageError, UsageError
from batchtts.manifest import Prior
from batchtts.merge import merge
from batchtts.models.fake import mark_of
from batchtts.options import Options
from batchtts.progress import screen_for
from batchtts.shards import Shard
from batchtts.summary import Summary

pytest.importorskip("obstore")
boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the server
URL = "s3://speech/night/1"


class Server:
    """An S3 server that keeps what it holds while it is away."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._server: Any = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = moto_server.ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def client(self) -> Any:
        """Another client than ours."""
        return boto3.client("s3", endpoint_url=self.url)

    def read(self, name: str) -> bytes:
        data: bytes = (
            self.client().get_object(Bucket="speech", Key=f"night/1/{name}")["Body"].read()
        )
        return data


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    reset = urllib.request.Request(f"{server.url}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()
    server.client().create_bucket(Bucket="speech")
    yield server
    server.stop()


def bucket(say: Callable[[str], None] = print) -> Any:
    folder, url = places.split(URL)
    return places.at(folder, url, say)


def prior(file: str, size: int | None) -> Prior:
    return Prior(id="a", status="ok", key="", file=file, duration=1.0, sample_rate=8000, bytes=size)


def test_a_file_is_gone_here_when_it_is_there(server: Server) -> None:
    place = bucket()
    path = place.folder / "audio" / "ab" / "x y.wav"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"sound")

    place.put("audio/ab/x y.wav")
    place.copy([("audio/ab/x y.wav", "audio/twin.wav")])

    assert not path.exists()
    assert server.read("audio/ab/x y.wav") == b"sound"
    assert server.read("audio/twin.wav") == b"sound"


@pytest.mark.usefixtures("server")
def test_a_listing_tells_what_is_there() -> None:
    place = bucket()
    (place.folder / "audio").mkdir(parents=True)
    for number in range(30):
        (place.folder / "audio" / f"{number}.wav").write_bytes(b"sound")
        place.put(f"audio/{number}.wav")

    place = bucket()
    assert all(place.holds(prior(f"audio/{number}.wav", 5)) for number in range(30))
    assert place.holds(prior("audio/0.wav", None))
    assert not place.holds(prior("audio/0.wav", 6))
    assert not place.holds(prior("audio/30.wav", 5))


@pytest.mark.usefixtures("server")
def test_the_tables_go_there_and_the_journal_comes_back(tmp_path: Path) -> None:
    place = bucket()
    books = Shard(1, 2).folder(place.folder)
    books.mkdir(parents=True)
    manifest.compact(books, [Record(id="a", status="ok")])
    (books / "failed.csv").write_text("x")
    place.publish(books)
    (books / "failed.csv").unlink()
    place.publish(books)

    other = remote.Bucket(tmp_path, URL, print)
    elsewhere = Shard(1, 2).folder(tmp_path)
    elsewhere.mkdir(parents=True)
    other.fetch(elsewhere)

    assert manifest.read(elsewhere) == {"a": Record(id="a", status="ok")}
    assert [item["path"] for page in other._store.list("shards/") for item in page] == [
        "shards/1-of-2/manifest.jsonl"
    ]
    other.fetch(tmp_path)
    assert not (tmp_path / "manifest.jsonl").exists()


def test_a_bucket_that_is_not_there_is_told_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = remote.Bucket(tmp_path, "s3://nowhere/x", print)

    with pytest.raises(StorageError, match="s3://nowhere/x cannot be asked for the journal"):
        place.fetch(tmp_path)

    server.stop()
    monkeypatch.setattr(remote, "TRY_SECONDS", 0.2)
    place = remote.Bucket(tmp_path, URL, print)
    with pytest.raises(StorageError, match="mend that and run the same command again"):
        place.fetch(tmp_path)
    server.start()


def test_a_store_that_comes_back_is_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote, "TRY_SECONDS", 0.2)
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 0.01)
    said: list[str] = []

    def back_again(text: str) -> None:
        said.append(text)
        server.start()

    place = remote.Bucket(tmp_path, URL, back_again)
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio" / "a.wav").write_bytes(b"sound")
    server.stop()
    place.put("audio/a.wav")

    assert len(said) == 1
    assert said[0].startswith(f"{URL} cannot be given audio/a.wav: ")
    assert said[0].endswith("; trying on")
    assert server.read("audio/a.wav") == b"sound"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param("ftp://host/x", "begins with s3://, gs://, az://", id="scheme"),
        pytest.param("az://account/container", "cannot write to az://", id="no-account"),
        pytest.param("s3://", "cannot write to s3://", id="no-bucket"),
    ],
)
def test_what_is_no_store_is_refused(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        places.at(*places.split(target), print)


def test_each_url_has_its_own_folder_here() -> None:
    first, second = places.split("s3://a/b_c")[0], places.split("s3://a/b/c")[0]

    assert first != second
    assert places.split("s3://a/b_c/")[0] == first
    assert places.split("out/x") == (Path("out/x"), "")


# Whole runs ---------------------------------------------------------------------------------------


def speak(source: Path, say: StringIO, **options: Any) -> Summary:
    folder, url = places.split(URL)
    screen = screen_for(Console(file=say, width=300), quiet=False)
    return run.generate(str(source), _config(), folder, Options(remote=url, **options), screen)


def _config() -> Config:
    overrides = {"voice": "fake:tone", "devices": "cpu,cpu", "batch.size": 4}
    config = load_config(None, overrides)
    return config.model_copy(update={"output": output.resolve(config.output)})


def check(server: Server, rows: int) -> None:
    """Every row is there once, and its file is its own."""
    table = server.read("manifest.csv").decode()
    records = list(csv.DictReader(StringIO(table)))
    assert [record["id"] for record in records] == [f"{n:06d}" for n in range(1, rows + 1)]
    for record in records:
        data = server.read(record["file_name"])
        samples = memoryview(data[-2 * ((len(data) - 44) // 2) :]).cast("h")
        bits = "".join("1" if sample > 0 else "0" for sample in samples[:64])
        assert int(bits, 2) == mark_of(record["text"])
    summary = json.loads(server.read("summary.json"))
    assert summary["counts"] == {"ok": rows}


def test_a_run_resumes_by_the_listing(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "t.txt"
    source.write_text("".join(f"Sentence number {n % 18}.\n" for n in range(20)))  # two are twins
    first = speak(source, StringIO())
    shutil.rmtree(places.split(URL)[0])  # as on another machine
    server.client().delete_object(Bucket="speech", Key="night/1/audio/000007.wav")
    second = speak(source, StringIO())

    assert (first.spoken, first.copied) == (18, 2)
    assert (second.spoken, second.kept, second.exit_code) == (1, 19, Exit.OK)
    check(server, 20)
    staged = places.split(URL)[0] / "audio"
    assert not [path for path in staged.rglob("*") if path.is_file()]


def test_shards_of_several_machines_are_merged_there(server: Server, tmp_path: Path) -> None:
    source = tmp_path / "t.txt"
    source.write_text("".join(f"Sentence number {n}.\n" for n in range(12)))
    speak(source, StringIO(), shard=Shard(0, 2))
    shutil.rmtree(places.split(URL)[0])  # as on another machine
    with pytest.raises(IncompleteError, match="shard 1/2 is missing"):
        merge(places.to_merge(URL, print))
    speak(source, StringIO(), shard=Shard(1, 2))

    merged = merge(places.to_merge(URL, print))

    assert merged.counts == {"ok": 12}
    check(server, 12)


@pytest.mark.slow
def test_the_server_goes_away_for_ten_seconds(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHTTS_FAKE", '{"item_seconds": 0.02}')
    source = tmp_path / "t.txt"
    source.write_text("".join(f"Sentence number {n}.\n" for n in range(300)))
    journal = places.split(URL)[0] / "manifest.jsonl"
    away: list[int] = []

    def disturb() -> None:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 100:
            time.sleep(0.05)
        server.stop()
        away.append(journal.read_bytes().count(b"\n"))
        time.sleep(10)
        away.append(journal.read_bytes().count(b"\n"))
        server.start()

    thread = threading.Thread(target=disturb)
    thread.start()
    result = speak(source, StringIO())
    thread.join()

    assert 100 <= away[0] <= away[1] < 300
    assert (result.counts, result.restarts) == ({"ok": 300}, 0)
    check(server, 300)
