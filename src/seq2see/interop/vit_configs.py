"""The configuration files of a ViT as model settings; an unsupported option raises an error with its name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite, isqrt
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.settings import read_tree
from seq2see.interop.bert_configs import bert_labels
from seq2see.interop.causal_configs import HF_ACTIVATIONS, JsonConfig
from seq2see.interop.npz_file import NpzFile
from seq2see.interop.safetensors_files import TensorReader
from seq2see.interop.vit_layouts import BIG_VISION, TIMM, VISION_TRANSFORMER, LayoutNames, hugging_face_names
from seq2see.interop.vit_weights import ViTCheckpoint
from seq2see.models.settings import ModelSettings
from seq2see.sequences.pretrained_tokenizer import DOWNLOAD_AGAIN

# Options without a counterpart here: the only supported value, which is also the default of a missing key.
REQUIRED_VALUES = {"qkv_bias": True}
POOLING_BY_ARCHITECTURE = {
    "ViTForImageClassification": "cls",
    "DeiTForImageClassification": "distilled",
    "DeiTForImageClassificationWithTeacher": "distilled",
    "ViTModel": "",
}
"""The pooling, by the name of the architecture; an encoder without a head has none."""
HALF = (0.5, 0.5, 0.5)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of the channels of ImageNet, with which many models normalize pixels."""
FLAX_NORM_EPS = 1e-6
"""The epsilon of layer norms in Flax and timm."""
TIMM_ARGUMENTS = (
    "img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio", "global_pool"
)  # fmt: skip
"""Supported `model_args` of timm: they follow from the weights, or are read."""
HEAD_DIMS = {"huge": 80, "giant": 88, "gigantic": 104, "so400m": 72}
"""Sizes of a head other than 64, by a word in the name of a ViT (Zhai et al. 2022, table 2)."""


def hugging_face_vit(folder: Path, config: JsonConfig, weights: TensorReader) -> ViTCheckpoint:
    """A ViT or DeiT of `transformers`."""
    config.check(REQUIRED_VALUES)
    kind = config.require("model_type")
    name = str((config.get("architectures", None) or ["ViTModel"])[0])
    if name not in POOLING_BY_ARCHITECTURE:
        raise unknown_name("supported architecture", name, POOLING_BY_ARCHITECTURE, location=config.location)
    activation = config.get("hidden_act", "gelu")
    if activation not in HF_ACTIVATIONS:
        raise config.unsupported("hidden_act", activation, f"there are {', '.join(HF_ACTIVATIONS)}")
    width = config.positive_int("hidden_size", 768)
    encoder = {
        "width": width,
        "depth": config.positive_int("num_hidden_layers", 12),
        "heads": config.positive_int("num_attention_heads", 12),
        "mlp_ratio": config.positive_int("intermediate_size", 3072) / width,
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "activation": HF_ACTIVATIONS[activation],
        "dropout": config.get("hidden_dropout_prob", 0.0),
    }
    image_size, patch_size, channels = (
        config.positive_int(*each) for each in (("image_size", 224), ("patch_size", 16), ("num_channels", 3))
    )
    names = hugging_face_names(f"{kind}." if POOLING_BY_ARCHITECTURE[name] else "", name.endswith("WithTeacher"))
    num_labels = weights.shapes().get(f"{names.heads[0]}.bias", (0,))[0]
    settings = vit_settings((image_size, patch_size, channels), encoder, POOLING_BY_ARCHITECTURE[name], config.location)
    labels = bert_labels(config, num_labels) if POOLING_BY_ARCHITECTURE[name] else ()
    return ViTCheckpoint(weights, names, settings, labels, *_normalization(folder, str(kind), channels))


