"""Listens to the files of a folder: what is said in them, and how they sound; remembers both."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from batchtts import mos
from batchtts.asr import AsrChoice, Listener
from batchtts.data import Record
from batchtts.heard import Finding, Hearing, Judge
from batchtts.models.base import Waveform
from batchtts.notebook import Notebook
from batchtts.wer import score

Progress = Callable[[str, int, int], None]
"""Told of each step: what is being done, how many are done, how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """A file that can be listened to, with the row that it belongs to."""

    record: Record
    path: Path
    crc32: str
    """Of the file's bytes: under this its findings are remembered."""


class Ear:
    """A recogniser that remembers what it heard."""

    def __init__(self, choice: AsrChoice, notebook: Notebook, progress: Progress) -> None:
        """Load the recogniser.

        Raises:
            UsageError: there is none, or it does not load.
            MissingExtraError: faster-whisper is not installed.
        """
        self._listener = Listener(choice)
        self._name = choice.identity()
        self._notebook = notebook
        self._progress = progress

    def knows(self, take: Take) -> bool:
        """Whether it can hear the language of this file."""
        return self._listener.knows(take.record.lang)

    def judge(
        self, takes: Sequence[Take], texts: Mapping[str, tuple[str, str]]
    ) -> tuple[dict[str, Finding], dict[str, str]]:
        """Hear all, judge them against all texts, and hear the doubtful ones again with care.

        Args:
            takes: what is listened to, in languages that it knows.
            texts: id -> (text, language) of every row of the folder.

        Returns:
            by id: why a file does not say its text; by id: what was heard.
        """
        by_id = {take.record.id: take for take in takes}
        heard = self.hear(takes, careful=False)
        judge = Judge(texts)
        doubtful = [by_id[id] for id in judge.judge(_hearings(by_id, heard))]
        for id, text in self.hear(doubtful, careful=True).items():
            heard[id] = _better(by_id[id].record, heard[id], text)
        return judge.judge(_hearings({take.record.id: take for take in doubtful}, heard)), heard

    def hear(self, takes: Sequence[Take], *, careful: bool) -> dict[str, str]:
        """Write down what is said in each file, by id."""
        stage = "hearing again" if careful else "hearing"
        heard: dict[str, str] = {}
        todo: dict[str, list[Take]] = defaultdict(list)
        for take in takes:
            known = self._notebook.get(take.crc32, self._page(take, careful))
            if known is None:
                todo[take.record.lang].append(take)
            else:
                heard[take.record.id] = known
        for lang, group in todo.items():
            group.sort(key=lambda take: -take.record.duration)  # alike lengths share a batch
            for start in range(0, len(group), self._listener.batch):
                self._progress(stage, len(heard), len(takes))
                some = group[start : start + self._listener.batch]
                said = self._listener.hear([load(t.path) for t in some], lang, careful=careful)
                for take, text in zip(some, said, strict=True):
                    self._notebook.put(take.crc32, self._page(take, careful), text)
                    heard[take.record.id] = text
        self._progress(stage, len(heard), len(takes))
        return heard

    def _page(self, take: Take, careful: bool) -> str:
        return f"heard:{self._name}:{take.record.lang}{':careful' if careful else ''}"


def rate(
    takes: Sequence[Take], notebook: Notebook, progress: Progress
) -> dict[str, dict[str, float]]:
    """Score how each file sounds: id -> opinion scores, see `mos.MosScore`.

    Raises:
        MissingExtraError: the extra `qc` is not installed.
    """
    judge = mos.Judge()
    scores: dict[str, dict[str, float]] = {}
    for take in takes:
        progress("scoring", len(scores), len(takes))
        known = notebook.get(take.crc32, "mos")
        if known is None:
            known = judge.rate(load(take.path)).as_dict()
            notebook.put(take.crc32, "mos", known)
        scores[take.record.id] = known
    progress("scoring", len(scores), len(takes))
    return scores


def load(path: Path) -> Waveform:
    """The samples of a file at the rate that the networks hear, float32 [num_samples]."""
    import soundfile

    samples, sample_rate = soundfile.read(path, dtype="float32", always_2d=True)
    return mos.at_16k(samples.mean(axis=1), sample_rate)


def _hearings(by_id: Mapping[str, Take], heard: Mapping[str, str]) -> dict[str, Hearing]:
    return {
        id: Hearing(text=take.record.text, heard=heard[id], lang=take.record.lang)
        for id, take in by_id.items()
    }


def _better(record: Record, quick: str, careful: str) -> str:
    """Of two hearings the one that is nearer to the text: it is the file's right to be understood."""
    return min(careful, quick, key=lambda heard: score(record.text, heard, record.lang).errors)
