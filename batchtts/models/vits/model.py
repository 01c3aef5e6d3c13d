"""The contract's `Model` for every VITS: features -> audio, one ragged row for the whole batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from batchtts.models.base import Audio, Features
from batchtts.models.transfer import download
from batchtts.models.vits.features import MAX_SIZE, Speech, dummy_features
from batchtts.models.vits.network import Latents, Network, Sentence
from batchtts.models.vits.weights import Geometry, Tensors, Weights

TILES = {"cpu": (256, 32), "cuda": (4096, 512)}
"""Frames that the decoder takes at once, and the step to which the last tile is rounded up."""


class VitsModel:
    """See `batchtts.models.base.Model`."""

    ragged = True
    max_size = MAX_SIZE

    def __init__(
        self, tensors: Tensors, geometry: Geometry, sample_rate: int, device: str, precision: str
    ) -> None:
        self.sample_rate = sample_rate
        self.precision = precision
        self._device = torch.device(device)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._network = Network(Weights(tensors, geometry, self._device, dtype))

    def dummy(self, size: int) -> Features:
        """See `batchtts.models.base.Model`."""
        return dummy_features(size, self._network.num_symbols)

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        """See `batchtts.models.base.Model`."""
        return self.submit(batch, pcm16=False)()

    def synthesize_in_chunks(self, features: Features) -> Audio:
        """See `batchtts.models.base.Model`: the decoder in its smallest tiles."""
        step = TILES[self._device.type][1]
        (audio,) = self._submit([features], step, step, pcm16=False)()
        return audio

    def submit(self, batch: Sequence[Features], pcm16: bool) -> Callable[[], list[Audio]]:
        """See `batchtts.models.base.Model`."""
        tile, step = TILES[self._device.type]
        return self._submit(batch, tile, step, pcm16)

    def _submit(
        self, batch: Sequence[Features], tile: int, step: int, pcm16: bool
    ) -> Callable[[], list[Audio]]:
        with torch.inference_mode(), _tf32(self.precision == "tf32"):
            latents = self._network.latents(_sentences(batch))
            decoder = self._network.decoder
            tiles = decoder.tiles(latents.z, latents.rows, tile, step)
            row = torch.cat([decoder(part, latents.speaker) for part in tiles])
            waves, is_cut = self._join([features.data for features in batch], row, latents)
            fetch = download(torch.cat(waves), [len(wave) for wave in waves], pcm16)
        return lambda: [
            replace(audio, finish="limit") if cut else audio
            for audio, cut in zip(fetch(), is_cut, strict=True)
        ]

    def _join(
        self, speeches: Sequence[Speech], row: Tensor, latents: Latents
    ) -> tuple[list[Tensor], list[bool]]:
        """The waveform of each utterance, its sentences joined, and whether any was cut."""
        hop = self._network.decoder.hop
        starts, lengths = latents.rows.starts * hop, latents.rows.lengths * hop
        waves, is_cut = [], []
        first = 0
        for speech in speeches:
            silence = row.new_zeros(round(speech.pause * self.sample_rate))
            parts: list[Tensor] = []
            last = first + len(speech.sentences)
            for number in range(first, last):
                parts += [silence] if parts else []
                parts.append(row[starts[number] : starts[number] + lengths[number]])
            waves.append(torch.cat(parts))
            is_cut.append(bool(latents.is_cut[first:last].any()))
            first = last
        return waves, is_cut


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Let convolutions, which only the decoder has, round to TF32; matrix products never do."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _sentences(batch: Sequence[Features]) -> list[Sentence]:
    """The sentences of all utterances, in order."""
    return [
        Sentence(ids=ids, seed=features.seed, part=part, speech=features.data)
        for features in batch
        for part, ids in enumerate(features.data.sentences)
    ]
