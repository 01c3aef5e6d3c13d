"""The weights of a hibari voice, read from its ONNX file by walking the graph."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from batchtts.errors import VoiceError

if TYPE_CHECKING:
    from onnx import GraphProto

Weights = dict[str, NDArray[np.float32]]
"""Parameter name -> value, in torch's layout ([out, in] for a linear layer)."""


def read_weights(path: Path) -> Weights:
    """All parameters in fp32; int8 weights are multiplied out, exactly as the graph means them.

    Raises:
        VoiceError: the file is missing, damaged, or not a hibari voice.
    """
    import onnx

    try:
        graph = onnx.load(str(path)).graph
    except Exception as error:  # noqa: BLE001 - protobuf's own errors have no public base
        message = f"{path} cannot be read as an ONNX file: {error}"
        raise VoiceError(message) from None
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {
        name: value.copy()  # writable, as torch wants it
        for name, value in values.items()
        if value.dtype == np.float32 and name.startswith(("m.", "pn."))
    }
    for node, bias in _quantized(graph, values):
        base = node.removesuffix("_quantized")
        scaled = values[node].astype(np.float32) * values[f"{base}_scale"]
        weights[_weight_name(bias)] = np.ascontiguousarray(scaled.T)
    if "m.head.weight" not in weights:
        message = f"{path} is not a hibari voice: it has no int8 head"
        raise VoiceError(message)
    return weights


def _quantized(
    graph: "GraphProto", values: dict[str, NDArray[np.float32]]
) -> list[tuple[str, str]]:
    """(int8 weight, bias) of every integer product: the bias alone carries the module's name."""
    follower = {name: node for node in graph.node for name in node.input}
    pairs = {}
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        after = node
        while after.op_type != "Add":
            after = follower[after.output[0]]
        (bias,) = (name for name in after.input if name in values)
        pairs[node.input[1]] = bias
    return list(pairs.items())


def _weight_name(bias: str) -> str:
    """Name of the weight that belongs to a bias."""
    return bias.removesuffix("bias") + "weight"