def _normalization(folder: Path, kind: str, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the pixels, from the preprocessor's file."""
    path = folder / "preprocessor_config.json"
    # The default in a file is one half; without a file, DeiT has ImageNet's mean and standard deviation.
    defaults = IMAGENET if kind == "deit" and not path.exists() else (HALF, HALF)
    try:
        preprocessor = json.loads(path.read_bytes()) if path.exists() else {}
        rescale_factor = preprocessor.get("rescale_factor", 1 / 255)
        if not preprocessor.get("do_rescale", True) or abs(rescale_factor * 255 - 1) > 1e-3:
            raise ValueError("pixels are not rescaled to numbers from 0 to 1")
        if not preprocessor.get("do_normalize", True):
            return (0.0,) * channels, (1.0,) * channels
        mean, std = (
            preprocessor.get(name, each) for name, each in zip(("image_mean", "image_std"), defaults, strict=True)
        )
        return _channel_values(mean, channels), _channel_stds(std, channels)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"This cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None


def _channel_values(values: Any, channels: int) -> tuple[float, ...]:
    """A number for each channel; a grayscale image has the first."""
    numbers = [float(value) for value in values][:channels]
    if len(numbers) != channels or not all(map(isfinite, numbers)):
        raise ValueError(f"{values} are not the numbers of {channels} channels")
    return tuple(numbers)


def _channel_stds(values: Any, channels: int) -> tuple[float, ...]:
    """The standard deviation of each channel, which must not be 0."""
    numbers = _channel_values(values, channels)
    if 0 in numbers:
        raise ValueError(f"pixels cannot be divided by {values}")
    return numbers


def timm_vit(config: JsonConfig, weights: TensorReader) -> ViTCheckpoint:
    """A ViT or DeiT of timm: most settings follow from the names and shapes of its weights."""
    name, shapes = str(config.require("architecture")), weights.shapes()
    if not name.startswith(("vit_", "deit_")):
        message = f"timm's '{name}' is not supported; supported names begin with vit_ or deit_."
        raise UserError(message, location=config.location)
    config_values = _timm_config(config)
    width, channels, patch_size, _ = _shape(shapes, "patch_embed.proj.weight", 4, config.location)
    encoder = _stack(shapes, r"blocks\.(\d+)\.", "blocks.0.mlp.fc1.bias", width, config.location) | {
        "heads": width // next((head_dim for word, head_dim in HEAD_DIMS.items() if word in name), 64),
        "activation": "gelu",
    }
    heads = config_values.get("num_heads", None)
    encoder |= {"heads": heads} if heads else {}
    pooling = "distilled" if "dist_token" in shapes else "cls"
    image_size, mean, std = _timm_normalization(config_values, channels)
    settings = vit_settings((image_size, patch_size, channels), encoder, pooling, config.location)
    label_names = config_values.get("label_names", None)
    num_labels = shapes.get("head.bias", (0,))[0]
    label_config = {"id2label": {str(number): label for number, label in enumerate(label_names)}} if label_names else {}
    labels = bert_labels(JsonConfig(label_config, config.location), num_labels)
    return ViTCheckpoint(weights, TIMM, settings, labels, mean, std)


def _timm_config(config: JsonConfig) -> JsonConfig:
    """The three tables of timm's file merged into one; an unsupported option raises an error."""
    arguments = config.table("model_args")
    for name, value in arguments.items():
        if name not in TIMM_ARGUMENTS and not name.endswith("_rate"):  # dropout rates matter in training only
            raise config.unsupported(f"model_args.{name}", value, f"there are {', '.join(TIMM_ARGUMENTS)}")
    config_values = JsonConfig({**config.tree, **config.table("pretrained_cfg"), **arguments}, config.location)
    config_values.check({"global_pool": "token"})
    return config_values


def _timm_normalization(config_values: JsonConfig, channels: int) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    """The image size, and mean and standard deviation of the pixels."""
    try:
        image_size, (mean, std) = int(config_values.require("input_size")[1]), IMAGENET
        return (
            image_size,
            _channel_values(config_values.get("mean", mean), channels),
            _channel_stds(config_values.get("std", std), channels),
        )
    except (ValueError, TypeError, LookupError) as error:
        raise UserError(
            f"This cannot be read: {error}.", location=config_values.location, hint=DOWNLOAD_AGAIN
        ) from None


def google_vit(path: Path) -> ViTCheckpoint:
    """A ViT of Google's, in the layout of vision_transformer or of big_vision: all settings follow from its weights."""
    weights, location = NpzFile(path), str(path)
    shapes = weights.shapes()
    names = BIG_VISION if BIG_VISION.positions in shapes else VISION_TRANSFORMER
    patch_size, _, channels, width = _shape(shapes, f"{names.patch_embedding}/kernel", 4, location)
    positions = _shape(shapes, names.positions, 3, location)[1]
    first_block = names.block.format(0)
    _, heads, _ = _shape(shapes, f"{first_block}{names.qkv[0]}/kernel", 3, location)
    encoder = _stack(shapes, r"encoderblock_(\d+)/", f"{first_block}{names.fc1}/bias", width, location)
    encoder |= {"heads": heads, "activation": "gelu-tanh"}
    pooling = _pooling(names, shapes)
    grid = isqrt(positions)  # if the number of positions is not a square, it includes a class token
    settings = vit_settings((grid * patch_size, patch_size, channels), encoder, pooling, location)
    num_labels = shapes.get("head/bias", (0,))[0]
    labels = bert_labels(JsonConfig({}, location), num_labels) if pooling else ()
    return ViTCheckpoint(weights, names, settings, labels, HALF[:channels], HALF[:channels])


def _pooling(names: LayoutNames, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The pooling before the head; empty without a head."""
    if "head/kernel" not in shapes:
        return ""
    if f"{names.map_head}probe" in shapes:
        return "map"
    if "cls" not in shapes:
        return "mean"
    return "pre-logits" if f"{names.pre_logits}/kernel" in shapes else "cls"


def _shape(shapes: Mapping[str, tuple[int, ...]], name: str, axes: int, location: str) -> tuple[int, ...]:
    """The shape of a weight that every ViT has."""
    shape = shapes.get(name, ())
    if len(shape) != axes:
        message = f"There is no weight '{name}' with {axes} axes, so this is not a ViT."
        raise UserError(message, location=location, hint="Give the file of a Vision Transformer.")
    return shape


def _stack(
    shapes: Mapping[str, tuple[int, ...]], block: str, hidden: str, width: int, location: str
) -> dict[str, int | float | str]:
    """The encoder settings that follow from the names and shapes of the weights."""
    numbers = {int(match[1]) for name in shapes if (match := re.search(block, name))}
    mlp_ratio = _shape(shapes, hidden, 1, location)[0] / width
    return {"width": width, "depth": len(numbers), "mlp_ratio": mlp_ratio, "norm_eps": FLAX_NORM_EPS, "dropout": 0.0}


def vit_settings(image: tuple[int, int, int], encoder: Mapping[str, Any], pooling: str, location: str) -> ModelSettings:
    """The settings of a ViT; `image` is (image size, patch size, channels)."""
    image_size, patch_size, channels = image
    target = {"kind": "image-label", "pooling": pooling} if pooling else {"kind": "embedding", "pooling": "cls"}
    embedding = {"kind": "patches", "size": patch_size}
    source = {"kind": "image", "image_size": image_size, "channels": channels, "embedding": embedding}
    tree = {"source": source, "target": target, "encoder": {"kind": "transformer", **encoder}}
    return read_tree(ModelSettings, tree, location=location)
