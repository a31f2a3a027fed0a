"""ViTs that other people trained, in our layers: from Hugging Face's and timm's folders and from Google's npz files.

What differs from ours is settled once, when the weights are read, and no layer has to know of it: the position of the
class token goes into the token, the tones that a model is used to into the product that sees the pixels, and two heads
of which the mean counts into one.
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
"""Endings of what some files hold: heads that nobody asks."""
PATCH_PROJECTION = "source.patches.projection"


@dataclass(frozen=True)
class ViTCheckpoint:
    """What is known of a ViT's weights: their names, the shape of the model, and what its pixels look like."""

    weights: TensorReader
    names: LayoutNames
    settings: ModelSettings
    labels: tuple[str, ...]
    mean: tuple[float, ...]
    """What it takes away from each channel, of pixels between 0 and 1, ..."""
    std: tuple[float, ...]
    """... and what it divides by then."""


def vit_model(checkpoint: ViTCheckpoint) -> tuple[EncoderModel, ImageProcessor, Decoding]:
    """The model in our layers, and how it sees images."""
    image = image_settings_of(checkpoint.settings)
    positions = checkpoint.weights.shapes().get(checkpoint.names.positions, (1, 0, 0))[1]
    mappings = list(vit_mappings(checkpoint.names, checkpoint.settings, positions, len(checkpoint.labels)))
    names = match_weights(checkpoint.weights, mappings, "", IGNORED_SUFFIXES)
    found = {
        mapping.key: mapping.from_external([checkpoint.weights.read(names[name]) for name in mapping.external])
        for mapping in mappings
    }
    weights = merge_external(found, checkpoint.settings, checkpoint.weights.location)
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


def merge_external(found: Mapping[str, Tensor], settings: ModelSettings, location: str) -> dict[str, Tensor]:
    """Ours, of what their places gave: tokens with their positions, two heads as one."""
    extra = (*HEADS, CLASS, DISTILLATION, POSITIONS)
    ours = {name: tensor for name, tensor in found.items() if not name.startswith(extra)}
    positions, count = found[POSITIONS], settings.prefix_tokens
    before = len(positions) - patch_count(settings)  # big_vision's tokens have no position
    if before not in (0, count):
        what = f"There are {len(positions)} positions, but {patch_count(settings)} patches and {count} tokens."
        raise UserError(
            what, location=location, hint="The weights and what is said of them belong to different models."
        )
    if count:
        tokens = torch.cat([found[name] for name in (CLASS, DISTILLATION)[:count]])
        ours["source.prefix_tokens.embeddings"] = tokens + positions[:before] if before else tokens
    ours["source.positions.embedding.weight"] = positions[before:]
    if isinstance(settings.target, ImageLabel):
        ours |= _one_head(found, settings.target)
    return ours


def _one_head(found: Mapping[str, Tensor], target: ImageLabel) -> dict[str, Tensor]:
    """(h W₁ + b₁ + h' W₂ + b₂) / 2 as one product with h and h' side by side; without a second, h' counts nothing."""
    weights, biases = (
        [found[f"{head}.{part}"] for head in HEADS if f"{head}.{part}" in found] for part in ("weight", "bias")
    )
    if target.pooling == "distilled" and len(weights) == 1:
        weights = [weights[0], torch.zeros_like(weights[0])]
    weight = torch.cat(weights, dim=1) / len(biases)
    return {"head.project.weight": weight, "head.project.bias": torch.stack(biases).mean(0)}


def split_external(ours: Mapping[str, Tensor], settings: ModelSettings) -> dict[str, Tensor]:
    """What goes to their places, of ours: the inverse of `merge_external`, with tokens whose position is 0."""
    own = ("head.", "source.prefix_tokens", "source.positions")
    theirs = {name: tensor for name, tensor in ours.items() if not name.startswith(own)}
    tokens, positions = ours["source.prefix_tokens.embeddings"], ours["source.positions.embedding.weight"]
    theirs |= dict(zip((CLASS, DISTILLATION), tokens.split(1), strict=False))
    theirs[POSITIONS] = torch.cat([torch.zeros_like(tokens), positions])
    weights = ours["head.project.weight"].split(positions.size(1), dim=1)
    for head, weight in zip(HEADS, weights, strict=False):
        theirs[f"{head}.weight"], theirs[f"{head}.bias"] = weight * len(weights), ours["head.project.bias"].clone()
    return theirs


def fold_normalization(
    weight: Float[Tensor, "width patch"],
    bias: Float[Tensor, "width"],
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> tuple[Float[Tensor, "width patch"], Float[Tensor, "width"]]:
    """The product that gives of our tones what theirs gave of (x - mean) / spread, with x between 0 and 1.

    Ours are 2 x - 1 (`layers.patches.PixelNormalization`), so theirs are ours / (2 spread) + (1/2 - mean) / spread, by channel.
    """
    by_channel = weight.unflatten(1, (len(mean), -1)).double()
    means, stds = (torch.tensor(numbers, dtype=torch.float64)[:, None] for numbers in (mean, std))
    shift = (by_channel * (0.5 - means) / stds).sum((1, 2))
    scaled = (by_channel / (2 * stds)).flatten(1)
    return scaled.to(weight.dtype), (bias.double() + shift).to(bias.dtype)


def patch_count(settings: ModelSettings) -> int:
    """How many patches an image has."""
    image = image_settings_of(settings)
    return (image.image_size // image.embedding.size) ** 2


def image_settings_of(settings: ModelSettings) -> ImageSource:
    """What it looks at."""
    assert isinstance(settings.source, ImageSource)
    return settings.source
