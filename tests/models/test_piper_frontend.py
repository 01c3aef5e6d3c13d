"""Phoneme ids equal to piper's own, and nothing dropped in silence."""

import csv
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchtts.errors import VoiceError
from batchtts.models.base import Features, Item, TooLongError, UnspeakableError
from batchtts.models.piper import adapter, espeak
from batchtts.models.piper.frontend import PiperFrontend
from tests.conftest import CASES

pytest.importorskip("piper")

ODD = [
    "Dr. Smith paid $5.50, i.e. too much.",
    "He said: “no; never”… Really?! Yes",
    "a [[ b ]] c. d",
    "[[ həlˈoʊ ]]",
    "Two. [[ wˈʌn ]]. Three [[ fˈoːɹ ]]",
    "naïve café, Łódź — 3 – 4 (or 5)",
    "π r², 10 %, 5 € & 20 °C",
    "Items: apple, pear; plum",
    "It's 7:05 a.m. on 1/2/2024",
    "www.example.com, me@example.com",
    "😀 fine",
    "x",
]


def texts() -> list[str]:
    """A few hundred: of the cases, odd ones, and short ones in a row."""
    rows = [row for name in CASES.glob("C*.csv") for row in _rows(name)]
    return [*ODD, *rows, *(" ".join(rows[k : k + 3]) for k in range(0, len(rows) - 3, 2))]


def _rows(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [row["text"].replace("\x00", "") for row in csv.DictReader(file) if row["text"]]
    except (UnicodeError, KeyError, csv.Error):
        return []


@pytest.fixture
def frontend(joe: str) -> PiperFrontend:
    found = adapter.frontend(joe)
    assert isinstance(found, PiperFrontend)
    return found


def item(text: str, **changes: Any) -> Item:
    return Item(text=text, voice="v", **changes)


def ids(frontend: PiperFrontend, text: str) -> list[list[int]]:
    return [list(sentence) for sentence in frontend.prepare(item(text)).data.sentences]


def test_ids_are_those_of_piper(frontend: PiperFrontend) -> None:
    from piper.phoneme_ids import phonemes_to_ids
    from piper.voice import PiperVoice

    class OnlyText(PiperVoice):
        def __init__(self, config: Any) -> None:
            self.config = config

    from piper.config import PiperConfig

    path = frontend.voice.path
    config = json.loads(path.with_name(f"{path.name}.json").read_text())
    truth = OnlyText(PiperConfig.from_dict(config))
    compared = 0
    for text in texts():
        try:
            mine = ids(frontend, text)
        except (UnspeakableError, TooLongError):
            continue
        theirs = [
            phonemes_to_ids(sentence, truth.config.phoneme_id_map)
            for sentence in truth.phonemize(text)
            if any(symbol.strip() for symbol in sentence)
        ]
        assert mine == theirs, text
        compared += 1
    assert compared > 200
    assert espeak.read("en-us", "x")  # piper set the voice behind our back, to the same one


def test_blanks_stand_after_the_start_and_after_every_symbol(frontend: PiperFrontend) -> None:
    symbols = frontend.voice.symbols
    (sentence,) = ids(frontend, "[[ nɛɪ ]]")
    assert sentence == [i for symbol in "^_n_ɛ_ɪ_$" for i in symbols[symbol]]


def test_unknown_symbols_are_dropped_and_counted(frontend: PiperFrontend) -> None:
    """A voice without the syllabic mark of "button": rhasspy/piper issue 124."""
    known = {symbol: i for symbol, i in frontend.voice.symbols.items() if symbol != "\u0329"}
    poorer = PiperFrontend(replace(frontend.voice, symbols=known))
    with (CASES / "C36_unknown_phoneme.csv").open(encoding="utf-8") as file:
        rows = {row["id"]: row["text"] for row in csv.DictReader(file)}
    for name, count in {"u1": 1, "u2": 2, "u3": 1, "u4": 0}.items():
        features = poorer.prepare(item(rows[name]))
        assert features.notes.get("dropped_symbols", 0) == count
        assert features.notes.get("unknown_symbols", "") == "\u0329" * bool(count)
        assert frontend.prepare(item(rows[name])).size == features.size + 2 * count
        assert not frontend.prepare(item(rows[name])).notes


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("안녕 Joe", "안 녕"),
        ("你好, 世界", "你 好 世 界"),
        ("Ж", "Ж"),
        ("Καλημέρα", "Κ α λ η μ έ ρ"),
        ("مرحبا", "م ر ح ب ا"),
        ("ok ₿5 ①", "₿ ①"),
        ("Ｆull", "Ｆ"),
    ],
)
def test_what_it_would_misread_is_refused_by_name(
    text: str, what: str, frontend: PiperFrontend
) -> None:
    with pytest.raises(UnspeakableError) as caught:
        frontend.prepare(item(text))
    assert caught.value.what == what


@pytest.mark.parametrize("text", ["", " ", "...", "?!", "—", "“”", "()"])
def test_nothing_to_speak_is_said(text: str, frontend: PiperFrontend) -> None:
    with pytest.raises(UnspeakableError, match="nothing to speak"):
        frontend.prepare(item(text))


