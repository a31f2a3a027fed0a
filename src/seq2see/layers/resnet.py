"""Reading a picture through small windows: convolutions with ways around them, and maps that grow coarser.

A 3 x 3 convolution looks at a place and its eight neighbours, with the same weights everywhere. Whatever stands where,
it finds it, and nothing needs to be told where it stands: that is what a ViT has to learn (Dosovitskiy et al. 2021,
section 3.1). Compare `residual.py`: x + f(norm(x)) here and there, with convolutions for attention.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Gridded

Map = Float[Tensor, "row channel height width"]
Coarser = Float[Tensor, "row filter down across"]
"""A map with other channels, of other sides."""

GROUP = 8
"""Channels that a group norm takes together; fewer if a map has fewer."""


def group_norm(channels: int) -> nn.Module:
    """Each picture by itself, some channels at a time (Wu & He 2018): the norm of the CNNs that the ViT paper used."""
    return nn.GroupNorm(max(1, channels // GROUP), channels)


NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "group": group_norm}
"""Over all places of all pictures of a batch (Ioffe & Szegedy 2015), or of each picture by itself."""


class Window(nn.Conv2d):
    """A convolution that has all channels of a place side by side on a GPU, as a sequence has: it is quickest so."""

    def forward(self, features: Map) -> Coarser:
        """What was found at each place."""
        return super().forward(features.contiguous(memory_format=torch.channels_last) if features.is_cuda else features)


def window(into: int, out: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution whose map is as large as what it reads, or by `stride` smaller; no bias, since norms shift.

    Its weights have variance 2 / (size² · out), which keeps that of gradients (He et al. 2015, eq. 14).
    """
    convolution = Window(into, out, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution


class ResidualBlock(nn.Module):
    """x + W₂ * relu(norm(W₁ * relu(norm(x)))), where * is a 3 x 3 convolution.

    He et al. 2016, "Identity Mappings ...", figure 1b: norm and relu stand before each convolution, so that the
    stream runs through untouched.
    """

    def __init__(self, width: int, norm: str):
        super().__init__()
        self.first_norm, self.first = NORMS[norm](width), window(width, width, 3)
        self.second_norm, self.second = NORMS[norm](width), window(width, width, 3)

    def forward(self, features: Map) -> Map:
        """The same map with what was found added to it."""
        found = self.first(functional.relu(self.first_norm(features)))
        return features + self.second(functional.relu(self.second_norm(found)))


class CoarserBlock(nn.Module):
    """The same where the map becomes half as high and wide, and has more channels: the way around is a product, too.

    It takes every other place of relu(norm(x)) through a matrix (their section 4.1).
    """

    def __init__(self, into: int, out: int, norm: str):
        super().__init__()
        self.first_norm, self.first = NORMS[norm](into), window(into, out, 3, stride=2)
        self.second_norm, self.second = NORMS[norm](out), window(out, out, 3)
        self.around = window(into, out, 1, stride=2)

    def forward(self, features: Map) -> Coarser:
        """A coarser map; of an odd number of places, half of one more."""
        ready = functional.relu(self.first_norm(features))
        return self.around(ready) + self.second(functional.relu(self.second_norm(self.first(ready))))


class ResNet(nn.Module):
    """Stages of residual blocks, and a norm at the end (He et al. 2016, "Deep Residual Learning ...", section 4.2).

    Every stage but the first halves the map's sides and doubles its channels, so that all cost about the same; the last
    has `width` of them.
    """

    def __init__(self, width: int, depth: int, stages: int, norm: str):
        super().__init__()
        sizes = [width // 2**above for above in reversed(range(stages))]
        blocks: list[nn.Module] = [ResidualBlock(sizes[0], norm) for _ in range(depth)]
        for into, out in pairwise(sizes):
            blocks += [CoarserBlock(into, out, norm), *(ResidualBlock(out, norm) for _ in range(depth - 1))]
        self.blocks = nn.ModuleList(blocks)
        self.ending = NORMS[norm](width)

    def forward(self, features: Map) -> Coarser:
        """The map of the last stage."""
        found = features
        for block in self.blocks:
            found = block(found)
        return functional.relu(self.ending(found))


class Stem(nn.Module):
    """Patches that overlap: a convolution, relu, and the largest of each 3 x 3 places, of which every other is kept.

    Hassani et al. 2021, eq. 2 (the compact convolutional Transformer): x₀ = maxpool(relu(conv(x))). What is cut in two
    by the border of a patch is whole in a neighbour's. Each layer halves the map's sides and doubles its channels.
    """

    def __init__(self, channels: int, width: int, depth: int):
        super().__init__()
        sizes = [channels, *(width // 2**above for above in reversed(range(depth)))]
        self.windows = nn.ModuleList(window(into, out, 3) for into, out in pairwise(sizes))

    def forward(self, pixels: Map) -> Coarser:
        """A map with `width` channels."""
        features = pixels
        for each in self.windows:
            features = functional.max_pool2d(functional.relu(each(features)), 3, stride=2, padding=1)
        return features


class Features(nn.Module):
    """What a CNN makes of a picture: its coarse map, each place of which a Transformer takes for a patch."""

    def __init__(self, channels: int, width: int, depth: int, stages: int):
        super().__init__()
        self.enter = window(channels, width // 2 ** (stages - 1), 3)
        self.body = ResNet(width, depth, stages, "batch")

    def forward(self, pixels: Map) -> Coarser:
        """A map with `width` channels."""
        return self.body(self.enter(pixels))


def read_off(features: Map) -> Gridded:
    """The map as rows of vectors, line after line from the top left: a picture is a sequence."""
    places = features.flatten(2).mT
    lengths = torch.full((len(places),), places.size(1), device=places.device)
    return Gridded(places, lengths, (features.size(2), features.size(3)))


def as_map(places: Gridded) -> Float[Tensor, "row width down across"]:
    """The inverse: rows of vectors as the map that they cover."""
    return places.values.mT.unflatten(2, places.grid)
