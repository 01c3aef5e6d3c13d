from pathlib import Path

import numpy as np
import pytest
import soundfile

from batchtts import mos
from batchtts.errors import MissingExtraError
from batchtts.models.base import Waveform


@pytest.fixture(scope="module")
def speech() -> Waveform:
    import hibari

    wave: Waveform = hibari.Hibari()("The river rose by two meters in a single night.", seed=1)
    return wave


def test_noise_on_speech_costs_score(speech: Waveform, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).standard_normal(len(speech)).astype(np.float32)
    soundfile.write(tmp_path / "clean.wav", speech, 24_000)
    soundfile.write(tmp_path / "noisy.wav", np.clip(speech + 0.1 * noise, -1, 1), 24_000)
    clean, noisy = mos.score([tmp_path / "clean.wav", tmp_path / "noisy.wav"])
    assert clean.overall > 2.8
    assert noisy.overall < clean.overall - 1
    assert noisy.background < clean.background - 1
    assert set(clean.as_dict()) == {"signal", "background", "overall"}


def test_long_audio_is_judged_by_a_bounded_number_of_windows(speech: Waveform) -> None:
    long = np.tile(speech, 20)
    assert mos.Judge().rate(long).overall > 2.5


@pytest.mark.parametrize("missing", ["speechmos", "onnxruntime"])
def test_a_missing_part_names_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    if missing == "speechmos":
        monkeypatch.setattr("batchtts.mos.find_spec", lambda _: None)
    else:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"batchtts\[qc\]"):
        mos.Judge()
