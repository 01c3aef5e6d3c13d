"""Weights of a checkpoint under the names of the training code."""

import re

import numpy as np

from batchtts.errors import VoiceError
from batchtts.models.transformers_vits.checkpoint import WEIGHTS, Checkpoint
from batchtts.models.vits.weights import Geometry, Tensors

_RENAMES = (
    (r"^text_encoder\.encoder\.layers\.(\d+)\.attention\.([qkv])_proj", r"attn_layers.\1.conv_\2"),
    (r"^text_encoder\.encoder\.layers\.(\d+)\.attention\.out_proj", r"attn_layers.\1.conv_o"),
    (r"^text_encoder\.encoder\.layers\.(\d+)\.attention", r"attn_layers.\1"),
    (r"^text_encoder\.encoder\.layers\.(\d+)\.feed_forward", r"ffn_layers.\1"),
    (r"^text_encoder\.encoder\.layers\.(\d+)\.layer_norm", r"norm_layers_1.\1"),
    (r"^text_encoder\.encoder\.layers\.(\d+)\.final_layer_norm", r"norm_layers_2.\1"),
    (r"^(attn|ffn|norm)_layers", r"enc_p.encoder.\1_layers"),
    (r"^text_encoder\.embed_tokens", "enc_p.emb"),
    (r"^text_encoder\.project", "enc_p.proj"),
    (r"^duration_predictor\.", "dp."),
    (r"^decoder\.", "dec."),
    (r"^embed_speaker\.", "emb_g."),
    (r"\.upsampler\.", ".ups."),
    (r"\.wavenet\.", ".enc."),
    (r"\.conv_dds\.", ".convs."),
    (r"\.convs_dilated\.", ".convs_sep."),
    (r"\.convs_pointwise\.", ".convs_1x1."),
    (r"^(dp|flow)\.(.*)conv_(pre|post|proj)\.", r"\1.\2\3."),
    (r"(norms?_\w+\.\d+)\.weight$", r"\1.gamma"),
    (r"(norms?_\w+\.\d+)\.bias$", r"\1.beta"),
    (r"\.parametrizations\.weight\.original0$", ".weight_g"),
    (r"\.parametrizations\.weight\.original1$", ".weight_v"),
    (r"\.translate$", ".m"),
)
"""Names of transformers -> names of the training code, applied in order."""


def read_weights(checkpoint: Checkpoint) -> tuple[Tensors, Geometry]:
    """Read the weights under the names of the training code, weight norm folded."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        raw = load_file(checkpoint.folder / WEIGHTS)
    except SafetensorError as error:
        message = f"{checkpoint.folder / WEIGHTS}: cannot be read: {error}"
        raise VoiceError(message) from error
    tensors = {_renamed(name): value.astype(np.float32) for name, value in raw.items()}
    for name in [name for name in tensors if name.endswith(".weight_g")]:
        weight = name.removesuffix("_g")
        gain, direction = tensors.pop(name), tensors.pop(f"{weight}_v")
        length = np.sqrt((direction**2).sum(axis=(1, 2), keepdims=True))
        tensors[weight] = direction * (gain / length)
    tensors["dp.flows.0.scale"] = np.exp(-tensors.pop("dp.flows.0.log_scale"))
    config = checkpoint.config
    return tensors, Geometry(
        strides=tuple(config["upsample_rates"]),
        dilations=tuple(map(tuple, config["resblock_dilation_sizes"])),
        slope=config.get("leaky_relu_slope", 0.1),
        tail=config.get("duration_predictor_tail_bound", 5.0),
        eps=config.get("layer_norm_eps", 1e-5),
    )


def _renamed(name: str) -> str:
    """The training code's name; its lists of flows also hold the swaps between two of them."""
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)
    name = re.sub(r"^flow\.flows\.(\d+)", lambda m: f"flow.flows.{2 * int(m[1])}", name)
    return re.sub(r"^dp\.flows\.([1-9])", lambda m: f"dp.flows.{2 * int(m[1]) - 1}", name)
