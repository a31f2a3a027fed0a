"""Tiny random ViTs of `transformers`, saved as folders; and the same weights as timm and Google would have saved them.

timm is not needed here: its layout is written out by hand, as Google's two are, apart from the tables in `interop`.
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

from real_folders import stirred_weights

SHAPE = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 37}
SIDES = {"image_size": 20, "patch_size": 4, "num_labels": 5}
PLAIN = {**SHAPE, **SIDES}
VIT, DEIT = (ViTConfig, ViTForImageClassification), DeiTConfig

SHAPES: dict[str, tuple[type, type, dict]] = {
    "vit": (*VIT, {}),
    "vit, tanh, other epsilon, large patches": (
        *VIT,
        {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3, "patch_size": 10, "num_hidden_layers": 3},
    ),
    "vit, grey, relu, one patch": (*VIT, {"num_channels": 1, "hidden_act": "relu", "image_size": 6, "patch_size": 6}),
    "vit, named labels": (*VIT, {"num_labels": 3, "id2label": {0: "cat", 1: "狗", 2: "mat"}}),
    "deit, taught": (DEIT, DeiTForImageClassificationWithTeacher, {}),
    "deit, not taught": (DEIT, DeiTForImageClassification, {}),
}
TONES = {"image_mean": [0.4, 0.5, 0.3], "image_std": [0.2, 0.3, 0.25]}


def vit_of(name: str) -> PreTrainedModel:
    """A model with no weight at 0 or 1."""
    config, make, changes = SHAPES[name]
    torch.manual_seed(0)
    return stirred_weights(make(config(**PLAIN | changes)))


def vit_folder(folder: Path, name: str) -> PreTrainedModel:
    """Write the folder of one shape; gives the model that was written."""
    model = vit_of(name)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(TONES))
    return model


def body_folder(folder: Path) -> PreTrainedModel:
    """A ViT without a head."""
    torch.manual_seed(0)
    model = stirred_weights(ViTModel(ViTConfig(**PLAIN)))
    model.save_pretrained(folder)
    return model


def like_others(**changes) -> PreTrainedModel:
    """A ViT whose norms and curve are those of timm and Google."""
    torch.manual_seed(0)
    return stirred_weights(ViTForImageClassification(ViTConfig(**PLAIN | {"layer_norm_eps": 1e-6} | changes)))


def timm_folder(folder: Path, model: PreTrainedModel, name: str = "vit_little", **told) -> None:
    """The same weights as timm saves them."""
    theirs, found = saved(model, folder.with_name("saved")), {}
    for key, ours in (
        ("cls_token", "embeddings.cls_token"), ("dist_token", "embeddings.distillation_token"),
        ("pos_embed", "embeddings.position_embeddings"),
        ("patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight"),
        ("patch_embed.proj.bias", "embeddings.patch_embeddings.projection.bias"),
        ("norm.weight", "layernorm.weight"), ("norm.bias", "layernorm.bias"),
        ("head.weight", "classifier.weight"), ("head.bias", "classifier.bias"),
        ("head.weight", "cls_classifier.weight"), ("head.bias", "cls_classifier.bias"),
        ("head_dist.weight", "distillation_classifier.weight"), ("head_dist.bias", "distillation_classifier.bias"),
    ):  # fmt: skip
        if ours in theirs:
            found[key] = theirs[ours]
    for number in range(model.config.num_hidden_layers):
        block, inside = f"blocks.{number}", f"encoder.layer.{number}"
        for part in ("weight", "bias"):
            three = [theirs[f"{inside}.attention.attention.{name}.{part}"] for name in ("query", "key", "value")]
            found[f"{block}.attn.qkv.{part}"] = torch.cat(three)
            for key, ours in (
                ("norm1", "layernorm_before"), ("norm2", "layernorm_after"), ("attn.proj", "attention.output.dense"),
                ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense"),
            ):  # fmt: skip
                found[f"{block}.{key}.{part}"] = theirs[f"{inside}.{ours}.{part}"]
    folder.mkdir(parents=True)
    save_file({key: each.contiguous().clone() for key, each in found.items()}, folder / "model.safetensors")
    config = model.config
    cfg = {"input_size": [3, config.image_size, config.image_size], "mean": [0.4] * 3, "std": [0.2] * 3, **told}
    tree = {"architecture": name, "num_classes": config.num_labels, "pretrained_cfg": cfg, "num_heads": 3}
    (folder / "config.json").write_text(json.dumps(tree))


def saved(model: PreTrainedModel, folder: Path) -> dict[str, torch.Tensor]:
    """The weights by the names that files have, less the name of the body."""
    model.save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    return {key.removeprefix("vit.").removeprefix("deit."): tensor for key, tensor in stored.items()}


def google_arrays(model: PreTrainedModel, folder: Path, layout: str) -> dict[str, np.ndarray]:
    """The weights under Google's names, with JAX's axes."""
    theirs = {key: each.numpy() for key, each in saved(model, folder).items()}
    big = layout == "big_vision"
    heads, width = SHAPE["num_attention_heads"], SHAPE["hidden_size"]
    attention = f"MultiHeadDotProductAttention_{0 if big else 1}"
    thinking, second = ("MlpBlock_0", "LayerNorm_1") if big else ("MlpBlock_3", "LayerNorm_2")
    found = {
        "embedding/kernel": theirs["embeddings.patch_embeddings.projection.weight"].transpose(2, 3, 1, 0),
        "embedding/bias": theirs["embeddings.patch_embeddings.projection.bias"],
        "Transformer/encoder_norm/scale": theirs["layernorm.weight"],
        "Transformer/encoder_norm/bias": theirs["layernorm.bias"],
        "head/kernel": theirs["classifier.weight"].T, "head/bias": theirs["classifier.bias"],
    }  # fmt: skip
    cls, positions = theirs["embeddings.cls_token"], theirs["embeddings.position_embeddings"]
    if big:  # its class token has no position
        found |= {"cls": cls + positions[:, :1], "pos_embedding": positions[:, 1:]}
    else:
        found |= {"cls": cls, "Transformer/posembed_input/pos_embedding": positions}
    for number in range(SHAPE["num_hidden_layers"]):
        block, inside = f"Transformer/encoderblock_{number}", f"encoder.layer.{number}"
        for norm, ours in (("LayerNorm_0", "layernorm_before"), (second, "layernorm_after")):
            found[f"{block}/{norm}/scale"] = theirs[f"{inside}.{ours}.weight"]
            found[f"{block}/{norm}/bias"] = theirs[f"{inside}.{ours}.bias"]
        for name in ("query", "key", "value"):
            look = f"{inside}.attention.attention.{name}"
            found[f"{block}/{attention}/{name}/kernel"] = theirs[f"{look}.weight"].T.reshape(width, heads, -1)
            found[f"{block}/{attention}/{name}/bias"] = theirs[f"{look}.bias"].reshape(heads, -1)
        out = f"{inside}.attention.output.dense"
        found[f"{block}/{attention}/out/kernel"] = theirs[f"{out}.weight"].T.reshape(heads, -1, width)
        found[f"{block}/{attention}/out/bias"] = theirs[f"{out}.bias"]
        for dense, ours in (("Dense_0", "intermediate.dense"), ("Dense_1", "output.dense")):
            found[f"{block}/{thinking}/{dense}/kernel"] = theirs[f"{inside}.{ours}.weight"].T
            found[f"{block}/{thinking}/{dense}/bias"] = theirs[f"{inside}.{ours}.bias"]
    return found
