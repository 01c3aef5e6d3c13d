import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from batchtts import manifest, report, reportdata
from batchtts.data import Record
from batchtts.errors import StorageError, UsageError
from tests.browser import CHROMIUM, Browser

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)> & <!-- \u2028 한국어"
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")


def make_folder(folder: Path, count: int = 120) -> Path:
    """A finished run: one suspect, one failed, one hostile text, the others good."""
    (folder / "audio").mkdir(parents=True)
    chance = np.random.default_rng(0)
    with manifest.Journal(folder) as journal:
        for number in range(count):
            text = f"row {number} " + "word " * (40 if number == 50 else number % 9)
            seconds = (0.3 + 0.05 * len(text)) * (6 if number == 11 else 1)
            file = f"audio/{number:04}.wav"
            wave = 0.1 * chance.standard_normal(round(seconds * 8000))
            soundfile.write(folder / file, wave, 8000, subtype="PCM_16")
            journal.append(
                Record(
                    id=f"{number:04}",
                    status="failed" if number == 5 else "ok",
                    reason="the voice cannot say: ☢" if number == 5 else "",
                    file="" if number == 5 else file,
                    duration=0 if number == 5 else seconds,
                    sample_rate=8000,
                    text=HOSTILE if number == 7 else text,
                    voice="fake:tone",
                    device="cpu:0",
                    checks={
                        "verdict": "suspect:too long" if number == 11 else "ok",
                        "rms_dbfs": -20.0 - number % 5,
                    },
                    finished_at=f"2026-11-30T01:{number // 60:02}:{number % 60:02}Z",
                )
            )
    return folder


def island(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "a run # 1")


def test_the_page_holds_everything_and_hostile_texts_stay_texts(folder: Path) -> None:
    path = report.write_html(folder, None)
    page = path.read_text("utf-8")
    assert path == folder / "report.html"
    assert page.count("</script>") == 3
    data = island(page)
    assert data["rows"]["text"][7] == HOSTILE
    assert data["counts"] == {"ok": 119, "failed": 1, "skipped": 0}
    assert data["reasons"] == [["the voice cannot say: ☢", 1]]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page)


def test_suspects_come_with_audio_then_some_good_ones(folder: Path) -> None:
    clips = reportdata.gather(folder)["clips"]
    assert [clip["id"] for clip in clips if clip["why"]] == ["0011"]
    assert clips[0]["why"] == ["too long"]
    assert clips[0]["audio"].startswith("data:audio/wav;base64,")
    assert len(clips) == 1 + reportdata.GOOD_CLIPS


def test_what_verify_found_is_shown(folder: Path) -> None:
    problem = {"kind": "swapped", "id": "0003", "file": "audio/0003.wav", "detail": "it says row 4"}
    stray = {"kind": "orphan", "id": "", "file": "audio/x.wav", "detail": "no row names it"}
    sound = {"heard": "row four", "wer": 0.5, "cer": 0.25, "mos": {"overall": 2.5}}
    (folder / "verify.json").write_text(
        json.dumps({"problems": [problem, stray], "sounds": {"0003": sound}}), "utf-8"
    )
    data = reportdata.gather(folder)
    assert data["clips"][0]["id"] == "0003"
    assert data["clips"][0]["heard"] == "row four"
    assert data["rows"]["status"][3] == "suspect"
    assert data["rows"]["cer"][3] == 0.25
    assert data["strays"] == ["audio/x.wav: no row names it"]


def test_no_more_audio_than_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reportdata, "CLIP_BYTES", 60_000)
    clips = reportdata.gather(folder)["clips"]
    assert 0 < sum(len(clip["audio"]) for clip in clips) <= 60_000
    assert all(clip["picture"] for clip in clips)
    assert any(not clip["audio"] for clip in clips)


def test_missing_audio_and_torn_files_do_not_stop_the_report(folder: Path) -> None:
    (folder / "audio/0011.wav").unlink()
    (folder / "summary.json").write_text('{"speed": 1', "utf-8")
    (folder / "verify.json").write_text("[]", "utf-8")
    data = reportdata.gather(folder)
    assert (data["clips"][0]["audio"], data["figures"]) == ("", {})


