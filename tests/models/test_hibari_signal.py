"""The signal stage against hibari's own, with the same noise."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hibari import dsp
from numpy.typing import NDArray

from batchtts.models.hibari.layout import FRAME_GAP, make_layout
from batchtts.models.hibari.model import HibariModel
from batchtts.models.hibari.network import PARTS
from batchtts.models.hibari.signal import NOISE_ROWS, noise_rows
from tests.models.hibari_voice import model

COUNTS = (6, 40, 300)
"""Frames of the sequences; six is the least that a sentence can have."""


def spectra(chance: np.random.Generator, frames: int) -> NDArray[np.float32]:
    """Spectral parts [5, 601, frames] of about the size of speech."""
    parts = chance.standard_normal((5, 601, frames), dtype=np.float32)
    level = np.array([1, -1, -1], np.float32)[:, None, None]
    parts[[0, 2, 3]] = 0.5 * parts[[0, 2, 3]] + level
    return parts


def pitches(chance: np.random.Generator, frames: int) -> NDArray[np.float32]:
    """Hz [frames]: a voiced stretch that moves, with an unvoiced one inside."""
    hertz = 180 + 40 * np.sin(np.linspace(0, 6, frames)) + chance.standard_normal(frames)
    hertz[frames // 3 : frames // 2] = chance.uniform(-5, 60)
    return hertz.astype(np.float32)


def reference(
    parts: NDArray[np.float32], hertz: NDArray[np.float32], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """hibari's own waveform [frames * 300] with the noise of these rows."""
    noise = model()._signal.noise.numpy()[rows]
    drawn = np.stack([noise[:, 0].T, noise[:, 1].T], -1).reshape(601, -1)
    rng = SimpleNamespace(standard_normal=lambda shape, dtype: drawn.astype(dtype).reshape(shape))
    wave: NDArray[np.float32] = dsp.synth(*parts, hertz, rng)
    return wave


@pytest.mark.parametrize("limit", [64, 1000])
def test_a_packed_stream_sounds_as_hibari_alone(limit: int) -> None:
    chance = np.random.default_rng(3)
    parts = [spectra(chance, n) for n in COUNTS]
    hertz = [pitches(chance, n) for n in COUNTS]
    noise = [noise_rows((7, place), n) for place, n in enumerate(COUNTS)]
    layout = make_layout(
        [np.ones(1, np.int64)] * 3, [np.array([n // 2]) for n in COUNTS], zero_row=0
    )
    missing = len(layout.frame_taps) - sum(COUNTS) - 3 * FRAME_GAP
    gaps = (FRAME_GAP, FRAME_GAP, FRAME_GAP + missing)
    behind = [(0, gap) for gap in gaps]
    stream = np.concatenate(
        [np.pad(p, ((0, 0), (0, 0), gap)) for p, gap in zip(parts, behind, strict=True)], -1
    )
    pitch = np.concatenate([np.pad(h, gap) for h, gap in zip(hertz, behind, strict=True)])
    rows = np.concatenate([np.pad(n, gap) for n, gap in zip(noise, behind, strict=True)])
    ordered = torch.from_numpy(stream.transpose(2, 0, 1)[:, list(PARTS)].copy())

    voice = HibariModel.__new__(HibariModel)
    voice._device, voice._signal = torch.device("cpu"), model()._signal
    # The network's place is taken by one that gives each frame the parts made up here.
    voice._network = SimpleNamespace(spectrum=lambda rows: ordered[rows[:, 0].long()])  # type: ignore[assignment]
    with torch.inference_mode():
        frames = torch.arange(len(pitch), dtype=torch.float32)[:, None]
        sound = voice._sound(frames, torch.from_numpy(pitch), layout, rows, limit)
    waves = np.split(sound.numpy().reshape(-1), 300 * np.cumsum(COUNTS)[:-1])
    for wave, own_parts, own_hertz, own_noise in zip(waves, parts, hertz, noise, strict=True):
        expected = reference(own_parts, own_hertz, own_noise)
        assert expected.std() > 0.01
        difference = np.abs(wave - expected)
        assert np.median(difference) < 2e-6
        assert difference.max() < 3e-3  # one harmonic more or less where 11 kHz / pitch is whole


def test_each_seed_walks_the_noise_in_its_own_order() -> None:
    walks = [noise_rows((seed, 0), NOISE_ROWS) for seed in range(20)]
    for walk in walks:
        assert len(set(walk.tolist())) == NOISE_ROWS
    assert len({tuple(walk[:8]) for walk in walks}) == len(walks)
    assert noise_rows((3, 0), 100).tolist() == walks[3][:100].tolist()
    assert noise_rows((3, 1), 100).tolist() != walks[3][:100].tolist()


def test_the_noise_is_white() -> None:
    noise = model()._signal.noise
    assert abs(float(noise.mean())) < 1e-3
    assert abs(float(noise.std()) - 1) < 1e-3
