from io import BytesIO

import numpy as np
import pytest
import soundfile

from batchtts.measure import faults, measure, repeat_of
from batchtts.models.base import Waveform

RATE = 16_000


def speechlike(seconds: float = 2.0, seed: int = 0) -> Waveform:
    """Noise that rises and falls four times a second, silent at both ends."""
    chance = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    syllables = np.abs(np.sin(2 * np.pi * 2 * time)) ** 3
    edges = np.clip(np.minimum(time, seconds - time) / 0.05 - 0.5, 0, 1)
    noise = chance.standard_normal(len(time), np.float32)
    wave: Waveform = (0.1 * noise * syllables * edges).astype(np.float32)
    return wave


def kinds(wave: Waveform) -> set[str]:
    return {fault.partition(": ")[0] for fault in faults(wave, RATE)}


def test_speech_has_no_fault() -> None:
    assert faults(speechlike(), RATE) == []


def test_each_fault_is_heard() -> None:
    wave = speechlike()
    nan = wave.copy()
    nan[100] = np.nan
    assert kinds(np.zeros(RATE, np.float32)) == {"silence"}
    assert kinds(np.zeros(0, np.float32)) == {"no audio"}
    assert kinds(nan) == {"non-finite audio"}
    assert kinds(np.clip(8 * wave, -0.5, 0.5)) == {"clipped"}
    assert kinds(wave[: round(1.1 * RATE)]) == {"abrupt end"}
    assert kinds(wave[round(0.9 * RATE) :]) == {"abrupt start"}
    assert kinds(np.concatenate([wave, wave])) == {"repeated"}
    tone = 0.2 * np.sin(np.arange(RATE) / 10).astype(np.float32) * np.hanning(RATE) ** 0.01
    assert "steady" in kinds(tone.astype(np.float32))


@pytest.mark.parametrize("lag", [0.5, 1.3, 2.0])
def test_a_repeat_is_found_with_its_lag(lag: float) -> None:
    wave = speechlike(2.0)
    at = round(lag * RATE)
    stuttered = np.concatenate([wave[:at], wave[at - round(0.45 * RATE) :]])
    assert repeat_of(stuttered, RATE) == pytest.approx(0.45, abs=0.001)


def test_two_readings_of_one_text_are_no_repeat() -> None:
    assert repeat_of(np.concatenate([speechlike(seed=1), speechlike(seed=2)]), RATE) == 0


def test_very_short_audio_is_measured() -> None:
    for size in (1, 2, 100, 4000):
        faults(np.full(size, 0.1, np.float32), RATE)


def test_the_header_and_the_bytes_are_told() -> None:
    buffer = BytesIO()
    wave = np.stack([speechlike(), speechlike()], axis=1)
    soundfile.write(buffer, wave, 22_050, format="FLAC")
    found = measure(buffer.getvalue())
    assert (found.sample_rate, found.channels, found.num_samples) == (22_050, 2, len(wave))
    assert found.duration == len(wave) / 22_050
    assert found.bytes == len(buffer.getvalue())
    assert -40 < found.rms_dbfs < found.peak_dbfs < 0


def test_what_is_no_audio_says_why() -> None:
    assert measure(b"RIFF, but not really").error
    assert measure(b"").error
