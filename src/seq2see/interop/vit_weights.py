"""ViT weights of other libraries: from the files of timm, Hugging Face and Google to our model, and to Hugging Face.

Differences are converted once, when the weights are read, so that the layers need no option for them: the position
embedding of the class token is added to the token, the normalization of pixels is folded into the patch projection, and
two heads with averaged logits are merged into one.

The export has the layout of ViT (patch embedding, pre-norm, a head on the class token) or of DeiT (two such tokens).
For a model with another setting an error names that setting before anything is written.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import save
from torch import Tensor

from seq2see.core.errors import UserError, unknown_name
from seq2see.core.files import atomic_folder, write_bytes, write_json
from seq2see.core.settings import read_tree
from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.tokenizers.pretrained_tokenizer import DOWNLOAD_AGAIN
from seq2see.decoding.engine import Decoding
from seq2see.interop.checkpoint_files import (
    HF_ACTIVATIONS,
    JsonConfig,
    TensorReader,
    check_finite,
    integer_weight_error,
    match_weights,
)
from seq2see.interop.exportable import ExportableModel, setting_text, unsupported
from seq2see.interop.hugging_face_bert import bert_labels
from seq2see.interop.hugging_face_files import ENGINE, labels_json, stack_json
from seq2see.interop.vit_layouts import (
    BIG_VISION,
    CLASS,
    DISTILLATION,
    HEADS,
    POSITIONS,
    TIMM,
    VISION_TRANSFORMER,
    LayoutNames,
    hugging_face_names,
    vit_mappings,
)
from seq2see.models.build import build_model, load_named_tensors, named_tensors
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings

IGNORED_SUFFIXES = ("pooler.dense.weight", "pooler.dense.bias", "mask_token")
"""Suffixes of weights that are not read: unused heads and the mask token."""
PATCH_PROJECTION = "source.patches.projection"


@dataclass(frozen=True)
class ViTCheckpoint:
    """The weights of a ViT with their names, the model settings, the labels, and the normalization of pixels."""

    weights: TensorReader
    names: LayoutNames
    settings: ModelSettings
    labels: tuple[str, ...]
    mean: tuple[float, ...]
    """The mean of each channel, of pixels between 0 and 1."""
    std: tuple[float, ...]
    """The standard deviation of each channel."""


def vit_model(checkpoint: ViTCheckpoint) -> tuple[EncoderModel, ImageProcessor, Decoding]:
    """The model in seq2see's layers, its image processor and its decoding settings."""
    image = image_settings_of(checkpoint.settings)
    positions = checkpoint.weights.shapes().get(checkpoint.names.positions, (1, 0, 0))[1]
    mappings = list(vit_mappings(checkpoint.names, checkpoint.settings, positions, len(checkpoint.labels)))
    names = match_weights(checkpoint.weights, mappings, "", IGNORED_SUFFIXES)
    external_weights = {
        mapping.key: mapping.from_external([checkpoint.weights.read(names[name]) for name in mapping.external])
        for mapping in mappings
    }
    weights = merge_external(external_weights, checkpoint.settings, checkpoint.weights.location)
    weight, bias = (weights[f"{PATCH_PROJECTION}.{part}"] for part in ("weight", "bias"))
    weights[f"{PATCH_PROJECTION}.weight"], weights[f"{PATCH_PROJECTION}.bias"] = fold_normalization(
        weight, bias, checkpoint.mean, checkpoint.std
    )
    pixels = ImageProcessor(image.image_size, image.channels)
    module = build_model(checkpoint.settings, len(pixels), len(checkpoint.labels))
    assert isinstance(module, EncoderModel)
    load_named_tensors(module, weights)
    decoding = read_tree(Decoding, {"max_new_tokens": 1}, location=checkpoint.weights.location)
    return module.eval(), pixels, decoding


def merge_external(external_weights: Mapping[str, Tensor], settings: ModelSettings, location: str) -> dict[str, Tensor]:
    """The weights of seq2see: prefix tokens with their position embeddings added, two heads merged into one."""
    extra = (*HEADS, CLASS, DISTILLATION, POSITIONS)
    own_weights = {name: tensor for name, tensor in external_weights.items() if not name.startswith(extra)}
    positions, count = external_weights[POSITIONS], settings.prefix_tokens
    prefix_positions = len(positions) - patch_count(settings)  # big_vision's tokens have no position
    if prefix_positions not in (0, count):
        message = f"There are {len(positions)} positions, but {patch_count(settings)} patches and {count} tokens."
        raise UserError(message, location=location, hint="The weights and the config belong to different models.")
    if count:
        tokens = torch.cat([external_weights[name] for name in (CLASS, DISTILLATION)[:count]])
        own_weights["source.prefix_tokens.embeddings"] = (
            tokens + positions[:prefix_positions] if prefix_positions else tokens
        )
    own_weights["source.positions.embedding.weight"] = positions[prefix_positions:]
    if isinstance(settings.target, ImageLabel):
        own_weights |= _merge_heads(external_weights, settings.target)
    return own_weights


