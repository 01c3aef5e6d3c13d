"""Reads the weights of a Piper voice out of its .onnx by walking the graph.

Exporters rename, fold and share tensors, so a name alone proves nothing: a layer is known by the
node that uses it. Constant parts of the graph (weight norm, exponentials) are evaluated node by
node with onnx's reference implementation; onnxruntime is not needed.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batchtts.errors import VoiceError

if TYPE_CHECKING:
    import onnx

_LAYER = re.compile(r"(?:^|[./])((?:enc_p|dec|flow|dp|emb_g)\.[\w.]+)$")
_FOLDED = (".weight_g", ".weight_v", ".logs")
"""Inputs of constant parts; their results are what the network uses."""
_AFFINE_MEAN = "dp.flows.0.m"


class Graph(NamedTuple):
    """What a voice's graph holds."""

    tensors: dict[str, NDArray[np.float32]]
    """By the names of the training code; the affine flow's exp(-logs) is "dp.flows.0.scale"."""
    attributes: dict[str, dict[str, list[int]]]
    """Layer name -> "strides", "dilations" ... of its convolution."""


class _Constants:
    """Values that do not depend on the graph's inputs."""

    def __init__(self, graph: "onnx.GraphProto") -> None:
        from onnx import numpy_helper

        self.values: dict[str, NDArray[Any] | None] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        self.makers = {name: node for node in graph.node for name in node.output}

    def __call__(self, name: str) -> NDArray[Any] | None:
        """The value of this name, None where it depends on an input."""
        if name not in self.values:
            self.values[name] = None  # a graph without cycles never meets this
            node = self.makers.get(name)
            if node is not None and (node.input or node.op_type == "Constant"):
                self._evaluate(node)
        return self.values[name]

    def _evaluate(self, node: "onnx.NodeProto") -> None:
        from onnx.reference import ReferenceEvaluator

        inputs = {name: self(name) for name in node.input if name}
        if any(value is None for value in inputs.values()) or "Random" in node.op_type:
            return
        for name, value in zip(
            node.output, ReferenceEvaluator(node).run(None, inputs), strict=True
        ):
            self.values[name] = value


def read_graph(graph: "onnx.GraphProto") -> Graph:
    """Find every weight of the voice.

    Raises:
        VoiceError: the graph is not that of a Piper voice, or its weights are quantised.
    """
    constant = _Constants(graph)
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, value in list(constant.values.items()):
        layer = _layer(name)
        if layer and value is not None and value.dtype.kind == "f":
            tensors[layer] = value
    attributes = dict(_read_convolutions(graph.node, constant, tensors))
    _read_tables(graph.node, constant, tensors)
    _read_affine(graph.node, constant, tensors)
    if "dec.conv_post.weight" not in tensors or "enc_p.emb.weight" not in tensors:
        message = "it holds no text encoder and decoder with Piper's names"
        raise VoiceError(message)
    kept = {
        name: np.asarray(value, dtype=np.float32)
        for name, value in tensors.items()
        if not name.endswith(_FOLDED)
    }
    return Graph(kept, attributes)


def _layer(name: str) -> str:
    """The training code's name inside a tensor's name, or nothing."""
    match = _LAYER.search(name)
    return match[1] if match else ""


def _scope(node: "onnx.NodeProto") -> str:
    """The layer of a node that is called "/flow/flows.6/enc/in_layers.0/Conv"."""
    return _layer(node.name.strip("/").replace("/", ".").rpartition(".")[0])


def _read_convolutions(
    nodes: Iterable["onnx.NodeProto"],
    constant: _Constants,
    tensors: dict[str, NDArray[np.float32]],
) -> Iterable[tuple[str, dict[str, list[int]]]]:
    """Put weight and bias of every convolution into `tensors`; yield its attributes."""
    seen: set[str] = set()
    for node in nodes:
        if node.op_type in ("ConvInteger", "QLinearConv"):
            message = "its weights are quantised to int8; use the voice's original file"
            raise VoiceError(message)
        if node.op_type not in ("Conv", "ConvTranspose"):
            continue
        bias_name = node.input[2] if len(node.input) > 2 else ""
        layer = (
            _scope(node)
            or _layer(bias_name).removesuffix(".bias")
            or _layer(node.input[1]).removesuffix(".weight")
        )
        weight = constant(node.input[1])
        if not layer or weight is None or layer in seen:
            what = "used twice" if layer in seen else "that cannot be named"
            message = f"it holds a convolution {what}: {node.name or node.input[1]}"
            raise VoiceError(message)
        seen.add(layer)
        tensors[f"{layer}.weight"] = weight
        bias = constant(bias_name) if bias_name else None
        if bias is not None:
            tensors[f"{layer}.bias"] = bias
        yield layer, {a.name: list(a.ints) for a in node.attribute if a.ints}


def _read_tables(
    nodes: Iterable["onnx.NodeProto"],
    constant: _Constants,
    tensors: dict[str, NDArray[np.float32]],
) -> None:
    """The embeddings of symbols and speakers: what the graph's inputs are looked up in.

    A voice of one speaker keeps its symbols under the name "sid": the exporter gave the name of
    the missing input to the first weight.
    """
    names = {"input": "enc_p.emb.weight", "sid": "emb_g.weight"}
    for node in nodes:
        if node.op_type == "Gather" and node.input[1] in names:
            table = constant(node.input[0])
            if table is not None:
                tensors[names[node.input[1]]] = table


def _read_affine(
    nodes: Iterable["onnx.NodeProto"],
    constant: _Constants,
    tensors: dict[str, NDArray[np.float32]],
) -> None:
    """The last flow of the durations: (z - m) * exp(-logs)."""
    differences: set[str] = set()
    for node in nodes:
        if node.op_type == "Sub" and _layer(node.input[1]) == _AFFINE_MEAN:
            differences.update(node.output)
        elif node.op_type == "Mul" and node.input[0] in differences:
            scale = constant(node.input[1])
            if scale is not None:
                tensors["dp.flows.0.scale"] = scale
                return
    message = "its duration predictor is not Piper's stochastic one"
    raise VoiceError(message)
