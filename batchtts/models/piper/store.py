"""The weights of a voice, converted once: .onnx -> safetensors in the user's cache folder."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from batchtts.errors import VoiceError
from batchtts.models.piper.graph import Graph, read_graph
from batchtts.models.vits.disk import cache_folder, digest, keep
from batchtts.models.vits.weights import Geometry, Tensors

FORMAT = 1
"""Counted up when the converted file or the reading of graphs changes."""


def load(path: Path) -> tuple[Tensors, Geometry]:
    """Weights and geometry of the voice in this .onnx file.

    Raises:
        VoiceError: the file is not a Piper voice.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    converted = cache_folder() / f"piper-{digest(path)}-{FORMAT}.safetensors"
    try:
        tensors = load_file(converted)
    except (OSError, SafetensorError):
        return _convert(path, converted)
    meta = json.loads(bytes(tensors.pop("geometry")))
    return tensors, Geometry(
        strides=tuple(meta["strides"]), dilations=tuple(map(tuple, meta["dilations"]))
    )


def _convert(path: Path, converted: Path) -> tuple[Tensors, Geometry]:
    from safetensors.numpy import save

    tensors, geometry = read_voice(path)
    text = json.dumps({"strides": geometry.strides, "dilations": geometry.dilations})
    packed = {**tensors, "geometry": np.frombuffer(text.encode(), dtype=np.uint8)}
    keep(converted, save({name: np.ascontiguousarray(x) for name, x in packed.items()}))
    return tensors, geometry


def read_voice(path: Path) -> tuple[dict[str, NDArray[np.float32]], Geometry]:
    """Read an .onnx file.

    Raises:
        VoiceError: the file is not a Piper voice.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = read_graph(onnx.load(path).graph)
        return graph.tensors, _geometry(graph)
    except (DecodeError, VoiceError, RecursionError) as error:
        message = f"{path}: not a Piper voice: {error}"
        raise VoiceError(message) from error


def _geometry(graph: Graph) -> Geometry:
    """Strides and dilations, which stand in the nodes and not in the weights."""
    strides: list[int] = []
    while (layer := f"dec.ups.{len(strides)}") in graph.attributes:
        stride = graph.attributes[layer].get("strides", [1])[0]
        kernel = graph.tensors[f"{layer}.weight"].shape[2]
        if kernel != 2 * stride or stride % 2:
            message = f"its upsampling by {stride} has a kernel of {kernel}, not {2 * stride}"
            raise VoiceError(message)
        strides.append(stride)
    blocks: list[tuple[int, ...]] = []
    while block := _dilations(graph, f"dec.resblocks.{len(blocks)}"):
        blocks.append(block)
    width = len(blocks) // len(strides) if strides else 0
    if not width or blocks != blocks[:width] * len(strides):
        message = "its decoder has blocks that differ from stage to stage"
        raise VoiceError(message)
    return Geometry(strides=tuple(strides), dilations=tuple(blocks[:width]))


def _dilations(graph: Graph, block: str) -> tuple[int, ...]:
    """Dilations of a residual block; empty where there is no such block."""
    found: list[int] = []
    kind = "convs1" if f"{block}.convs1.0" in graph.attributes else "convs"
    while (layer := f"{block}.{kind}.{len(found)}") in graph.attributes:
        found.append(graph.attributes[layer].get("dilations", [1])[0])
    return tuple(found)
