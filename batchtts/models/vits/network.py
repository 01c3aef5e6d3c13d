"""The whole VITS on a batch of sentences: text -> durations -> prior -> flow -> decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from batchtts.models.transfer import upload
from batchtts.models.vits.decoder import Decoder
from batchtts.models.vits.durations import DurationPredictor
from batchtts.models.vits.features import Speech
from batchtts.models.vits.flow import Flow
from batchtts.models.vits.noise import make_keys, normal
from batchtts.models.vits.rows import Rows, make_rows
from batchtts.models.vits.text import TextEncoder, make_groups
from batchtts.models.vits.weights import Weights

_MAX_FRAMES_PER_ID = 500
"""At normal speed; some 6 s. A voice that breaks down must not eat the memory."""
_MAX_MEAN_FRAMES_PER_ID = 25
"""Over a sentence; speech has 3."""
_FREE_FRAMES = 500
"""What a sentence may last however short it is."""

_DURATION_NOISE, _PRIOR_NOISE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One item of the network's batch."""

    ids: tuple[int, ...]
    seed: int
    """Of its utterance."""
    part: int
    """Its number within the utterance."""
    speech: Speech
    """How to speak it."""


@dataclass(frozen=True, slots=True)
class Latents:
    """What the decoder speaks."""

    z: torch.Tensor
    """[count, channels]"""
    speaker: torch.Tensor | None
    """[num_sentences, speaker width]"""
    rows: Rows
    """Frames of the sentences."""
    is_cut: NDArray[np.bool_]
    """Sentences that reached the limit of frames, [num_sentences]."""


class Network:
    """All weights of a voice on one device."""

    def __init__(self, weights: Weights) -> None:
        self.device = weights.device
        self.text = TextEncoder(weights)
        self.durations = DurationPredictor(weights)
        self.flow = Flow(weights)
        self.decoder = Decoder(weights)
        self.num_symbols = len(self.text.embedding)
        name = "emb_g.weight"
        self.speakers = weights.tensor(name) if name in weights else None
        self.group_area = 0 if self.device.type == "cpu" else 1 << 24
        """Most padded scores of attention at once; a CPU is fastest item by item."""

    def latents(self, sentences: Sequence[Sentence]) -> Latents:
        """Everything before the decoder, for sentences of at least one id each."""
        lengths = np.array([len(s.ids) for s in sentences])
        ids = self._upload([i for s in sentences for i in s.ids])
        owner = self._upload(np.repeat(np.arange(len(lengths)), lengths))
        place = self._upload(np.concatenate([np.arange(n) for n in lengths]))
        speaker = None
        if self.speakers is not None:
            speaker = self.speakers[self._upload([s.speech.speaker for s in sentences])]

        rows = make_rows(lengths, self.text.gap, self.device)
        hidden, stats = self.text(ids, rows, make_groups(rows, self.group_area))
        hidden, stats = hidden[rows.inside], stats[rows.inside]

        frames, is_cut = self._frames(sentences, hidden, speaker, owner, place, lengths)
        sums = np.add.reduceat(frames, np.cumsum(lengths) - lengths)
        frame_rows = make_rows(sums, max(self.flow.gap, self.decoder.gap), self.device)
        source = self._upload(np.repeat(np.arange(len(frames)), frames))
        mean, log_deviation = stats[source].chunk(2, 1)
        item = owner[source]
        position = self._upload(np.concatenate([np.arange(n) for n in sums]))
        keys = make_keys([(s.seed, s.part) for s in sentences], _PRIOR_NOISE, self.device)
        scale = self._column([s.speech.noise_scale for s in sentences])
        noise = normal(keys[item], position, mean.shape[1]) * scale[item]
        z = frame_rows.spread(mean + noise * log_deviation.exp())
        return Latents(self.flow(z, speaker, frame_rows), speaker, frame_rows, is_cut)

    def _frames(
        self,
        sentences: Sequence[Sentence],
        hidden: torch.Tensor,
        speaker: torch.Tensor | None,
        owner: torch.Tensor,
        place: torch.Tensor,
        lengths: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Frames of each id [sum of lengths], and which sentences were cut [num_sentences]."""
        rows = make_rows(lengths, self.durations.gap, self.device)
        keys = make_keys([(s.seed, s.part) for s in sentences], _DURATION_NOISE, self.device)
        spread = self._column([s.speech.noise_w for s in sentences])
        noise = normal(keys[owner], place, 2) * spread[owner]
        log_frames = self.durations(
            rows.spread(hidden),
            None if speaker is None else speaker[rows.owner],
            rows.spread(noise),
            rows,
        )
        scale = self._column([s.speech.length_scale for s in sentences])
        raw = (log_frames[rows.inside].exp() * scale[owner, 0]).ceil()
        # Weights that are broken give no number here; the audio will tell, the layout must not die.
        frames = raw.nan_to_num(1.0).clamp(1, 2**20).long().cpu().numpy()
        return cap_frames(frames, lengths, np.array([s.speech.length_scale for s in sentences]))

    def _upload(self, values: Sequence[int] | NDArray[np.int64]) -> torch.Tensor:
        """int64 on the device."""
        return upload(np.asarray(values, dtype=np.int64), self.device)

    def _column(self, values: Sequence[float]) -> torch.Tensor:
        """float32 [num_sentences, 1] on the device."""
        return upload(np.array(values, dtype=np.float32)[:, None], self.device)


def cap_frames(
    frames: NDArray[np.int64], lengths: NDArray[np.int64], length_scale: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Bound the frames of each id and of each sentence; and say which sentences were cut."""
    slowness = np.maximum(1.0, length_scale)
    per_id = np.repeat((_MAX_FRAMES_PER_ID * slowness).astype(np.int64), lengths)
    bounded = np.minimum(frames, per_id)
    starts = np.cumsum(lengths) - lengths
    limit = (_FREE_FRAMES + _MAX_MEAN_FRAMES_PER_ID * lengths) * slowness
    end = np.cumsum(bounded)
    before = np.repeat(end[starts] - bounded[starts], lengths)
    end = np.minimum(end - before, np.repeat(limit.astype(np.int64), lengths))
    kept = np.diff(end, prepend=0)
    kept[starts] = end[starts]
    is_cut = np.add.reduceat(kept, starts) < np.add.reduceat(frames, starts)
    return kept, is_cut
