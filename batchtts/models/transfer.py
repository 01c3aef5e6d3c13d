"""Between host and device without waiting: inputs up, waveforms down. Trivial on the CPU."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from batchtts.models.base import Audio

PCM16_PEAK = 32767
PCM16_NOT_FINITE = -32768
"""Stands for a sample that is no number; a waveform clipped to [-1, 1] never reaches it."""


def upload(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy an array to the device; on a GPU the copy is queued behind the running work."""
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def download(sound: Tensor, lengths: Sequence[int], pcm16: bool) -> Callable[[], list[Audio]]:
    """Start to fetch the waveforms of a batch.

    Args:
        sound: [num_samples] float32, all waveforms end to end.
        lengths: samples of each waveform.
        pcm16: make 16-bit samples on the device, which halves the copy.

    Returns:
        A function that waits for the copy and cuts it up; any thread may call it.
    """
    if pcm16:
        sound = _to_pcm16(sound)
    if sound.device.type == "cpu":
        return lambda: _cut(sound.numpy(), lengths)
    host = torch.empty_like(sound, device="cpu", pin_memory=True)
    host.copy_(sound, non_blocking=True)
    arrived = torch.cuda.current_stream(sound.device).record_event()

    def wait() -> list[Audio]:
        arrived.synchronize()
        return _cut(host.numpy(), lengths)

    return wait


def _to_pcm16(sound: Tensor) -> Tensor:
    samples = sound.clamp(-1, 1).mul_(PCM16_PEAK).round_()
    return samples.where(sound.isfinite(), PCM16_NOT_FINITE).to(torch.int16)


def _cut(sound: NDArray[np.generic], lengths: Sequence[int]) -> list[Audio]:
    ends = np.cumsum(lengths)[:-1]
    return [_checked(wave) for wave in np.split(sound, ends)]


def _checked(wave: NDArray[np.generic]) -> Audio:
    """Audio that says how many samples were clipped; what is no number stays none, as float32."""
    if wave.dtype == np.int16:
        clipped = np.count_nonzero(np.abs(wave) == PCM16_PEAK)
        lost = wave == PCM16_NOT_FINITE
        if lost.any():
            wave = np.where(lost, np.float32("nan"), wave.astype(np.float32) / PCM16_PEAK)
    else:
        clipped = np.count_nonzero(np.abs(wave) > 1)
        if clipped:
            wave = np.clip(wave, -1, 1)
    return Audio(wave=wave, info={"clipped": int(clipped)} if clipped else {})
