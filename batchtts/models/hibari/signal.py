"""The signal stage of hibari: pitch and five spectral parts per frame become a waveform.

A frame is 300 samples at 24 kHz. A pulse train with the pitch as its rate is filtered by the
harmonic part, shaped noise and a part with free phase are added, and one inverse short-time
Fourier transform (1200 points, Hann) makes samples of it:

    S = exp(lh) e^(i pi tanh(theta)) STFT(pulses) + exp(ln) noise + exp(lr) e^(i phi)

All of it works on the packed 80 Hz stream of layout.py in fp32; the phase is summed in fp64,
because an error of it is multiplied by the number of the harmonic.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as fn

SAMPLE_RATE = 24_000
HOP = 300
FFT = 1200
BINS = FFT // 2 + 1
VOICED_HZ = 40.0
"""Below this a frame has no pulses."""
HIGHEST_HARMONIC_HZ = 11_000.0
MAX_LOG = 7.0
"""Log magnitudes are cut off here."""
NOISE_ROWS = 4096
"""Rows of the noise table, a power of two: noise repeats in an utterance after 51 seconds."""
EDGE = 2
"""Rows of the gap before a sequence that its first windows reach into."""


class Signal:
    """Constants of the signal stage on one device, and its three steps."""

    def __init__(self, device: torch.device) -> None:
        window = torch.hann_window(FFT, periodic=True, dtype=torch.float64, device=device)
        squares = window.square().view(-1, HOP)
        inside = squares.sum(0)
        self.analysis = (window / HOP).float()
        self.synthesis = (window.view(-1, HOP) / inside).flatten().float()
        self.first = (inside / squares[:3].sum(0)).float()
        self.last = (inside / torch.stack([squares[1:].sum(0), squares[2:].sum(0)])).float()
        towards_next = ((torch.arange(HOP, device=device) + 0.5) / HOP - 0.5) % 1.0
        self.towards_next, self.towards_previous = towards_next, 1.0 - towards_next
        self.noise = noise_table(device)

    def pulses(self, pitch: Tensor, starts: Tensor, counts: Tensor) -> Tensor:
        """Band-limited pulse train: every harmonic below 11 kHz with amplitude one.

        Args:
            pitch: [N] Hz per frame of the stream.
            starts: [S] first frame of each sequence.
            counts: [S] frames of each sequence.

        Returns:
            [N, 300] samples; what stands in the gaps is meaningless.
        """
        hertz = self._interpolate(pitch, starts, starts + counts - 1)
        voiced = hertz > VOICED_HZ
        hertz.clamp_(min=VOICED_HZ)
        angle = self._phase(hertz, starts)
        harmonics = hertz.reciprocal_().mul_(HIGHEST_HARMONIC_HZ).floor_().add_(0.5)
        below = torch.sin(angle * 0.5).mul_(2)
        flat = below.abs() <= 2e-3
        above = torch.sin(angle.mul_(harmonics))
        train = torch.where(flat, harmonics, above.div_(below)).sub_(0.5)
        return train.mul_(voiced)

    def _interpolate(self, pitch: Tensor, starts: Tensor, lasts: Tensor) -> Tensor:
        """Pitch per sample [N, 300]: linear between the middles of frames, flat at both ends."""
        before = torch.cat([pitch[:1], pitch[:-1]])
        after = torch.cat([pitch[1:], pitch[-1:]])
        before[starts], after[lasts] = pitch[starts], pitch[lasts]
        half = HOP // 2
        near, far = self.towards_next, self.towards_previous
        hertz = pitch.new_empty((len(pitch), HOP))
        torch.outer(pitch, near[:half], out=hertz[:, :half])
        torch.outer(pitch, far[half:], out=hertz[:, half:])
        hertz[:, :half].addcmul_(before[:, None], far[:half])
        hertz[:, half:].addcmul_(after[:, None], near[half:])
        return hertz

    @staticmethod
    def _phase(hertz: Tensor, starts: Tensor) -> Tensor:
        """Angle of the fundamental in [0, 2 pi), counted from each sequence's start."""
        cycles = torch.cumsum(hertz, 1, dtype=torch.float64)
        ends = torch.cumsum(cycles[:, -1], 0)
        begins = ends - cycles[:, -1]
        spans = fn.pad(starts[1:], (0, 1), value=len(hertz)) - starts
        origin = torch.repeat_interleave(begins[starts], spans, output_size=len(hertz))
        cycles += (begins - origin)[:, None]
        return cycles.div_(SAMPLE_RATE).frac_().mul_(2 * torch.pi).float()

    def windows(self, train: Tensor, starts: Tensor, counts: Tensor) -> Tensor:
        """Overlapping windows [N, 1200] of the pulse train, as a view on its padded copy."""
        padded = train.new_zeros((len(train) + EDGE + 1, HOP))
        padded[EDGE:-1] = train
        flat, step = padded.view(-1), torch.arange(EDGE * HOP, device=train.device)
        begin = ((starts + EDGE) * HOP)[:, None]
        end = begin + (counts * HOP)[:, None]
        flat[begin - 1 - step] = flat[begin + 1 + step]
        flat[end + step[:HOP]] = flat[end - 2 - step[:HOP]]
        return padded.as_strided((len(train), FFT), (HOP, 1))

    def synthesize(self, windows: Tensor, parts: Tensor, noise_rows: Tensor) -> Tensor:
        """One windowed piece of sound per frame.

        Args:
            windows: [n, 1200] of the pulse train.
            parts: [n, 5, 601] as the network orders them; overwritten.
            noise_rows: [n] rows of the noise table.

        Returns:
            [n, 1200] to be added up with a hop of 300 samples.
        """
        harmonics = torch.fft.rfft(windows * self.analysis)
        noise = self.noise.index_select(0, noise_rows)
        size, angle = parts[:, :3].clamp_(max=MAX_LOG).exp_(), parts[:, 3:]
        angle[:, 0].tanh_().mul_(torch.pi)
        across, up = angle.cos(), angle.sin()
        across *= size[:, ::2]
        up *= size[:, ::2]
        noise *= size[:, 1:2]
        noise[:, 0] += across[:, 1]
        noise[:, 1] += up[:, 1]
        spectrum = torch.complex(noise[:, 0], noise[:, 1])
        spectrum.addcmul_(torch.complex(across[:, 0], up[:, 0]), harmonics)
        pieces: Tensor = torch.fft.irfft(spectrum)
        return pieces.mul_(self.synthesis)

    def finish(self, sound: Tensor, starts: Tensor, counts: Tensor) -> None:
        """Make up in place for the windows that are missing at both ends of a sequence.

        Args:
            sound: [N + 3, 300] sum of the pieces, row r of the stream at row r + 2.
            starts: [S] first frame of each sequence.
            counts: [S] frames of each sequence.
        """
        begin = starts + EDGE
        sound[begin] *= self.first
        end = begin + counts
        sound[end - 2] *= self.last[0]
        sound[end - 1] *= self.last[1]


def noise_table(device: torch.device) -> Tensor:
    """White noise [NOISE_ROWS, 2, BINS], the same on every device."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn((NOISE_ROWS, 2, BINS), generator=generator).to(device)


def noise_rows(seed: Sequence[int], count: int) -> NDArray[np.int64]:
    """Rows of the noise table for the frames of a sequence: [count].

    Every seed walks through the whole table in its own order, from its own start and with its own
    odd stride, so that no neighbour, order or chunk size can change the noise of an utterance.
    """
    start, stride = np.random.SeedSequence(seed).generate_state(2, np.uint64) % NOISE_ROWS
    steps = np.arange(count, dtype=np.int64) * (int(stride) | 1)
    return (int(start) + steps) % NOISE_ROWS
