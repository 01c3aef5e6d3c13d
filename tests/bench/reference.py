"""What people run today, as they would: the reference packages' own interface, one text at a time.

    python -m tests.bench.reference hibari TEXTS FOLDER --threads 2

A process of its own for the benchmark; prints where its seconds went as JSON.
"""

import argparse
import json
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Stopwatch:
    """Seconds of named stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, its seconds added to a stage."""

        def measured(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*args, **options)
            finally:
                spent = time.perf_counter() - started
                self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

        return measured


def hibari(texts: list[str], folder: Path, threads: int, watch: Stopwatch) -> None:
    """`Hibari` and its own `write_wav`."""

    def load() -> Any:
        from hibari import Hibari

        tts = Hibari(threads=threads)
        tts.phonemize("One.")
        return tts

    tts = watch.timed("load", load)()
    from hibari import dsp, write_wav

    write = watch.timed("write", write_wav)
    tts.phonemize = watch.timed("prepare", tts.phonemize)
    dsp.synth = watch.timed("signal", dsp.synth)
    from_ids = watch.timed("infer", tts.from_ids)  # the signal stage is inside
    tts.from_ids = from_ids
    for number, text in enumerate(texts):
        write(str(folder / f"{number:05}.wav"), tts(text, seed=number))
    watch.seconds["infer"] -= watch.seconds["signal"]


def piper(texts: list[str], folder: Path, threads: int, watch: Stopwatch, model: Path) -> None:
    """`PiperVoice.synthesize_wav`, as the `piper` command does, with a number of threads."""

    def load() -> Any:
        import onnxruntime
        from piper import PiperVoice
        from piper.config import PiperConfig

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        config = json.loads(Path(f"{model}.json").read_text("utf-8"))
        return PiperVoice(config=PiperConfig.from_dict(config), session=session)

    voice = watch.timed("load", load)()
    voice.phonemize = watch.timed("prepare", voice.phonemize)
    voice.phoneme_ids_to_audio = watch.timed("infer", voice.phoneme_ids_to_audio)
    for number, text in enumerate(texts):
        with wave.open(str(folder / f"{number:05}.wav"), "wb") as file:
            voice.synthesize_wav(text, file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=("hibari", "piper"))
    parser.add_argument("texts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    texts = given.texts.read_text("utf-8").splitlines()
    watch = Stopwatch()
    started = time.perf_counter()
    if given.package == "hibari":
        hibari(texts, given.folder, given.threads, watch)
    else:
        piper(texts, given.folder, given.threads, watch, given.model)
    watch.seconds["all"] = time.perf_counter() - started
    print(json.dumps({name: round(value, 3) for name, value in watch.seconds.items()}))  # noqa: T201


if __name__ == "__main__":
    main()
