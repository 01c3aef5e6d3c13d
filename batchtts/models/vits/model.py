"""The contract's `Model` for every VITS: features -> audio, one ragged row for the whole batch."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from batchtts.models.base import Audio, Features
from batchtts.models.vits.features import MAX_SIZE, Speech, dummy_features
from batchtts.models.vits.network import Latents, Network, Sentence
from batchtts.models.vits.weights import Geometry, Tensors, Weights

TILES = {"cpu": (128, 32), "cuda": (4096, 512)}
"""Frames that the decoder takes at once, and the step to which the last tile is rounded up."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a sentence stands in the samples of a batch."""

    utterance: int
    start: int
    end: int
    is_cut: bool


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
        self._network = Network(Weights(tensors, geometry, self._device), torch.float32)
        self._num_symbols = len(self._network.text.embedding)

    def dummy(self, size: int) -> Features:
        """See `batchtts.models.base.Model`."""
        return dummy_features(size, range(min(self._num_symbols, 16)))

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        """See `batchtts.models.base.Model`."""
        return self.submit(batch)()

    def submit(self, batch: Sequence[Features], pcm16: bool = False) -> Callable[[], list[Audio]]:
        """See `batchtts.models.base.Model`."""
        tile, step = TILES[self._device.type]
        return self._submit(batch, pcm16, tile, step)

    def synthesize_in_chunks(self, features: Features) -> Audio:
        """See `batchtts.models.base.Model`: the decoder in its smallest tiles."""
        step = TILES[self._device.type][1]
        return self._submit([features], False, step, step)()[0]

    @torch.inference_mode()
    def _submit(
        self, batch: Sequence[Features], pcm16: bool, tile: int, step: int
    ) -> Callable[[], list[Audio]]:
        sentences, utterances = _sentences(batch)
        speeches = [features.data for features in batch]
        if not sentences:
            return lambda: self._join(speeches, np.zeros(0, np.float32), [])
        with _tf32(self.precision == "tf32"):
            latents = self._network.latents(sentences)
            wave = self._decode(latents, pcm16, tile, step)
        hop = self._network.decoder.hop
        cuts = [
            Cut(utterance, int(start) * hop, int(start + length) * hop, bool(is_cut))
            for utterance, start, length, is_cut in zip(
                utterances, latents.rows.starts, latents.rows.lengths, latents.is_cut, strict=True
            )
        ]
        fetch = _start_download(wave)
        return lambda: self._join(speeches, fetch(), cuts)

    def _decode(self, latents: Latents, pcm16: bool, tile: int, step: int) -> torch.Tensor:
        """Samples of the whole row, [count * hop], float32 or int16."""
        decoder = self._network.decoder
        waves = []
        for part in decoder.tiles(latents.z, latents.rows, tile, step):
            wave = decoder(part, latents.speaker)
            waves.append((wave * 32767).round_().to(torch.int16) if pcm16 else wave)
        return torch.cat(waves)

    def _join(
        self, speeches: Sequence[Speech], wave: NDArray[np.generic], cuts: Sequence[Cut]
    ) -> list[Audio]:
        """Cut the row into sentences and join those of each utterance."""
        parts: list[list[NDArray[np.generic]]] = [[] for _ in speeches]
        limited = {cut.utterance for cut in cuts if cut.is_cut}
        for cut in cuts:
            speech = speeches[cut.utterance]
            if parts[cut.utterance] and speech.pause:
                silence = np.zeros(round(speech.pause * self.sample_rate), wave.dtype)
                parts[cut.utterance].append(silence)
            parts[cut.utterance].append(wave[cut.start : cut.end])
        return [
            Audio(
                wave=np.concatenate(pieces) if pieces else wave[:0],
                finish="empty" if not pieces else "limit" if number in limited else "ok",
            )
            for number, pieces in enumerate(parts)
        ]


def _sentences(batch: Sequence[Features]) -> tuple[list[Sentence], list[int]]:
    """All sentences of a batch, and the number of the utterance that each belongs to."""
    sentences, utterances = [], []
    for number, features in enumerate(batch):
        speech: Speech = features.data
        for part, ids in enumerate(speech.sentences):
            utterances.append(number)
            sentences.append(
                Sentence(
                    ids=ids,
                    seed=features.seed,
                    part=part,
                    speaker=speech.speaker,
                    length_scale=speech.length_scale,
                    noise_scale=speech.noise_scale,
                    noise_w=speech.noise_w,
                )
            )
    return sentences, utterances


def _tf32(allowed: bool) -> AbstractContextManager[None]:
    """Let the decoder's convolutions, and nothing else, round to TF32."""
    return torch.backends.cudnn.flags(allow_tf32=allowed)


def _start_download(wave: torch.Tensor) -> Callable[[], NDArray[np.generic]]:
    """Start the copy to the host; the answer waits for it, in whatever thread."""
    if wave.device.type == "cpu":
        return wave.numpy
    host = torch.empty(wave.shape, dtype=wave.dtype, pin_memory=True)
    host.copy_(wave, non_blocking=True)
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()

    def fetch() -> NDArray[np.generic]:
        done.synchronize()
        return host.numpy()

    return fetch
