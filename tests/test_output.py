"""Writing: every format reads back, clipping, full disks, resume checks, streams (C98-C104)."""

import errno
import json
import math
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from batchtts import audio, codec, formats, levels, output, storage, wav
from batchtts.audio import Samples
from batchtts.config import OutputConfig
from batchtts.data import Record
from batchtts.errors import AudioError, StorageError
from tests.test_audio import voice

CASES = Path(__file__).parent / "cases"
RATE = 24_000

FORMATS: list[dict[str, Any]] = [
    {"format": "wav"},
    {"format": "wav", "encoding": "pcm_24"},
    {"format": "wav", "encoding": "float"},
    {"format": "wav", "encoding": "mulaw"},
    {"format": "wav", "encoding": "alaw"},
    {"format": "wav", "tags": {"title": "Ansage", "artist": "목소리"}},
    {"format": "flac"},
    {"format": "flac", "encoding": "pcm_24"},
    {"format": "ogg"},
    {"format": "opus"},
    {"format": "mp3"},
]
TOLERANCE = {"PCM_16": 4e-5, "PCM_24": 2e-7, "FLOAT": 0.0, "ULAW": 0.02, "ALAW": 0.02}


def resolved(**keys: Any) -> OutputConfig:
    return output.resolve(OutputConfig(**keys))


def tone(seconds: float = 0.5, level: float = 0.5) -> Samples:
    axis = np.arange(round(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * 440 * axis)).astype(np.float32)


def record_of(written: output.Written) -> Record:
    return Record(
        id="x",
        status="ok",
        duration=round(written.duration, 4),
        sample_rate=written.sample_rate,
        checks={"bytes": written.bytes},
    )


def name_of(keys: dict[str, Any]) -> str:
    return "-".join([keys["format"], keys.get("encoding", ""), *keys.get("tags", ())])


# Formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", FORMATS, ids=name_of)
def test_every_format_is_what_it_says(keys: dict[str, Any], tmp_path: Path) -> None:
    config = resolved(**keys)
    path = tmp_path / "audio" / f"x.{output.extension(config)}"
    written = output.write(path, tone(), RATE, config, lease=7)
    body = path.read_bytes()
    assert (written.bytes, written.crc32) == (len(body), f"{zlib.crc32(body):08x}")
    info = soundfile.info(path)
    assert (info.samplerate, info.channels) == (RATE, 1)
    assert info.subtype == formats.subtype(config)
    assert info.frames == pytest.approx(12_000, abs=0 if config.format != "mp3" else 1200)
    samples = soundfile.read(path, dtype="float32")[0]
    if info.subtype in TOLERANCE:
        assert np.abs(samples - tone()).max() <= TOLERANCE[info.subtype]
    else:
        assert np.abs(samples).max() == pytest.approx(0.5, abs=0.1)
    assert output.is_whole(path, record_of(written))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("format", ["wav", "flac", "ogg", "opus", "mp3"])
def test_tags_are_in_the_file(format: str, tmp_path: Path) -> None:
    config = resolved(format=format, tags={"title": "제목 Ärger", "artist": "hibari"})
    path = tmp_path / f"x.{output.extension(config)}"
    output.write(path, tone(), RATE, config, lease=1)
    with soundfile.SoundFile(path) as file:
        assert (file.title, file.artist) == ("제목 Ärger", "hibari")


