"""A hibari voice on one device: features -> waveforms, a whole batch at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from batchtts.models.base import Audio, Features
from batchtts.models.hibari.features import MAX_SIZE, Spoken, make_dummy
from batchtts.models.hibari.layout import (
    FRAME_GAP,
    FRAME_STEP,
    TEXT_GAP,
    Indices,
    Layout,
    TextLayout,
    make_layout,
    make_text_layout,
    runs,
)
from batchtts.models.hibari.network import HALO, Network, Text
from batchtts.models.hibari.signal import EDGE, FFT, HOP, SAMPLE_RATE, Signal, noise_rows
from batchtts.models.hibari.weights import read_weights
from batchtts.models.transfer import download, upload

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
"""Precision -> number type of the decoder's and the head's linear layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is worked on at once: a matter of speed and memory alone."""

    ids: int
    """Ids in one call of the text encoders."""
    frames: int
    """Frames in one call of the decoder."""
    spectrum: int
    """Frames in one call of the head and the Fourier transforms."""


CPU_SIZES = Sizes(ids=1600, frames=2048, spectrum=128)
"""What stays in the caches of a core."""
GPU_SIZES = Sizes(ids=65_536, frames=65_536, spectrum=16_384)
SMALL_SIZES = Sizes(ids=MAX_SIZE, frames=2048, spectrum=512)
"""For an utterance that does not fit alone."""
MARGIN = -(-HALO // FRAME_STEP) * FRAME_STEP
"""Frames on each side of a window of the decoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sequence of the network; an utterance has one or more."""

    ids: bytes
    speed: float
    seed: tuple[int, int]
    """The utterance's seed and the sentence's place in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """What the text encoders made of all sentences of a batch."""

    products: Tensor
    """[R * 7, 256] for the decoder, those of row 0 are zero."""
    prosody: Tensor
    """[R, 192] for the prosody, row 0 is zero."""
    rows: list[Indices]
    """For each sentence, the rows of its ids."""
    durations: list[Indices]
    """For each sentence, the frames of 25 ms of its ids."""