@pytest.mark.parametrize("text", ["2 π r", "µ", "ª", "señor Łukasz", "5 € & ½ °", "👍"])
def test_signs_that_it_reads_are_let_through(text: str, frontend: PiperFrontend) -> None:
    assert frontend.prepare(item(text)).size > 5


def test_languages_must_agree(frontend: PiperFrontend) -> None:
    for good in ("", "en", "en-GB", "EN_us"):
        frontend.prepare(item("Yes.", lang=good))
    with pytest.raises(VoiceError, match="joe-medium speaks en-US, the row asks for 'ko'"):
        frontend.prepare(item("Yes.", lang="ko"))


def test_options_and_speed_reach_the_model(frontend: PiperFrontend) -> None:
    plain = frontend.prepare(item("Yes.", seed=5))
    assert plain.seed == 5
    assert plain.data.length_scale == 1.0
    options = {"noise_scale": 0, "noise_w": 0.1, "length_scale": 1.5, "sentence_silence": 0.2}
    data = frontend.prepare(item("Yes.", speed=2.0, options=options)).data
    assert (data.noise_scale, data.noise_w, data.length_scale, data.pause) == (0, 0.1, 0.75, 0.2)
    for wrong in ("loud", -1, True, 11, None):
        with pytest.raises(VoiceError, match=r"noise_scale: .* is not a number from 0 to 10"):
            frontend.prepare(item("Yes.", options={"noise_scale": wrong}))
    with pytest.raises(VoiceError, match="no speaker 7"):
        frontend.prepare(item("Yes.", options={"speaker": 7}))


def test_a_text_that_is_too_long_is_given_back(frontend: PiperFrontend) -> None:
    with pytest.raises(TooLongError) as caught:
        frontend.prepare(item("and so on " * 200))
    assert caught.value.size > caught.value.limit == 2000


def test_two_languages_do_not_disturb_each_other(frontend: PiperFrontend) -> None:
    """espeak-ng has one voice for the whole process: bootphon/phonemizer issue 116."""
    german = PiperFrontend(replace(frontend.voice, espeak_voice="de", language="de-DE"))
    with (CASES / "C64_two_langs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    pairs = [
        (german if row["lang"] == "de" else frontend, row["text"])
        for row in rows
        if row["lang"] != "ko"
    ]
    alone = [ids(*pair) for pair in pairs]
    assert alone[0] == alone[-1] != alone[1]
    with ThreadPoolExecutor(4) as pool:
        for k, found in enumerate(pool.map(lambda pair: ids(*pair), pairs * 100)):
            assert found == alone[k % len(pairs)]


def test_thousands_of_calls_hold_nothing(frontend: PiperFrontend) -> None:
    """A backend made per call ran out of handles: bootphon/phonemizer issue 94."""

    def held() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    for number in range(100):
        frontend.prepare(item(f"Item number {number} is ready."))
    before = held()
    for number in range(100, 2000):
        frontend.prepare(item(f"Item number {number} is ready."))
    assert held() == before


@pytest.fixture
def spelled(frontend: PiperFrontend) -> PiperFrontend:
    """A voice that reads letters, as Piper's `text` voices do."""
    symbols = {symbol: (number,) for number, symbol in enumerate("_^$ .,abcdeh한글\u0301")}
    jamo = {symbol: (30 + number,) for number, symbol in enumerate("\u1112\u1161\u11ab\u1100")}
    voice = replace(frontend.voice, phoneme_type="text", symbols=symbols | jamo)
    return PiperFrontend(voice)


def test_text_voices_read_letters(spelled: PiperFrontend) -> None:
    assert ids(spelled, "a b.") == [[1, 0, 6, 0, 3, 0, 7, 0, 4, 0, 2]]
    assert ids(spelled, "A") == ids(spelled, "a")
    assert ids(spelled, "é") == ids(spelled, "e\u0301")
    assert ids(spelled, "한") == [[1, 0, 30, 0, 31, 0, 32, 0, 2]]
    noted: Features = spelled.prepare(item("a; b"))
    assert noted.notes == {"dropped_symbols": 1, "unknown_symbols": ";"}
    with pytest.raises(UnspeakableError, match="4 x €"):
        spelled.prepare(item("a 4 x €"))
    with pytest.raises(UnspeakableError, match="nothing to speak"):
        spelled.prepare(item(".,"))


def test_the_front_end_needs_no_torch(joe: str) -> None:
    code = (
        "import sys; from batchtts.models.piper import adapter; from batchtts.models.base import *;"
        f"adapter.precisions('cpu'); adapter.voice({joe!r});"
        f"adapter.frontend({joe!r}).prepare(Item(text='Yes.', voice=''));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_clusters_are_merged(frontend: PiperFrontend) -> None:
    clusters = frozenset({("a", "ɪ"), ("o", "ʊ")})
    symbols = {**frontend.voice.symbols, "aɪ": (161,), "oʊ": (165,)}
    merging = PiperFrontend(replace(frontend.voice, clusters=clusters, symbols=symbols))
    (sentence,) = ids(merging, "My home")
    assert 161 in sentence
    assert 165 in sentence
    assert len(sentence) == len(ids(frontend, "My home")[0]) - 4
