"""What the HTML report shows, as plain data: gathered from the manifest, the summary and verify."""

import base64
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from batchtts import durations, manifest, storage, summary, verify
from batchtts.data import Record
from batchtts.errors import UsageError

MEDIA = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
}
"""File name's end -> media type."""
CLIP_BYTES = 8_000_000
"""Most audio that a report carries; a mail and a browser still take it."""
CLIPS = 40
"""Most rows with audio."""
GOOD_CLIPS = 6
"""Of these, rows with nothing wrong, by chance: how the voice sounds when all is well."""
TEXT_CHARS = 500
"""Characters of a text that are shown."""
PICTURE = (240, 48)
"""Columns and height of a waveform's picture."""
TIME_POINTS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What the last `batchtts verify` found; empty where there was none."""

    why: Mapping[str, list[str]]
    """Id -> problems."""
    sounds: Mapping[str, Mapping[str, Any]]
    """Id -> heard, wer, cer, mos."""
    strays: list[str]
    """Problems of files without a row."""


def gather(folder: Path) -> dict[str, Any]:
    """All that the page shows.

    Raises:
        UsageError: the folder has no manifest.
    """
    records = list(manifest.read(folder).values())
    if not records:
        message = (
            f"{folder} has no {manifest.JOURNAL}: give the output folder of a run "
            "(of shards, after batchtts merge)"
        )
        raise UsageError(message)
    verified = read_verified(folder)
    figures = storage.read_object(folder / summary.FILE)
    outliers = durations.outliers(records)
    counts = Counter(record.status for record in records)
    return {
        "name": folder.resolve().name,
        "counts": {status: counts[status] for status in ("ok", "failed", "skipped")},
        "audio_seconds": round(sum(record.duration for record in records), 1),
        "figures": {key: value for key, value in figures.items() if key != "timeline"},
        "finished": max(record.finished_at for record in records),
        "voices": sorted({record.voice for record in records if record.voice}),
        "models": sorted({record.model for record in records if record.model}),
        "speed": speed_over_time(figures.get("timeline") or [], records),
        "reasons": Counter(r.reason for r in records if r.status == "failed").most_common(20),
        "rows": _columns(records, verified, outliers),
        "clips": _clips(folder, records, verified),
        "strays": verified.strays,
        "heard": sum(sound.get("heard") is not None for sound in verified.sounds.values()),
    }


def read_verified(folder: Path) -> Verified:
    """The last result of `batchtts verify`."""
    result = storage.read_object(folder / verify.RESULT)
    why: dict[str, list[str]] = defaultdict(list)
    strays = []
    for problem in result.get("problems", []):
        if problem["id"]:
            why[problem["id"]].append(f"{problem['kind']}: {problem['detail']}")
        else:
            strays.append(f"{problem['file']}: {problem['detail']}")
    return Verified(why=why, sounds=result.get("sounds", {}), strays=strays)


def doubts(record: Record, verified: Verified) -> list[str]:
    """Why a person should listen to a row: what verify found, or the check within the run."""
    verdict = str(record.checks.get("verdict", "ok"))
    if record.id in verified.why:
        return verified.why[record.id]
    return [verdict.removeprefix("suspect:")] if verdict != "ok" else []


def _columns(
    records: Sequence[Record], verified: Verified, outliers: Mapping[str, durations.Outlier]
) -> dict[str, list[Any]]:
    """The rows column by column, which is a third of the size of objects."""
    sounds = verified.sounds
    return {
        "id": [record.id for record in records],
        "status": [
            "suspect" if record.status == "ok" and doubts(record, verified) else record.status
            for record in records
        ],
        "text": [_shorten(record.text) for record in records],
        "length": [durations.spoken_length(record.text) for record in records],
        "duration": [round(record.duration, 2) for record in records],
        "level": [record.checks.get("rms_dbfs") for record in records],
        "cer": [sounds.get(record.id, {}).get("cer") for record in records],
        "note": [
            _shorten(record.reason or "; ".join(doubts(record, verified))) for record in records
        ],
        "file": [record.file for record in records],
        "device": [record.device for record in records],
        "attempts": [record.attempts for record in records],
        "outlier": [int(record.id in outliers) for record in records],
    }


def _shorten(text: str) -> str:
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…"


def speed_over_time(
    timeline: Sequence[Sequence[float]], records: Iterable[Record]
) -> list[tuple[float, float]]:
    """(minutes since the start, audio seconds per second) in up to TIME_POINTS steps.

    Args:
        timeline: (seconds, utterances so far, audio seconds so far), from the run itself.
        records: where there is no timeline, the times when they were finished tell it roughly.
    """
    points = [(float(t), float(audio)) for t, _, audio in timeline] or _finished(records)
    if len(points) < 3:
        return []
    ends, audio = np.array(points).T
    grid = np.linspace(ends[0], ends[-1], min(TIME_POINTS, len(points)) + 1)
    if grid[-1] <= grid[0]:
        return []
    rates = np.diff(np.interp(grid, ends, audio)) / np.diff(grid)
    return [(round(t / 60, 3), round(r, 2)) for t, r in zip(grid[1:], rates, strict=True)]


def _finished(records: Iterable[Record]) -> list[tuple[float, float]]:
    """(seconds since the first, audio seconds so far), by the second when files were finished."""
    seconds: dict[float, float] = defaultdict(float)
    for record in records:
        if record.finished_at and record.duration:
            seconds[datetime.fromisoformat(record.finished_at).timestamp()] += record.duration
    points, so_far, first = [], 0.0, min(seconds, default=0.0)
    for at in sorted(seconds):
        so_far += seconds[at]
        points.append((at - first, so_far))
    return points


def _clips(folder: Path, records: Sequence[Record], verified: Verified) -> list[dict[str, Any]]:
    """The rows that a person should listen to, with their audio; then some good ones."""
    spoken = [record for record in records if record.status == "ok" and record.file]
    wanted = [record for record in spoken if doubts(record, verified)]
    wanted.sort(key=lambda record: -(verified.sounds.get(record.id, {}).get("cer") or 0.0))
    good = [record for record in spoken if not doubts(record, verified)]
    chosen = wanted[: CLIPS - GOOD_CLIPS]
    chosen += random.Random(0).sample(good, min(GOOD_CLIPS, len(good)))
    clips, left = [], CLIP_BYTES
    for record in chosen:
        audio, picture = _sound(folder / record.file, left)
        left -= len(audio)
        sound = verified.sounds.get(record.id, {})
        clips.append(
            {
                "id": record.id,
                "text": record.text[: 4 * TEXT_CHARS],
                "file": record.file,
                "duration": round(record.duration, 2),
                "why": doubts(record, verified),
                "audio": audio,
                "picture": picture,
                **{name: sound.get(name) for name in ("heard", "cer", "mos")},
            }
        )
    return clips


def _sound(path: Path, most: int) -> tuple[str, str]:
    """A file as data URI, empty when it is too big, and the outline of its waveform."""
    import soundfile

    try:
        data = path.read_bytes()
        samples, _ = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError):
        return "", ""
    uri = f"data:{MEDIA.get(path.suffix, 'audio/wav')};base64,{base64.b64encode(data).decode()}"
    return (uri if len(uri) <= most else ""), outline(samples.mean(axis=1))


def outline(wave: "np.ndarray[Any, Any]") -> str:
    """The points of an SVG polygon around a waveform, float32 [num_samples]: PICTURE wide, high."""
    columns, height = PICTURE
    parts = np.array_split(np.nan_to_num(wave), min(columns, max(1, len(wave))))
    middle = height / 2
    top = [middle * (1 - min(1.0, float(part.max(initial=0)))) for part in parts]
    bottom = [middle * (1 - max(-1.0, float(part.min(initial=0)))) for part in parts]
    step = columns / len(parts)
    there = [f"{x * step:.0f},{y - 0.4:.1f}" for x, y in enumerate(top)]
    back = [f"{x * step:.0f},{y + 0.4:.1f}" for x, y in reversed(list(enumerate(bottom)))]
    return " ".join(there + back)
