"""Random deaths of workers and of the run itself: nothing is lost, doubled or broken."""

import random
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests import night
from tests.conftest import ROOT

ROWS = 400
WORK = {"item_seconds": 0.01, "load_seconds": 0.05}
"""Two seconds of work for two workers."""
PARENT_SHARE = 0.25
"""Of the kills; the others meet a worker, where there is one yet."""
WORKING_SHARE = 0.8
"""Of the runs: the killing begins when a worker is ready; in the others, at once."""
ORPHAN_SECONDS = 2.0
TOLERANCE = 1e-2
"""Of the real voice's samples when other utterances share their batch; 2e-3 was seen."""


@dataclass
class Chaos:
    """Starts a run again and again, and kills what belongs to it at random moments."""

    command: list[str]
    folder: Path
    chance: random.Random
    rows: int
    most_pause: float
    """Seconds between two kills at most."""
    fake: dict[str, object] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    slowest_orphan: float = 0.0
    """Seconds until the last worker of a killed run was gone."""

    def rage(self, kills: int) -> None:
        """Run until so many were killed, then once in peace."""
        while self.kills.total() < kills:
            if len(night.records(self.folder)) == self.rows:
                shutil.rmtree(self.folder)  # nothing would be left to disturb
            self._start(min(kills - self.kills.total(), self.chance.randint(1, 4)))
        done = subprocess.run(
            self.command,
            env=night.environment(self.fake),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def _start(self, kills: int) -> None:
        log = self.folder.with_suffix(".err")
        with (
            log.open("wb") as errors,
            subprocess.Popen(self.command, env=night.environment(self.fake), stderr=errors) as run,
        ):
            if self.chance.random() < WORKING_SHARE:
                night.wait_for(
                    lambda: "is ready" in night.log(self.folder) or run.poll() is not None
                )
            for _ in range(kills):
                time.sleep(self.chance.uniform(0.0, self.most_pause))
                if run.poll() is not None:
                    break
                if self._kill_one(run):
                    return
            run.wait(600)
        assert run.returncode == 0, log.read_text(encoding="utf-8")

    def _kill_one(self, run: "subprocess.Popen[bytes]") -> bool:
        """Kill a worker, or the run; True when the run is dead."""
        below = night.descendants(run.pid)
        workers = [pid for pid in below if b"spawn_main" in night.command_line(pid)]
        if workers and self.chance.random() > PARENT_SHARE:
            night.kill(self.chance.choice(workers))
            self.kills["worker"] += 1
            return False
        run.kill()
        run.wait()
        self.kills["run"] += 1
        alive = [pid for pid in below if night.is_alive(pid)]
        gone = night.wait_for(
            lambda: not [pid for pid in alive if night.is_alive(pid)], ORPHAN_SECONDS
        )
        self.slowest_orphan = max(self.slowest_orphan, gone)
        return True


def campaign(tmp_path: Path, seed: int, kills: int) -> Chaos:
    """A job of the fake voice that meets so many deaths, and its check."""
    source = night.write_rows(tmp_path / f"{seed}.csv", ROWS)
    folder = tmp_path / f"out-{seed}"
    command = night.command(source, folder)
    chaos = Chaos(command, folder, random.Random(seed), ROWS, most_pause=1.5, fake=dict(WORK))
    chaos.rage(kills)
    night.check_folder(folder, [f"u{n:04}" for n in range(ROWS)])
    return chaos


def test_a_few_deaths_cost_nothing(tmp_path: Path) -> None:
    assert campaign(tmp_path, 1, 6).kills.total() == 6


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_deaths_cost_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kills: Counter[str] = Counter()
    slowest, seed = 0.0, 100
    while kills.total() < 200:
        seed += 1
        chaos = campaign(tmp_path, seed, 10)
        kills += chaos.kills
        slowest = max(slowest, chaos.slowest_orphan)
    with capsys.disabled():
        print(f"\nkilled {dict(kills)} in {seed - 100} jobs of {ROWS} rows")  # noqa: T201
        print(f"a killed run's workers were gone within {slowest:.2f} s")  # noqa: T201


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_deaths_do_not_change_what_the_real_voice_says(tmp_path: Path) -> None:
    demo = str(ROOT / "configs/demo.csv")
    peaceful, raging = tmp_path / "peace", tmp_path / "rage"
    options = ["--devices", "cpu,cpu", "--batch-size", "4", "--limit", "30"]
    command = [night.BATCHTTS, "generate", demo, "-o"]
    subprocess.run([*command, str(peaceful), *options], timeout=900, check=True)
    command += [str(raging), *options]
    chaos = Chaos(command, raging, random.Random(7), 30, most_pause=20.0)
    chaos.rage(4)
    wanted, found = night.records(peaceful), night.records(raging)
    assert list(found) == list(wanted)
    for id, record in found.items():
        assert record.status == "ok"
        one, _ = soundfile.read(peaceful / wanted[id].file)
        other, _ = soundfile.read(raging / record.file)
        assert len(one) == len(other)
        assert np.abs(one - other).max() < TOLERANCE, id
    assert night.unfinished(raging) == []
