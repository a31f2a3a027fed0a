"""Tiny random ViTs of `transformers`, saved as folders, and the same weights in the layouts of timm and Google.

timm is not needed: its layout and the two of Google are written here by hand, independent of the tables in `interop`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    DeiTConfig,
    DeiTForImageClassification,
    DeiTForImageClassificationWithTeacher,
    PreTrainedModel,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

from causal_folders import perturb_weights

SHAPE = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 37}
SIDES = {"image_size": 20, "patch_size": 4, "num_labels": 5}
DEFAULT_CONFIG = {**SHAPE, **SIDES}
VIT, DEIT = (ViTConfig, ViTForImageClassification), DeiTConfig

SHAPES: dict[str, tuple[type, type, dict]] = {
    "vit": (*VIT, {}),
    "vit, tanh, other epsilon, large patches": (
        *VIT,
        {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "patch_size": 10, "num_hidden_layers": 3},
    ),
    "vit, gray, relu, one patch": (*VIT, {"num_channels": 1, "hidden_act": "relu", "image_size": 6, "patch_size": 6}),
    "vit, named labels": (*VIT, {"num_labels": 3, "id2label": {0: "cat", 1: "狗", 2: "mat"}}),
    "deit, with teacher": (DEIT, DeiTForImageClassificationWithTeacher, {}),
    "deit, without teacher": (DEIT, DeiTForImageClassification, {}),
}
NORMALIZATION = {"image_mean": [0.4, 0.5, 0.3], "image_std": [0.2, 0.3, 0.25]}


def vit_of(name: str) -> PreTrainedModel:
    """A model without a weight of 0 or 1."""
    config, model_class, changes = SHAPES[name]
    torch.manual_seed(0)
    return perturb_weights(model_class(config(**DEFAULT_CONFIG | changes)))


def vit_folder(folder: Path, name: str) -> PreTrainedModel:
    """Write the folder of one shape; returns the written model."""
    model = vit_of(name)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(NORMALIZATION))
    return model


def body_folder(folder: Path) -> PreTrainedModel:
    """A ViT without a head."""
    torch.manual_seed(0)
    model = perturb_weights(ViTModel(ViTConfig(**DEFAULT_CONFIG)))
    model.save_pretrained(folder)
    return model


def like_timm_and_google(**changes) -> PreTrainedModel:
    """A ViT whose norms and activation are those of timm and Google."""
    torch.manual_seed(0)
    return perturb_weights(ViTForImageClassification(ViTConfig(**DEFAULT_CONFIG | {"layer_norm_eps": 1e-6} | changes)))


def timm_folder(folder: Path, model: PreTrainedModel, name: str = "vit_little", **pretrained_cfg) -> None:
    """Write the weights in the layout of timm."""
    hf_weights, tensors = saved_weights(model, folder.with_name("saved")), {}
    for key, hf_name in (
        ("cls_token", "embeddings.cls_token"), ("dist_token", "embeddings.distillation_token"),
        ("pos_embed", "embeddings.position_embeddings"),
        ("patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight"),
        ("patch_embed.proj.bias", "embeddings.patch_embeddings.projection.bias"),
        ("norm.weight", "layernorm.weight"), ("norm.bias", "layernorm.bias"),
        ("head.weight", "classifier.weight"), ("head.bias", "classifier.bias"),
        ("head.weight", "cls_classifier.weight"), ("head.bias", "cls_classifier.bias"),
        ("head_dist.weight", "distillation_classifier.weight"), ("head_dist.bias", "distillation_classifier.bias"),
    ):  # fmt: skip
        if hf_name in hf_weights:
            tensors[key] = hf_weights[hf_name]
    for number in range(model.config.num_hidden_layers):
        block, hf_block = f"blocks.{number}", f"encoder.layer.{number}"
        for part in ("weight", "bias"):
            qkv = [hf_weights[f"{hf_block}.attention.attention.{name}.{part}"] for name in ("query", "key", "value")]
            tensors[f"{block}.attn.qkv.{part}"] = torch.cat(qkv)
            for key, hf_name in (
                ("norm1", "layernorm_before"), ("norm2", "layernorm_after"), ("attn.proj", "attention.output.dense"),
                ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense"),
            ):  # fmt: skip
                tensors[f"{block}.{key}.{part}"] = hf_weights[f"{hf_block}.{hf_name}.{part}"]
    folder.mkdir(parents=True)
    save_file({key: each.contiguous().clone() for key, each in tensors.items()}, folder / "model.safetensors")
    config = model.config
    cfg = {
        "input_size": [3, config.image_size, config.image_size],
        "mean": [0.4] * 3,
        "std": [0.2] * 3,
        **pretrained_cfg,
    }
    tree = {"architecture": name, "num_classes": config.num_labels, "pretrained_cfg": cfg, "num_heads": 3}
    (folder / "config.json").write_text(json.dumps(tree))


def saved_weights(model: PreTrainedModel, folder: Path) -> dict[str, torch.Tensor]:
    """The weights by their names in the file, without the prefix of the body."""
    model.save_pretrained(folder)
    hf_weights = load_file(folder / "model.safetensors")
    return {key.removeprefix("vit.").removeprefix("deit."): tensor for key, tensor in hf_weights.items()}


def google_arrays(model: PreTrainedModel, folder: Path, layout: str) -> dict[str, np.ndarray]:
    """The weights under Google's names, with JAX's axes."""
    hf_weights = {key: each.numpy() for key, each in saved_weights(model, folder).items()}
    big = layout == "big_vision"
    heads, width = SHAPE["num_attention_heads"], SHAPE["hidden_size"]
    attention = f"MultiHeadDotProductAttention_{0 if big else 1}"
    mlp, second = ("MlpBlock_0", "LayerNorm_1") if big else ("MlpBlock_3", "LayerNorm_2")
    tensors = {
        "embedding/kernel": hf_weights["embeddings.patch_embeddings.projection.weight"].transpose(2, 3, 1, 0),
        "embedding/bias": hf_weights["embeddings.patch_embeddings.projection.bias"],
        "Transformer/encoder_norm/scale": hf_weights["layernorm.weight"],
        "Transformer/encoder_norm/bias": hf_weights["layernorm.bias"],
        "head/kernel": hf_weights["classifier.weight"].T, "head/bias": hf_weights["classifier.bias"],
    }  # fmt: skip
    cls, positions = hf_weights["embeddings.cls_token"], hf_weights["embeddings.position_embeddings"]
    if big:  # its class token has no position embedding
        tensors |= {"cls": cls + positions[:, :1], "pos_embedding": positions[:, 1:]}
    else:
        tensors |= {"cls": cls, "Transformer/posembed_input/pos_embedding": positions}
    for number in range(SHAPE["num_hidden_layers"]):
        block, hf_block = f"Transformer/encoderblock_{number}", f"encoder.layer.{number}"
        for norm, hf_name in (("LayerNorm_0", "layernorm_before"), (second, "layernorm_after")):
            tensors[f"{block}/{norm}/scale"] = hf_weights[f"{hf_block}.{hf_name}.weight"]
            tensors[f"{block}/{norm}/bias"] = hf_weights[f"{hf_block}.{hf_name}.bias"]
        for name in ("query", "key", "value"):
            qkv_prefix = f"{hf_block}.attention.attention.{name}"
            tensors[f"{block}/{attention}/{name}/kernel"] = hf_weights[f"{qkv_prefix}.weight"].T.reshape(
                width, heads, -1
            )
            tensors[f"{block}/{attention}/{name}/bias"] = hf_weights[f"{qkv_prefix}.bias"].reshape(heads, -1)
        out = f"{hf_block}.attention.output.dense"
        tensors[f"{block}/{attention}/out/kernel"] = hf_weights[f"{out}.weight"].T.reshape(heads, -1, width)
        tensors[f"{block}/{attention}/out/bias"] = hf_weights[f"{out}.bias"]
        for dense, hf_name in (("Dense_0", "intermediate.dense"), ("Dense_1", "output.dense")):
            tensors[f"{block}/{mlp}/{dense}/kernel"] = hf_weights[f"{hf_block}.{hf_name}.weight"].T
            tensors[f"{block}/{mlp}/{dense}/bias"] = hf_weights[f"{hf_block}.{hf_name}.bias"]
    return tensors
