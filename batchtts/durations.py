"""Which files are too long or too short for their text, compared with the rest of their voice?

No expectation of the model is needed: the run itself shows how long its texts take. A line is laid
through the medians of equally full bins of text length, so that runaways do not pull it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchtts.data import Record

Numbers = NDArray[np.float64]

FEWEST = 30
"""Files of a voice from which it can be judged."""
BINS = 12
SLACK = 0.4
"""Seconds added to both sides before they are compared: short texts vary more."""
SPREADS = 5.0
"""Robust standard deviations that a good file may be away."""
LEAST_RATIO = 1.4
"""However alike the files of a voice are, this much longer or shorter is not yet wrong."""
SPOKEN_AS = (
    (re.compile(r"(?<=\d),0+"), "thousand"),
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), "hundred thousand"),
    (re.compile(r"(?<=[1-9])0+\b"), ""),
    (re.compile(r"\d"), "five"),
    (re.compile(r"[$€£%]"), "percent"),
    (re.compile(r"[^\w]"), ""),
)
"""What is written short and spoken long, with a word of about the right length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A file whose duration does not fit its text."""

    duration: float
    """Seconds."""
    expected: float
    """Seconds that such a text takes in this voice."""

    def __str__(self) -> str:
        way = "long" if self.duration > self.expected else "short"
        return f"too {way}: {self.duration:.2f} s, such a text takes {self.expected:.2f} s"


def spoken_length(text: str) -> int:
    """How much there is to say, in characters: numbers count as the words that they are."""
    for written, spoken in SPOKEN_AS:
        text = written.sub(spoken, text)
    return len(text)


def outliers(records: Iterable[Record]) -> dict[str, Outlier]:
    """The records whose duration does not fit, by id; only voices with enough files are judged."""
    voices: Mapping[tuple[str, float], list[Record]] = defaultdict(list)
    for record in records:
        if record.status == "ok" and record.duration > 0:
            voices[record.voice, record.speed].append(record)
    found: dict[str, Outlier] = {}
    for group in voices.values():
        if len(group) >= FEWEST:
            found |= _outliers_of_voice(group)
    return found


def _outliers_of_voice(group: list[Record]) -> dict[str, Outlier]:
    lengths = np.array([spoken_length(record.text) for record in group], float)
    seconds = np.array([record.duration for record in group])
    expected = _fit(lengths, seconds)
    away = np.log((seconds + SLACK) / (expected + SLACK))
    away -= np.median(away)
    spread = 1.4826 * float(np.median(np.abs(away)))
    wrong = np.abs(away) > max(SPREADS * spread, float(np.log(LEAST_RATIO)))
    return {
        group[at].id: Outlier(duration=group[at].duration, expected=float(expected[at]))
        for at in np.flatnonzero(wrong)
    }


def _fit(lengths: Numbers, seconds: Numbers) -> Numbers:
    """Expected seconds of each text, [num_files]: a line through the medians of the bins."""
    order = np.argsort(lengths, kind="stable")
    bins = np.array_split(order, min(BINS, len(order) // 5))
    x = np.array([np.median(lengths[part]) for part in bins])
    y = np.array([np.median(seconds[part]) for part in bins])
    if np.ptp(x) == 0:
        return np.full(len(lengths), float(np.median(seconds)))
    slope, start = np.polyfit(x, y, 1)
    # Below the shortest bin the line may cross zero; nothing takes no time.
    expected: Numbers = np.maximum(start + slope * lengths, 0.1)
    return expected