def test_telephony_has_the_plain_header_that_pbx_software_wants(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    output.write(path, tone(), 8000, resolved(sample_rate=8000), lease=1)
    body = path.read_bytes()
    assert len(body) == 44 + 2 * 12_000
    assert body[:4] + body[8:16] + body[36:40] == b"RIFFWAVEfmt data"
    info = wav.read_header(path)
    assert info == wav.WavInfo(tag=1, channels=1, sample_rate=8000, bits=16, num_samples=12_000)


def test_mu_law_has_its_own_tag_and_8_bits(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    output.write(path, tone(), 8000, resolved(preset="telephony"), lease=1)
    info = wav.read_header(path)
    assert info is not None
    assert (info.tag, info.bits, info.sample_rate) == (7, 8, 8000)


def test_our_own_wav_is_libsndfiles_to_the_byte(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.wav", tmp_path / "theirs.wav"
    output.write(ours, tone(), RATE, resolved(), lease=1)
    samples, _ = codec.quantize(tone(), resolved())
    soundfile.write(theirs, samples, RATE, subtype="PCM_16")
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("keys", [{"format": "wav"}, {"format": "flac"}, {"encoding": "mulaw"}])
def test_int16_from_the_device_is_written_as_it_is(keys: dict[str, Any], tmp_path: Path) -> None:
    config = resolved(**keys)
    samples = np.round(tone() * 32_767).astype(np.int16)
    first, second = tmp_path / "a.x", tmp_path / "b.x"
    output.write(first, samples, RATE, config, lease=1)
    output.write(second, tone(), RATE, config, lease=1)
    assert first.read_bytes() == second.read_bytes()


def test_a_long_vorbis_file_is_encoded_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "x.ogg"
    written = output.write(path, tone(30.0, level=0.1), RATE, resolved(format="ogg"), lease=1)
    assert soundfile.info(path).frames == written.num_samples == 30 * RATE


# Samples --------------------------------------------------------------------------------------


def test_c102_overflow_is_clipped_and_counted(tmp_path: Path) -> None:
    case = json.loads((CASES / "C102_overflow.json").read_text())
    path = tmp_path / "x.wav"
    wave = np.array(case["float"], np.float32)
    written = output.write(path, wave, RATE, resolved(), lease=1)
    assert written.clipped == case["clipped_expected"]
    for sample, expected in zip(
        soundfile.read(path, dtype="int16")[0], case["int16_expected"], strict=True
    ):
        assert sample in (expected if isinstance(expected, list) else [expected])


@pytest.mark.parametrize("keys", FORMATS, ids=name_of)
def test_no_format_wraps_what_is_over_full_scale(keys: dict[str, Any], tmp_path: Path) -> None:
    config = resolved(**keys)
    path = tmp_path / f"x.{output.extension(config)}"
    written = output.write(path, tone(level=1.5), RATE, config, lease=1)
    samples = soundfile.read(path, dtype="float32")[0]
    assert written.clipped > 4000
    inside = slice(500, 11_000)
    assert np.corrcoef(samples[inside], tone()[inside])[0, 1] > 0.9 or config.format == "mp3"
    assert np.abs(np.diff(samples)).max() < 0.5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("keys", [{}, {"encoding": "float"}, {"format": "flac"}])
def test_what_is_not_finite_never_becomes_a_file(
    value: float, keys: dict[str, Any], tmp_path: Path
) -> None:
    wave = tone()
    wave[100] = value
    with pytest.raises(AudioError, match="non-finite"):
        output.write(tmp_path / "x.wav", wave, RATE, resolved(**keys), lease=1)
    assert not list(tmp_path.iterdir())


def test_no_samples_make_no_file(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"no audio for x\.wav"):
        output.write(tmp_path / "x.wav", np.zeros(0, np.float32), RATE, resolved(), lease=1)
    assert not list(tmp_path.iterdir())


def test_c104_a_wav_too_long_for_its_header_is_refused_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wav, "MAX_DATA", 20_000)
    path = tmp_path / "x.wav"
    with pytest.raises(AudioError, match=r"24,000 bytes of audio, a WAV holds 20,000; .* flac"):
        output.write(path, tone(), RATE, resolved(), lease=1)
    assert not list(tmp_path.iterdir())
    output.write(path, tone(), RATE, resolved(encoding="mulaw"), lease=1)
    output.write(path, tone(), RATE, resolved(format="flac"), lease=1)


def test_the_largest_wav_has_sizes_that_fit() -> None:
    header = wav.header(RATE, wav.MAX_DATA)
    assert int.from_bytes(header[4:8], "little") == wav.MAX_DATA + 36
    assert int.from_bytes(header[40:44], "little") == wav.MAX_DATA


@pytest.mark.parametrize("rate", [8000, 24_000])
@pytest.mark.parametrize(
    "keys", [*({"format": name} for name in formats.FORMATS), {"encoding": "mulaw"}], ids=str
)
def test_the_peak_is_under_the_ceiling_in_the_decoded_file(
    keys: dict[str, Any], rate: int, tmp_path: Path
) -> None:
    config = resolved(loudness=-18.0, true_peak=-3.0, sample_rate=rate, **keys)
    path = tmp_path / f"x.{output.extension(config)}"
    for wave in voice():
        output.write(path, *audio.finish(wave, RATE, config), config, lease=1)
        decoded = soundfile.read(path, dtype="float32")[0]
        over = 20 * math.log10(levels.true_peak(decoded, rate)) + 3.0
        assert over <= (0.7 if config.format in ("ogg", "opus", "mp3") else 0.0)


# Storage --------------------------------------------------------------------------------------


def test_writing_again_replaces(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    output.write(path, tone(0.1), RATE, resolved(), lease=1)
    output.write(path, tone(0.2), RATE, resolved(), lease=2)
    assert soundfile.info(path).frames == 4800


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / output.file_for("내" * 300, "wav", layout_folders=True)
    output.write(path, tone(0.1), RATE, resolved(), lease=2**63)
    assert path.exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_does_not_take_it_is_named_and_left_as_it_was(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.wav"
    output.write(path, tone(0.1), RATE, resolved(), lease=1)
    before = path.read_bytes()

    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(StorageError, match=rf"{tmp_path}.*{os.strerror(code)}.*bytes free"):
        output.write(path, tone(0.2), RATE, resolved(), lease=1)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.wav"]


@pytest.fixture
def full_disk() -> Path:
    """A device that is always full, as /dev/full is, behind a folder."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    return Path("/dev/full")


def test_a_really_full_device(tmp_path: Path, full_disk: Path) -> None:
    (tmp_path / ".x.wav.tmp-1").symlink_to(full_disk)
    with pytest.raises(StorageError, match="No space left on device"):
        output.write(tmp_path / "x.wav", tone(), RATE, resolved(), lease=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keys", [{}, {"format": "flac"}, {"format": "ogg"}])
def test_a_stream_onto_a_really_full_device(
    keys: dict[str, Any], tmp_path: Path, full_disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".x.wav.tmp-1").symlink_to(full_disk)
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, RATE).astype(np.float32)

    def speak() -> None:
        with output.open_stream(tmp_path / "x.wav", RATE, resolved(**keys), 1) as stream:
            for _ in range(200):
                stream.append(noise)

    with pytest.raises(StorageError, match="No space left on device"):
        speak()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().err == ""


def test_a_folder_that_is_a_file_is_an_error_of_storage(tmp_path: Path) -> None:
    (tmp_path / "audio").write_text("in the way")
    with pytest.raises(StorageError, match="audio"):
        output.write(tmp_path / "audio" / "x.wav", tone(), RATE, resolved(), lease=1)


def test_only_our_own_leftovers_go(tmp_path: Path) -> None:
    ours = ["audio/.x.wav.tmp-12", "audio/3f/.내일.wav.tmp-0", ".manifest.jsonl.tmp-0"]
    others = ["audio/x.wav", "audio/.hidden", "audio/x.tmp-12", "audio/.x.tmp-a", "notes.tmp-1"]
    for name in ours + others:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / ".y.wav.tmp-3").write_text("x")
    (tmp_path / "link").symlink_to(outside)
    assert output.remove_leftovers(tmp_path) == len(ours)
    assert not any((tmp_path / name).exists() for name in ours)
    assert all((tmp_path / name).exists() for name in others)
    assert (outside / ".y.wav.tmp-3").exists()
    shutil.rmtree(outside)


def test_no_folder_has_no_leftovers(tmp_path: Path) -> None:
    assert output.remove_leftovers(tmp_path / "audio") == 0


# Resume ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zero", "header_only", "truncated", "wrong_rate", "garbage"])
def test_c98_broken_files_are_not_trusted(name: str) -> None:
    path = CASES / f"C98_{name}.wav"
    size = path.stat().st_size
    claimed = Record(id=name, status="ok", duration=0.5, sample_rate=22_050, checks={"bytes": size})
    assert not output.is_whole(path, claimed)


@pytest.mark.parametrize("keys", FORMATS, ids=name_of)
def test_any_cut_or_foreign_file_is_noticed(keys: dict[str, Any], tmp_path: Path) -> None:
    config = resolved(**keys)
    path = tmp_path / f"x.{output.extension(config)}"
    written = output.write(path, tone(), RATE, config, lease=1)
    record = record_of(written)
    body = path.read_bytes()
    for broken in (b"", body[:44], body[: len(body) // 2], body[:-1], body + b"\0\0"):
        path.write_bytes(broken)
        assert not output.is_whole(path, record)
    path.write_bytes(np.random.default_rng(1).bytes(len(body)))
    assert not output.is_whole(path, record)
    path.unlink()
    assert not output.is_whole(path, record)


def test_c108_without_a_recorded_size_the_header_decides(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    written = output.write(path, tone(), RATE, resolved(), lease=1)
    assert output.holds(path, written.duration, RATE, None)
    assert not output.holds(path, written.duration + 0.01, RATE, None)
    assert not output.holds(path, written.duration, 22_050, None)
    assert not output.holds(path, written.duration, RATE, 99_999)
    path.write_bytes(path.read_bytes()[:-2])
    assert not output.holds(path, written.duration - 1 / RATE, RATE, None)


def test_stereo_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, np.zeros((100, 2)), RATE)
    assert not output.holds(path, 100 / RATE, RATE, None)


@pytest.mark.parametrize(
    "body", [b"RIFF", b"RIFF\x04\0\0\0WAVE", b"RIFF\x0c\0\0\0WAVEdata\0\0\0\0"]
)
def test_headers_that_end_early(body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(body)
    assert wav.read_header(path) is None


# Streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", FORMATS, ids=name_of)
def test_a_stream_makes_the_file_of_the_whole(keys: dict[str, Any], tmp_path: Path) -> None:
    config = resolved(**keys)
    streamed, whole = (tmp_path / f"{n}.{output.extension(config)}" for n in ("a", "b"))
    with output.open_stream(streamed, RATE, config, lease=1) as stream:
        for _ in range(5):
            stream.append(tone(), pause_ms=0)
        written = stream.close()
    assert output.is_whole(streamed, record_of(written))
    from batchtts.audio import join

    expected = output.write(whole, join([tone()] * 5, [0] * 5, RATE), RATE, config, lease=1)
    assert (written.num_samples, written.clipped) == (expected.num_samples, expected.clipped)
    body = streamed.read_bytes()
    assert (written.bytes, written.crc32) == (len(body), f"{zlib.crc32(body):08x}")
    if config.format in ("wav", "flac"):
        assert np.array_equal(soundfile.read(streamed)[0], soundfile.read(whole)[0])


def test_a_stream_resamples_and_levels(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    with output.open_stream(path, RATE, resolved(preset="telephony"), lease=1) as stream:
        for _ in range(4):
            stream.append(tone(), pause_ms=100)
        written = stream.close()
    assert (written.sample_rate, soundfile.info(path).samplerate) == (8000, 8000)
    assert written.duration == pytest.approx(4 * 0.5 + 3 * 0.1, abs=0.02)


def test_a_stream_that_is_left_early_leaves_nothing(tmp_path: Path) -> None:
    def speak() -> None:
        with output.open_stream(tmp_path / "x.wav", RATE, resolved(), lease=1) as stream:
            stream.append(tone())
            raise KeyError

    with pytest.raises(KeyError):
        speak()
    assert not list(tmp_path.iterdir())


def test_a_stream_without_audio_is_no_file(tmp_path: Path) -> None:
    with (
        output.open_stream(tmp_path / "x.wav", RATE, resolved(), lease=1) as stream,
        pytest.raises(AudioError, match="no audio"),
    ):
        stream.close()
    assert not list(tmp_path.iterdir())


def test_c104_a_stream_stops_before_its_header_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wav, "MAX_DATA", 1_000_000)
    monkeypatch.setattr("batchtts.audio.LEVEL_SECONDS", 2)

    def speak() -> None:
        with output.open_stream(tmp_path / "x.wav", RATE, resolved(), lease=1) as stream:
            for _ in range(100):
                stream.append(tone())

    with pytest.raises(AudioError, match="a WAV holds 1,000,000"):
        speak()
    assert not list(tmp_path.iterdir())


def test_temporary_names_stand_beside_the_file_and_are_ours(tmp_path: Path) -> None:
    temporary = storage.temporary(tmp_path / "내일.wav", 2**63)
    assert temporary.parent == tmp_path
    assert storage.TEMPORARY.fullmatch(temporary.name)