def test_rows_are_linked_from_wherever_the_page_lies(folder: Path, tmp_path: Path) -> None:
    page = report.write_html(folder, tmp_path / "page.html").read_text("utf-8")
    assert island(page)["base"] == "a%20run%20%23%201"


def test_a_folder_without_manifest_and_a_page_that_cannot_be_written(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="output folder of a run"):
        report.write_html(tmp_path)
    with pytest.raises(StorageError, match="cannot be written"):
        report.write_html(folder, folder / "no" / "such" / "folder.html")


def test_speed_comes_from_the_timeline_or_from_the_records() -> None:
    timeline = [(float(t), t, 10.0 * t) for t in range(61)]
    assert {rate for _, rate in reportdata.speed_over_time(timeline, [])} == {10.0}
    records = [
        Record(id=str(n), status="ok", duration=3, finished_at=f"2026-11-30T00:00:{n:02}Z")
        for n in range(50)
    ]
    assert {rate for _, rate in reportdata.speed_over_time([], records)} == {3.0}
    assert reportdata.speed_over_time([], records[:2]) == []


def test_the_outline_of_a_waveform_stays_in_its_box() -> None:
    for size in (0, 1, 100, 50_000):
        points = reportdata.outline(np.full(size, 2.0, np.float32)).split()
        assert points
        assert all(-1 <= float(point.split(",")[1]) <= 49 for point in points)
        assert all(0 <= float(point.split(",")[0]) <= 240 for point in points)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("report") / "run")
    figures = {
        "speed": 31.5,
        "rtf": 0.03,
        "wall_seconds": 75.0,
        "batches": 9,
        "padding_share": 0.05,
        "batch_sizes": {"4": 2, "16": 7},
        "devices": {"cpu:0": {"busy": 0.8, "wait_write": 0.1}},
    }
    (folder / "summary.json").write_text(json.dumps(figures), "utf-8")
    return report.write_html(folder)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_opens_from_disk_in_a_browser_without_an_error(
    page: Path, browser: Browser, width: int, scheme: str
) -> None:
    browser.show(page, width=width, scheme=scheme)
    assert browser.errors == []
    assert browser.run("document.title") == "run · batchtts report"
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('canvas').length") == 5
    bright = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128")
    assert bright == (scheme == "light")
    # Every duration is inside its chart: Chart.js takes the ends of an axis from the ends of the data.
    assert browser.run(
        "drawn.every(([, , chart]) => chart.data.datasets.every(set => set.data.every(point => "
        "point.x === undefined || (point.x <= chart.scales.x.max && point.x >= chart.scales.x.min))))"
    )


@needs_chromium
def test_searches_filters_sorts_and_turns_pages(page: Path, browser: Browser) -> None:
    browser.show(page)
    first = "document.querySelector('#table tbody tr td').textContent"
    found = "document.getElementById('found').textContent"
    assert browser.run(found) == "120 of 120 rows"
    browser.run("document.querySelector('th[data-name=duration] button').click()")
    browser.run("document.querySelector('th[data-name=duration] button').click()")
    assert browser.run(first) == "0050"
    assert (
        browser.run("document.querySelector('[aria-sort=descending]').dataset.name") == "duration"
    )
    browser.run("document.getElementById('next').click()")
    assert browser.run("document.getElementById('page').value") == "2"
    typed = "const box = document.getElementById('search'); box.value = 'CANNOT say'; "
    wait = "new Promise(done => setTimeout(done, 200))"
    browser.run(f"(() => {{ {typed} box.dispatchEvent(new Event('input')); return {wait} }})()")
    assert browser.run(found) == "1 of 120 rows"
    assert browser.run(first) == "0005"
    browser.run("[...document.querySelectorAll('#states input')].at(-1).click()")
    assert browser.run(found) == "0 of 120 rows"
    assert browser.errors == []


@needs_chromium
def test_plays_a_suspect(page: Path, browser: Browser) -> None:
    browser.show(page)
    played = browser.run(
        """(async () => {
          const audio = document.querySelector("audio");
          await audio.play();
          await new Promise(done => audio.ontimeupdate = () => audio.currentTime > 0.1 && done());
          audio.pause();
          return audio.duration;
        })()"""
    )
    assert played == pytest.approx(6 * (0.3 + 0.05 * len("row 11 word word ")), abs=0.1)
    assert browser.errors == []
