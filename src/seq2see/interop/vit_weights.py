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
from seq2see.interop.vit_layouts import CLASS, HEADS, POSITIONS, TAUGHT, Names, vit_places
from seq2see.interop.weight_files import Tensors, matched
from seq2see.models.build import build_model
from seq2see.models.packing import unpack_model
from seq2see.models.picture_settings import Picture
from seq2see.models.reader import Reader
from seq2see.models.settings import ModelSettings, PictureLabel
from seq2see.sequences.pixels import Pixels

UNUSED = ("pooler.dense.weight", "pooler.dense.bias", "mask_token")
"""Endings of what some files hold: heads that nobody asks."""
PROJECT = "source.patches.project"


@dataclass(frozen=True)
class ViTFile:
    """What is known of a ViT's weights: their names, the shape of the model, and what its pixels look like."""

    weights: Tensors
    names: Names
    settings: ModelSettings
    labels: tuple[str, ...]
    mean: tuple[float, ...]
    """What it takes away from each channel, of pixels between 0 and 1, ..."""
    spread: tuple[float, ...]
    """... and what it divides by then."""


def vit_model(file: ViTFile) -> tuple[Reader, Pixels, Decoding]:
    """The model in our layers, and how it sees pictures."""
    picture = picture_of(file.settings)
    positions = file.weights.shapes().get(file.names.positions, (1, 0, 0))[1]
    places = list(vit_places(file.names, file.settings, positions, len(file.labels)))
    names = matched(file.weights, places, "", UNUSED)
    found = {place.ours: place.join([file.weights.read(names[name]) for name in place.theirs]) for place in places}
    weights = settled(found, file.settings, file.weights.where)
    weight, bias = (weights[f"{PROJECT}.{part}"] for part in ("weight", "bias"))
    weights[f"{PROJECT}.weight"], weights[f"{PROJECT}.bias"] = toned(weight, bias, file.mean, file.spread)
    pixels = Pixels(picture.side, picture.channels)
    module = build_model(file.settings, len(pixels), len(file.labels))
    assert isinstance(module, Reader)
    unpack_model(module, weights)
    decoding = read_tree(Decoding, {"max_new_tokens": 1}, where=file.weights.where)
    return module.eval(), pixels, decoding


def settled(found: Mapping[str, Tensor], settings: ModelSettings, where: str) -> dict[str, Tensor]:
    """Ours, of what their places gave: tokens with their positions, two heads as one."""
    extra = (*HEADS, CLASS, TAUGHT, POSITIONS)
    ours = {name: tensor for name, tensor in found.items() if not name.startswith(extra)}
    positions, count = found[POSITIONS], settings.in_front
    before = len(positions) - places_of(settings)  # big_vision's tokens have no position
    if before not in (0, count):
        what = f"There are {len(positions)} positions, but {places_of(settings)} patches and {count} tokens."
        raise UserError(what, where=where, remedy="The weights and what is said of them belong to different models.")
    if count:
        tokens = torch.cat([found[name] for name in (CLASS, TAUGHT)[:count]])
        ours["source.tokens.vectors"] = tokens + positions[:before] if before else tokens
    ours["source.positions.table.weight"] = positions[before:]
    if isinstance(settings.target, PictureLabel):
        ours |= _one_head(found, settings.target)
    return ours


def _one_head(found: Mapping[str, Tensor], target: PictureLabel) -> dict[str, Tensor]:
    """(h W₁ + b₁ + h' W₂ + b₂) / 2 as one product with h and h' side by side; without a second, h' counts nothing."""
    weights, biases = (
        [found[f"{head}.{part}"] for head in HEADS if f"{head}.{part}" in found] for part in ("weight", "bias")
    )
    if target.summary == "distilled" and len(weights) == 1:
        weights = [weights[0], torch.zeros_like(weights[0])]
    weight = torch.cat(weights, dim=1) / len(biases)
    return {"head.project.weight": weight, "head.project.bias": torch.stack(biases).mean(0)}


def unsettled(ours: Mapping[str, Tensor], settings: ModelSettings) -> dict[str, Tensor]:
    """What goes to their places, of ours: the inverse of `settled`, with tokens whose position is 0."""
    own = ("head.", "source.tokens", "source.positions")
    theirs = {name: tensor for name, tensor in ours.items() if not name.startswith(own)}
    tokens, positions = ours["source.tokens.vectors"], ours["source.positions.table.weight"]
    theirs |= dict(zip((CLASS, TAUGHT), tokens.split(1), strict=False))
    theirs[POSITIONS] = torch.cat([torch.zeros_like(tokens), positions])
    weights = ours["head.project.weight"].split(positions.size(1), dim=1)
    for head, weight in zip(HEADS, weights, strict=False):
        theirs[f"{head}.weight"], theirs[f"{head}.bias"] = weight * len(weights), ours["head.project.bias"].clone()
    return theirs


def toned(
    weight: Float[Tensor, "width patch"],
    bias: Float[Tensor, "width"],
    mean: tuple[float, ...],
    spread: tuple[float, ...],
) -> tuple[Float[Tensor, "width patch"], Float[Tensor, "width"]]:
    """The product that gives of our tones what theirs gave of (x - mean) / spread, with x between 0 and 1.

    Ours are 2 x - 1 (`layers.patches.Tones`), so theirs are ours / (2 spread) + (1/2 - mean) / spread, by channel.
    """
    by_channel = weight.unflatten(1, (len(mean), -1)).double()
    means, spreads = (torch.tensor(numbers, dtype=torch.float64)[:, None] for numbers in (mean, spread))
    shift = (by_channel * (0.5 - means) / spreads).sum((1, 2))
    scaled = (by_channel / (2 * spreads)).flatten(1)
    return scaled.to(weight.dtype), (bias.double() + shift).to(bias.dtype)


def places_of(settings: ModelSettings) -> int:
    """How many patches a picture has."""
    picture = picture_of(settings)
    return (picture.side // picture.frontend.size) ** 2


def picture_of(settings: ModelSettings) -> Picture:
    """What it looks at."""
    assert isinstance(settings.source, Picture)
    return settings.source
