"""The network against the voice's own graph, with its int8 weights multiplied out."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from batchtts.errors import VoiceError
from batchtts.models.hibari.layout import make_layout
from batchtts.models.hibari.model import CPU_SIZES, Sentence
from batchtts.models.hibari.network import PARTS
from batchtts.models.hibari.reading import hibari_assets
from batchtts.models.hibari.weights import read_weights
from tests.models.hibari_voice import TEXTS, model, prepare

GRAPH = hibari_assets() / "hibari.onnx"


def dequantised() -> onnx.ModelProto:
    """The graph with x @ W in fp32 in place of each integer product, and with its durations."""
    loaded = onnx.load(str(GRAPH))
    graph = loaded.graph
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    maker = {name: node for node in graph.node for name in node.output}
    follower = {name: node for node in graph.node for name in node.input}
    for node in [n for n in graph.node if n.op_type == "MatMulInteger"]:
        base = node.input[1].removesuffix("_quantized")
        weight = values[node.input[1]].astype(np.float32) * values[f"{base}_scale"]
        name = f"{node.name}_weight"
        graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
        scaled = follower[follower[node.output[0]].output[0]]
        assert scaled.op_type == "Mul"
        x = maker[node.input[0]].input[0]
        product = onnx.helper.make_node("MatMul", [x, name], [scaled.output[0]])
        place = list(graph.node).index(scaled)
        graph.node.remove(scaled)
        graph.node.insert(place, product)
    (clip,) = (node for node in graph.node if node.op_type == "Clip")
    graph.output.append(onnx.ValueInfoProto(name=clip.output[0]))
    return loaded


@cache
def oracle() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(dequantised().SerializeToString(), options)


@pytest.mark.parametrize("speed", [1.0, 0.7, 1.6])
def test_durations_pitch_and_spectrum_are_those_of_the_graph(speed: float) -> None:
    sentences = [ids for text in TEXTS for ids in prepare(text).data.sentences]
    voice = model()
    batch = [Sentence(ids=ids, speed=speed, seed=(0, 0)) for ids in sentences]
    with torch.inference_mode():
        encoded = voice._encode(batch, CPU_SIZES)
        layout = make_layout(encoded.rows, encoded.durations, zero_row=0)
        pitch, energy = voice._prosody(encoded.prosody, layout)
        decoded = voice._decode(encoded.products, pitch, energy, layout, CPU_SIZES.frames)
        parts = voice._network.spectrum(decoded).numpy()[:, np.argsort(PARTS)]
    for ids, durations, start, count in zip(
        sentences, encoded.durations, layout.starts, layout.counts, strict=True
    ):
        feed = {
            "ids": np.frombuffer(ids, np.uint8).astype(np.int64)[None],
            "speed": np.array([speed], np.float32),
        }
        *spectrum, f0, expected = oracle().run(None, feed)
        assert durations.tolist() == expected.reshape(-1).tolist()
        own = slice(start, start + count)
        assert np.abs(pitch.numpy()[own] - f0[0]).max() < 1e-3
        for part, theirs in enumerate(spectrum):
            assert np.abs(parts[own, part].T - theirs[0]).max() < 1e-3


def test_the_weights_have_torch_names_and_shapes() -> None:
    weights = read_weights(GRAPH)
    assert len(weights) == 206
    assert sum(w.size for w in weights.values()) == 6_152_898
    assert weights["m.head.weight"].shape == (3005, 256)
    assert weights["pn.text.attn.self_attn.in_proj_weight"].shape == (576, 192)
    assert all(w.dtype == np.float32 for w in weights.values())


def test_a_file_that_is_no_voice_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a graph")
    with pytest.raises(VoiceError, match="broken"):
        read_weights(broken)
    with pytest.raises(VoiceError, match="missing"):
        read_weights(tmp_path / "missing.onnx")
    other = hibari_assets() / "oov.onnx"
    with pytest.raises(VoiceError, match="not a hibari voice"):
        read_weights(other)