def _merge_heads(external_weights: Mapping[str, Tensor], target: ImageLabel) -> dict[str, Tensor]:
    """(h W₁ + b₁ + h' W₂ + b₂) / 2 as one linear layer of [h, h']; without a second head the weights of h' are 0."""
    weights, biases = (
        [external_weights[f"{head}.{part}"] for head in HEADS if f"{head}.{part}" in external_weights]
        for part in ("weight", "bias")
    )
    if target.pooling == "distilled" and len(weights) == 1:
        weights = [weights[0], torch.zeros_like(weights[0])]
    weight = torch.cat(weights, dim=1) / len(biases)
    return {"head.project.weight": weight, "head.project.bias": torch.stack(biases).mean(0)}


def split_external(own_weights: Mapping[str, Tensor], settings: ModelSettings) -> dict[str, Tensor]:
    """The external weights: the inverse of `merge_external`, with zeros as positions of the prefix tokens."""
    converted = ("head.", "source.prefix_tokens", "source.positions")
    external_weights = {name: tensor for name, tensor in own_weights.items() if not name.startswith(converted)}
    tokens, positions = (
        own_weights[name] for name in ("source.prefix_tokens.embeddings", "source.positions.embedding.weight")
    )
    external_weights |= dict(zip((CLASS, DISTILLATION), tokens.split(1), strict=False))
    external_weights[POSITIONS] = torch.cat([torch.zeros_like(tokens), positions])
    weights = own_weights["head.project.weight"].split(positions.size(1), dim=1)
    for head, weight in zip(HEADS, weights, strict=False):
        external_weights[f"{head}.weight"] = weight * len(weights)
        external_weights[f"{head}.bias"] = own_weights["head.project.bias"].clone()
    return external_weights


