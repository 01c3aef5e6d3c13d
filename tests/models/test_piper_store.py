"""Weights out of any .onnx, converted once, cache or no cache."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from batchtts.errors import VoiceError
from batchtts.models.piper import store
from batchtts.models.vits.disk import cache_folder, digest
from batchtts.models.vits.weights import Tensors

MadeVoice = Callable[[str], Path]


def same(a: Tensors, b: Tensors) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_voice_is_converted_once(made_voice: MadeVoice, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made_voice("medium")
    first = store.load(path)
    monkeypatch.setattr(store, "read_voice", None)  # the graph is not read again
    again = store.load(path)
    assert same(first[0], again[0])
    assert first[1] == again[1]
    assert not [p for p in cache_folder().iterdir() if p.name.startswith("tmp")]


def test_a_broken_cache_is_mended(made_voice: MadeVoice) -> None:
    path = made_voice("medium")
    first = store.load(path)
    (kept,) = cache_folder().glob("*.safetensors")
    kept.write_bytes(kept.read_bytes()[:1000])
    assert same(store.load(path)[0], first[0])
    assert len(kept.read_bytes()) > 1000


def test_no_cache_is_needed(
    made_voice: MadeVoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # no folder can be made here
    tensors, _ = store.load(made_voice("medium"))
    assert "dec.conv_post.weight" in tensors


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    first = digest(path)
    path.write_bytes(b"other")
    assert digest(path) != first
    path.write_bytes(b"one")
    assert digest(path) == first
    moved = path.rename(tmp_path / "b")
    assert digest(moved) == first


def test_names_of_nodes_are_not_needed(made_voice: MadeVoice, tmp_path: Path) -> None:
    path = made_voice("high-4")
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, tmp_path / "nameless.onnx")
    assert same(store.read_voice(tmp_path / "nameless.onnx")[0], store.read_voice(path)[0])


def test_unfolded_weight_norm_is_folded(made_voice: MadeVoice, tmp_path: Path) -> None:
    """Some exporters leave the division by the norm in the graph."""
    path = made_voice("medium")
    model = onnx.load(path)
    node = next(n for n in model.graph.node if "flows.6/enc/in_layers.0/Conv" in n.name)
    folded = next(t for t in model.graph.initializer if t.name == node.input[1])
    half = numpy_helper.from_array(numpy_helper.to_array(folded) / 2, "half")
    two = numpy_helper.from_array(np.array(2, dtype=np.float32), "two")
    model.graph.initializer.extend([half, two])
    model.graph.node.insert(0, helper.make_node("Mul", ["half", "two"], ["whole"]))
    node.input[1] = "whole"
    onnx.save(model, tmp_path / "unfolded.onnx")
    assert same(store.read_voice(tmp_path / "unfolded.onnx")[0], store.read_voice(path)[0])


def graph_of(nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto]) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 1, 8])
    out = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 1, 8])
    return helper.make_model(helper.make_graph(nodes, "g", [value], [out], tensors))


WEIGHT = numpy_helper.from_array(np.ones((1, 1, 3), dtype=np.float32), "weight")


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([], "duration predictor is not Piper's"),
        ([helper.make_node("Conv", ["input", "weight"], ["output"])], "cannot be named: weight"),
        ([helper.make_node("ConvInteger", ["input", "weight"], ["output"])], "quantised to int8"),
    ],
)
def test_other_graphs_are_refused(
    nodes: list[onnx.NodeProto], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.onnx"
    onnx.save(graph_of(nodes, [WEIGHT]), path)
    with pytest.raises(VoiceError, match=rf"other\.onnx: not a Piper voice: .*{complaint}"):
        store.load(path)


@pytest.mark.parametrize("content", [b"", b"no onnx at all", b"<html>404</html>"])
def test_files_that_are_no_onnx_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "wrong.onnx"
    path.write_bytes(content)
    with pytest.raises(VoiceError, match=r"wrong\.onnx: not a Piper voice"):
        store.load(path)


def test_onnxruntime_is_not_needed(made_voice: MadeVoice) -> None:
    code = (
        "import sys; from pathlib import Path; from batchtts.models.piper import store;"
        f"store.read_voice(Path({str(made_voice('medium'))!r}));"
        "assert 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