class HibariModel:
    """The weights on one device."""

    sample_rate = SAMPLE_RATE
    max_size = MAX_SIZE
    ragged = True

    def __init__(self, path: Path, device: str, precision: str) -> None:
        self.precision = precision
        self._device = torch.device(device)
        self._sizes = CPU_SIZES if self._device.type == "cpu" else GPU_SIZES
        with torch.inference_mode():
            parameters = {
                name: torch.from_numpy(value).to(self._device)
                for name, value in read_weights(path).items()
            }
            self._network = Network(parameters, TYPES[precision])
            self._signal = Signal(self._device)

    def dummy(self, size: int) -> Features:
        """Features of exactly this size, at least three."""
        return make_dummy(size)

    def synthesize(self, batch: Sequence[Features]) -> list[Audio]:
        """Speak a batch."""
        return self.submit(batch, pcm16=False)()

    def synthesize_in_chunks(self, features: Features) -> Audio:
        """Speak one utterance in little memory: what grows with it is a few KB per frame."""
        (audio,) = self._submit([features], SMALL_SIZES, pcm16=False)()
        return audio

    def submit(self, batch: Sequence[Features], pcm16: bool) -> Callable[[], list[Audio]]:
        """Start a batch; the returned function waits for its audio."""
        return self._submit(batch, self._sizes, pcm16)

    def _submit(
        self, batch: Sequence[Features], sizes: Sizes, pcm16: bool
    ) -> Callable[[], list[Audio]]:
        spoken: list[Spoken] = [features.data for features in batch]
        sentences = [
            Sentence(ids=ids, speed=data.speed, seed=(features.seed, place))
            for features, data in zip(batch, spoken, strict=True)
            for place, ids in enumerate(data.sentences)
        ]
        with (
            torch.inference_mode(),
            torch.backends.cudnn.flags(enabled=True, allow_tf32=False),
            _tf32(False),
        ):
            encoded = self._encode(sentences, sizes)
            frames = [2 * int(durations.sum()) for durations in encoded.durations]
            sound = torch.cat(
                [
                    self._speak(sentences, encoded, run, sizes)
                    for run in runs(frames, FRAME_GAP, sizes.frames)
                ]
            )
            bounds = np.cumsum([0, *(len(data.sentences) for data in spoken)])
            samples = [HOP * sum(frames[a:b]) for a, b in pairwise(bounds)]
            return download(sound.view(-1), samples, pcm16)

    def _encode(self, sentences: Sequence[Sentence], sizes: Sizes) -> Encoded:
        """Run the text encoders, and fetch all durations at once."""
        lengths = [len(sentence.ids) for sentence in sentences]
        rows: list[Indices] = []
        encoded, prosody, durations = [], [], []
        begin = 1
        for run in runs(lengths, TEXT_GAP, sizes.ids):
            layout = make_text_layout([sentences[i].ids for i in run])
            speed = np.ones(len(layout.ids), np.float32)
            for i, start in zip(run, layout.starts.tolist(), strict=True):
                speed[start : start + lengths[i]] = sentences[i].speed
                rows.append(begin + start + np.arange(lengths[i]))
            begin += len(layout.ids)
            text = self._text(layout)
            encoded.append(self._network.text(text))
            spoken = self._network.prosody_text(text)
            prosody.append(spoken)
            durations.append(self._network.durations(spoken, upload(speed, self._device)))
        ticks = torch.cat(durations).cpu().numpy()
        return Encoded(
            products=self._network.to_decoder(_with_zero_row(encoded)),
            prosody=_with_zero_row([self._network.to_prosody(rows) for rows in prosody]),
            rows=rows,
            durations=[ticks[r - 1] for r in rows],
        )

    def _text(self, layout: TextLayout) -> Text:
        """The stream on the device."""
        masks = [group.mask for group in layout.groups]
        return Text(
            ids=upload(layout.ids, self._device),
            gaps=upload(layout.gaps, self._device),
            shapes=[group.shape for group in layout.groups],
            masks=[m if m is None else upload(m[:, None, None], self._device) for m in masks],
            padded=upload(layout.padded, self._device),
            places=upload(layout.places, self._device),
        )

    def _speak(
        self, sentences: Sequence[Sentence], encoded: Encoded, run: Sequence[int], sizes: Sizes
    ) -> Tensor:
        """Samples [frames, 300] of a run of sentences, end to end."""
        layout = make_layout(
            [encoded.rows[i] for i in run], [encoded.durations[i] for i in run], zero_row=0
        )
        noise = np.zeros(len(layout.frame_taps), np.int64)
        for i, start, count in zip(run, layout.starts, layout.counts, strict=True):
            noise[start : start + count] = noise_rows(sentences[i].seed, int(count))
        pitch, energy = self._prosody(encoded.prosody, layout)
        with _tf32(self.precision == "tf32"):
            decoded = self._decode(encoded.products, pitch, energy, layout, sizes.frames)
            return self._sound(decoded, pitch, layout, noise, sizes.spectrum)

    def _prosody(self, rows: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """Pitch in Hz and energy of each frame of the stream, [N] each, zero in the gaps."""
        stream = rows[upload(layout.prosody_rows, self._device)].unsqueeze(0)
        both = self._network.prosody(stream, upload(layout.prosody_gaps, self._device))
        frames = upload(layout.frame_prosody, self._device)
        pitch, energy = both.transpose(0, 1).flatten(1)[:, frames]
        gaps = upload(layout.frame_gaps, self._device)
        return pitch.mul(100).index_fill_(0, gaps, 0), energy.clone().index_fill_(0, gaps, 0)

    def _decode(
        self, products: Tensor, pitch: Tensor, energy: Tensor, layout: Layout, limit: int
    ) -> Tensor:
        """Pitch and energy [N] and what the text adds -> [N, 256].

        A single long sentence goes through in windows.
        """
        taps = upload(layout.frame_taps, self._device)
        loudness = torch.stack([torch.log1p(pitch.relu()) / 5, energy], 1)
        total, pieces = len(taps), []
        for begin in range(0, total, limit):
            low, high = max(begin - MARGIN, 0), min(begin + limit + MARGIN, total)
            gaps = upload(_within(layout.frame_gaps, low, high), self._device)
            decoded = self._network.decode(products, taps[low:high], loudness[low:high], gaps)
            pieces.append(decoded[begin - low : begin - low + limit])
        return torch.cat(pieces)

    def _sound(
        self, decoded: Tensor, pitch: Tensor, layout: Layout, noise: Indices, limit: int
    ) -> Tensor:
        """Decoded rows [N, 256] and pitch [N] -> samples [frames, 300] without the gaps."""
        signal, total = self._signal, len(decoded)
        starts, counts = (upload(a, self._device) for a in (layout.starts, layout.counts))
        windows = signal.windows(signal.pulses(pitch, starts, counts), starts, counts)
        noise_there = upload(noise, self._device)
        sound = decoded.new_zeros((total + FFT // HOP - 1, HOP))
        for low in range(0, total, limit):
            high = min(low + limit, total)
            parts = self._network.spectrum(decoded[low:high])
            pieces = signal.synthesize(windows[low:high], parts, noise_there[low:high])
            gaps = upload(_within(layout.frame_gaps, low, high), self._device)
            pieces.index_fill_(0, gaps, 0)
            for block, piece in enumerate(pieces.view(high - low, -1, HOP).unbind(1)):
                sound[low + block : high + block] += piece
        signal.finish(sound, starts, counts)
        ends = layout.starts + layout.counts
        return torch.cat(
            [sound[EDGE + a : EDGE + b] for a, b in zip(layout.starts, ends, strict=True)]
        )


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Matrix products of the GPU may or may not round to TF32; what was set before comes back."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _within(rows: Indices, low: int, high: int) -> Indices:
    """Those of the rows that are in [low, high), counted from low."""
    return rows[(rows >= low) & (rows < high)] - low


def _with_zero_row(pieces: Sequence[Tensor]) -> Tensor:
    """The pieces [n, C] end to end behind one row of zeros."""
    return torch.cat([pieces[0].new_zeros((1, pieces[0].shape[1])), *pieces])