def fold_normalization(
    weight: Float[Tensor, "width patch"],
    bias: Float[Tensor, "width"],
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> tuple[Float[Tensor, "width patch"], Float[Tensor, "width"]]:
    """The patch projection for pixels 2 x - 1, from one for pixels (x - mean) / std, with x between 0 and 1.

    By channel, with y = 2 x - 1 (`models.vit.PixelNormalization`):
    (x - mean) / std = y / (2 std) + (1/2 - mean) / std.
    """
    by_channel = weight.unflatten(1, (len(mean), -1)).double()
    means, stds = (torch.tensor(numbers, dtype=torch.float64)[:, None] for numbers in (mean, std))
    shift = (by_channel * (0.5 - means) / stds).sum((1, 2))
    scaled = (by_channel / (2 * stds)).flatten(1)
    return scaled.to(weight.dtype), (bias.double() + shift).to(bias.dtype)


def patch_count(settings: ModelSettings) -> int:
    """The number of patches of an image."""
    image = image_settings_of(settings)
    return (image.image_size // image.embedding.size) ** 2


def image_settings_of(settings: ModelSettings) -> ImageSource:
    """The settings of the source, which must be images."""
    assert isinstance(settings.source, ImageSource)
    return settings.source


SUFFIX = ".npy"
PREFIXES = ("params/", "opt/target/", "target/")
"""Prefixes of weight names in files that also hold the state of the optimizer."""
UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Exceptions of a damaged archive; an encrypted archive raises a RuntimeError."""
STACKED_BLOCKS = "/encoderblock/"
"""The mark in the name of an array in which the weights of all blocks are stacked."""


class NpzFile:
    """The named tensors of a model; other arrays of the file are left out."""

    def __init__(self, path: Path):
        self.location = str(path)
        try:
            self._archive = zipfile.ZipFile(path)
            names = [name.removesuffix(SUFFIX) for name in self._archive.namelist() if name.endswith(SUFFIX)]
            self._prefix = next((each for each in PREFIXES if any(name.startswith(each) for name in names)), "")
            model_names = [name for name in names if name.startswith(self._prefix)]
            self._shapes, self._layers = self._unstack(
                {name.removeprefix(self._prefix): self._shape(name) for name in model_names}
            )
        except UNREADABLE as error:
            raise UserError(
                f"These weights cannot be read: {error}.", location=self.location, hint=DOWNLOAD_AGAIN
            ) from None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor, from the header of its array."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """One tensor, in float32."""
        stored, layer = self._layers.get(name, (name, None))
        try:
            with self._archive.open(self._prefix + stored + SUFFIX) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
        except UNREADABLE as error:
            message = f"The weight '{name}' cannot be read: {error}."
            raise UserError(message, location=self.location, hint=DOWNLOAD_AGAIN) from None
        array = array if layer is None else array[layer]
        if array.dtype == np.dtype("V2"):  # bfloat16, which numpy does not support
            weight = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).float()
        elif array.dtype.kind == "f":
            weight = torch.from_numpy(np.ascontiguousarray(array, np.float32))
        else:
            raise integer_weight_error(name, array.dtype.name, self.location)
        return check_finite(weight, name, self.location)

    def _unstack(
        self, shapes: dict[str, tuple[int, ...]]
    ) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, int]]]:
        """The shapes with one name per block, and for each such name its array and its index in it."""
        unstacked, layers = {}, {}
        for name, shape in shapes.items():
            if STACKED_BLOCKS not in name or not shape:
                unstacked[name] = shape
                continue
            for number in range(shape[0]):
                block_name = name.replace(STACKED_BLOCKS, f"{STACKED_BLOCKS[:-1]}_{number}/")
                unstacked[block_name], layers[block_name] = shape[1:], (name, number)
        return unstacked, layers

    def _shape(self, name: str) -> tuple[int, ...]:
        with self._archive.open(name + SUFFIX) as file:
            version = np.lib.format.read_magic(file)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            return tuple(read_header(file)[0])


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
        raise UserError(f"This file cannot be read: {error}.", location=str(path), hint=DOWNLOAD_AGAIN) from None


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
            f"This file cannot be read: {error}.", location=config_values.location, hint=DOWNLOAD_AGAIN
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


# --- export ---


# The supported values of each setting; another value raises an error.
SUPPORTED_IMAGES: dict[str, tuple[Any, ...]] = {
    "encoder.kind": ("transformer",),
    "source.embedding.kind": ("patches",),
    "target.pooling": ("cls", "distilled"),
    "encoder.norm_order": ("pre",),
    "encoder.norm": ("layer",),
    "encoder.activation": tuple(dict.fromkeys(HF_ACTIVATIONS.values())),
    "encoder.bias": (True,),
    "encoder.kv_heads": (0,),
}
IMAGE_ARCHITECTURES = {1: "ViTForImageClassification", 2: "DeiTForImageClassificationWithTeacher"}
"""The class of `transformers` by the number of prefix tokens."""
BILINEAR = 2
"""Pillow's number of bilinear interpolation."""


def vit_layout(settings: ModelSettings) -> str:
    """The class of `transformers` for a model with these settings; an unsupported setting raises an error."""
    for path, values in SUPPORTED_IMAGES.items():
        value: Any = settings
        for name in path.split("."):
            value = getattr(value, name)
        if value not in values:
            reason = f"it is {' or '.join(map(setting_text, values))} in ViT"
            raise unsupported(ENGINE, f"{path}={setting_text(value)}", reason)
    return IMAGE_ARCHITECTURES[settings.prefix_tokens]


@torch.no_grad()
def write_vit(stored: ExportableModel, folder: Path) -> None:
    """Write a folder for the class of `transformers` that `vit_layout` returns."""
    settings, labels = stored.config.model, stored.tokenizers.labels
    architecture, distilled = vit_layout(settings), settings.prefix_tokens == 2
    module: Any = stored.module
    image = image_settings_of(settings)
    own_weights = {name: tensor.float().cpu().clone() for name, tensor in named_tensors(module).items()}
    grid = (image.image_size // image.embedding.size,) * 2
    table = module.source.positions(grid)[0]  # sinusoidal positions become a table
    own_weights["source.positions.embedding.weight"] = table.expand(patch_count(settings), -1).float().cpu().clone()
    weights = split_external(own_weights, settings)
    names = hugging_face_names("deit." if distilled else "vit.", distilled)
    count = patch_count(settings) + settings.prefix_tokens
    exported: dict[str, Tensor] = {}
    for mapping in vit_mappings(names, settings, count, len(labels)):
        exported |= mapping.to_external(weights[mapping.key])
    with atomic_folder(folder) as temporary:
        kind = {"model_type": "deit" if distilled else "vit", "architectures": [architecture]}
        write_json(temporary / "config.json", kind | _image_config(settings, labels))
        write_json(temporary / "preprocessor_config.json", _preprocessor(settings, distilled))
        write_bytes(temporary / "model.safetensors", save(exported, metadata={"format": "pt"}))


def _image_config(settings: ModelSettings, labels: tuple[str, ...]) -> dict[str, Any]:
    stack, image = settings.encoder, image_settings_of(settings)
    assert isinstance(stack, TransformerSettings)
    size = {"image_size": image.image_size, "patch_size": image.embedding.size, "num_channels": image.channels}
    return {**stack_json(stack), "qkv_bias": True, **size, **labels_json(labels)}


def _preprocessor(settings: ModelSettings, distilled: bool) -> dict[str, Any]:
    """The image processor: the whole image resized to a square, and pixels normalized to 2 x - 1."""
    image = image_settings_of(settings)
    return {
        "image_processor_type": "DeiTImageProcessor" if distilled else "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": image.image_size, "width": image.image_size},
        "resample": BILINEAR,
        "do_center_crop": False,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5] * image.channels,
        "image_std": [0.5] * image.channels,
    }
