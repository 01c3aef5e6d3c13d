"""Small Piper voices with random weights, of every kind, exported as Piper exports them."""

import json
import warnings
from pathlib import Path

import torch

from tests.models.made_decoder import Kind
from tests.models.made_network import Voice

SYMBOLS = [
    "_",
    "^",
    "$",
    " ",
    ".",
    ",",
    "!",
    "?",
    *"abcdefghijklmnoprstuvwyzæðŋɐɑɔəɚɛɜɡɪɹʃʊʌʒˈˌːθᵻ",
]

HIGH = {
    "resblock": 1,
    "strides": (8, 8, 2, 2),
    "kernels": (3, 7, 11),
    "dilations": ((1, 3, 5), (1, 3, 5), (1, 3, 5)),
}
KINDS = {
    "x_low": Kind(hidden=8, inter=8, sample_rate=16000),
    "medium": Kind(),
    "high": Kind(**HIGH),  # type: ignore[arg-type]
    "x_low-4": Kind(hidden=8, inter=8, sample_rate=16000, speakers=4),
    "medium-4": Kind(speakers=4),
    "high-4": Kind(speakers=4, **HIGH),  # type: ignore[arg-type]
}


def make_voice(folder: Path, name: str) -> Path:
    """Export a voice of this kind with random weights, .onnx and .json, as Piper does."""
    kind = KINDS[name]
    torch.manual_seed(0)
    voice = Voice(kind, len(SYMBOLS)).eval()
    with torch.no_grad():  # as drawn, the decoder's biases drown out what comes from the text
        for layer, weight in voice.dec.named_parameters():
            weight.mul_(0.1 if layer.endswith("bias") else 2.0)
    many = kind.speakers > 1
    path = folder / f"{name}.onnx"
    ids = torch.randint(0, len(SYMBOLS), (1, 20))
    sid = torch.tensor([1]) if many else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that Piper uses is the older one
        torch.onnx.export(
            voice,
            (ids, torch.tensor([20]), torch.tensor([0.667, 1.0, 0.8]), sid),
            str(path),
            opset_version=15,
            input_names=["input", "input_lengths", "scales", "sid"],
            output_names=["output"],
            dynamic_axes={"input": {1: "phonemes"}, "output": {2: "time"}},
            dynamo=False,
        )
    content = {
        "audio": {"sample_rate": kind.sample_rate, "quality": name},
        "espeak": {"voice": "en-us"},
        "language": {"code": "en_US"},
        "inference": {"noise_scale": 0.667, "length_scale": 1, "noise_w": 0.8},
        "phoneme_type": "espeak",
        "phoneme_id_map": {symbol: [number] for number, symbol in enumerate(SYMBOLS)},
        "num_symbols": len(SYMBOLS),
        "num_speakers": kind.speakers,
        "speaker_id_map": {f"reader {k}": k for k in range(kind.speakers)} if many else {},
    }
    path.with_name(f"{path.name}.json").write_text(json.dumps(content), encoding="utf-8")
    return path
