"""Waveforms on their way down: cut to length, 16-bit where asked for, and honest."""

import numpy as np
import pytest
import torch

from batchtts.models.transfer import download, upload

SOUND = torch.tensor([0.0, 0.5, -1.0, 1.5, -2.0, 0.25])


def test_waveforms_are_cut_and_clipped() -> None:
    first, second = download(SOUND, [2, 4], pcm16=False)()
    assert first.wave.tolist() == [0.0, 0.5]
    assert second.wave.tolist() == [-1.0, 1.0, -1.0, 0.25]
    assert (first.info, second.info) == ({}, {"clipped": 2})


def test_16_bit_samples_are_made_on_the_device() -> None:
    first, second = download(SOUND, [2, 4], pcm16=True)()
    assert first.wave.dtype == second.wave.dtype == np.int16
    assert first.wave.tolist() == [0, 16384]
    assert second.wave.tolist() == [-32767, 32767, -32767, 8192]
    assert second.info["clipped"] == 3


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_does_not_become_one(value: float) -> None:
    sound = torch.tensor([0.5, value, 0.25, 0.5])
    broken, whole = download(sound, [3, 1], pcm16=True)()
    assert broken.wave.dtype == np.float32
    assert np.isfinite(broken.wave).tolist() == [True, False, True]
    assert broken.wave[0] == pytest.approx(0.5, abs=1e-4)
    assert whole.wave.dtype == np.int16


def test_upload_on_the_cpu_copies_nothing() -> None:
    array = np.arange(4)
    assert np.shares_memory(upload(array, torch.device("cpu")).numpy(), array)


@pytest.mark.gpu
def test_the_gpu_gives_the_same() -> None:
    there = upload(SOUND.numpy(), torch.device("cuda:0"))
    for pcm16 in (False, True):
        ours = download(SOUND, [2, 4], pcm16)()
        theirs = download(there, [2, 4], pcm16)()
        for one, other in zip(ours, theirs, strict=True):
            assert one.wave.tolist() == other.wave.tolist()
            assert one.info == other.info
