"""Pretrained ViTs in seq2see's layers: from Hugging Face's and timm's folders and from Google's npz files.

Differences are converted once, when the weights are read, so that the layers need no option for them: the position
embedding of the class token is added to the token, the normalization of pixels is folded into the patch projection, and
two heads with averaged logits are merged into one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.decoding.settings import Decoding
from seq2see.interop.safetensors_files import TensorReader, match_weights
from seq2see.interop.vit_layouts import CLASS, DISTILLATION, HEADS, POSITIONS, LayoutNames, vit_mappings
from seq2see.models.build import build_model
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.image_settings import ImageSource
from seq2see.models.named_tensors import load_named_tensors
from seq2see.models.settings import ImageLabel, ModelSettings
from seq2see.sequences.image_dataset import ImageProcessor

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

    By channel, with y = 2 x - 1 (`layers.patch_embedding.PixelNormalization`):
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
