"""Reading an image through small windows: convolutions with ways around them, and maps that grow coarser.

A 3 x 3 convolution looks at a place and its eight neighbors, with the same weights everywhere. Whatever stands where,
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

from seq2see.core.batch import PatchGrid

FeatureMap = Float[Tensor, "row channel height width"]
OutputMap = Float[Tensor, "row filter down across"]
"""A map with other channels, of other sides."""

CHANNELS_PER_GROUP = 8
"""Channels that a group norm takes together; fewer if a map has fewer."""


def group_norm(channels: int) -> nn.Module:
    """Each image by itself, some channels at a time (Wu & He 2018): the norm of the CNNs that the ViT paper used."""
    return nn.GroupNorm(max(1, channels // CHANNELS_PER_GROUP), channels)


NORMS_2D: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "group": group_norm}
"""Over all places of all images of a batch (Ioffe & Szegedy 2015), or of each image by itself."""


class ChannelsLastConv2d(nn.Conv2d):
    """A convolution that has all channels of a place side by side on a GPU, as a sequence has: it is quickest so."""

    def forward(self, features: FeatureMap) -> OutputMap:
        """What was found at each place."""
        return super().forward(features.contiguous(memory_format=torch.channels_last) if features.is_cuda else features)


def conv2d(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution whose map is as large as what it reads, or by `stride` smaller; no bias, since norms shift.

    Its weights have variance 2 / (size² · out), which keeps that of gradients (He et al. 2015, eq. 14).
    """
    convolution = ChannelsLastConv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution


class ResidualBlock(nn.Module):
    """x + W₂ * relu(norm(W₁ * relu(norm(x)))), where * is a 3 x 3 convolution.

    He et al. 2016, "Identity Mappings ...", figure 1b: norm and relu stand before each convolution, so that the
    stream runs through untouched.
    """

    def __init__(self, width: int, norm: str):
        super().__init__()
        self.norm1, self.conv1 = NORMS_2D[norm](width), conv2d(width, width, 3)
        self.norm2, self.conv2 = NORMS_2D[norm](width), conv2d(width, width, 3)

    def forward(self, features: FeatureMap) -> FeatureMap:
        """The same map with what was found added to it."""
        output = self.conv1(functional.relu(self.norm1(features)))
        return features + self.conv2(functional.relu(self.norm2(output)))


class DownsamplingBlock(nn.Module):
    """The same where the map becomes half as high and wide, and has more channels: the way around is a product, too.

    It takes every other place of relu(norm(x)) through a matrix (their section 4.1).
    """

    def __init__(self, in_channels: int, out_channels: int, norm: str):
        super().__init__()
        self.norm1, self.conv1 = NORMS_2D[norm](in_channels), conv2d(in_channels, out_channels, 3, stride=2)
        self.norm2, self.conv2 = NORMS_2D[norm](out_channels), conv2d(out_channels, out_channels, 3)
        self.downsample = conv2d(in_channels, out_channels, 1, stride=2)

    def forward(self, features: FeatureMap) -> OutputMap:
        """A coarser map; of an odd number of places, half of one more."""
        ready = functional.relu(self.norm1(features))
        return self.downsample(ready) + self.conv2(functional.relu(self.norm2(self.conv1(ready))))


class ResNet(nn.Module):
    """Stages of residual blocks, and a norm at the end (He et al. 2016, "Deep Residual Learning ...", section 4.2).

    Every stage but the first halves the map's sides and doubles its channels, so that all cost about the same; the last
    has `width` of them.
    """

    def __init__(self, width: int, depth: int, stages: int, norm: str):
        super().__init__()
        sizes = [width // 2**above for above in reversed(range(stages))]
        blocks: list[nn.Module] = [ResidualBlock(sizes[0], norm) for _ in range(depth)]
        for in_channels, out_channels in pairwise(sizes):
            blocks += [
                DownsamplingBlock(in_channels, out_channels, norm),
                *(ResidualBlock(out_channels, norm) for _ in range(depth - 1)),
            ]
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = NORMS_2D[norm](width)

    def forward(self, features: FeatureMap) -> OutputMap:
        """The map of the last stage."""
        output = features
        for block in self.blocks:
            output = block(output)
        return functional.relu(self.final_norm(output))


class ConvolutionalStem(nn.Module):
    """Patches that overlap: a convolution, relu, and the largest of each 3 x 3 places, of which every other is kept.

    Hassani et al. 2021, eq. 2 (the compact convolutional Transformer): x₀ = maxpool(relu(conv(x))). What is cut in two
    by the border of a patch is whole in a neighbor's. Each layer halves the map's sides and doubles its channels.
    """

    def __init__(self, channels: int, width: int, depth: int):
        super().__init__()
        sizes = [channels, *(width // 2**above for above in reversed(range(depth)))]
        self.convs = nn.ModuleList(
            conv2d(in_channels, out_channels, 3) for in_channels, out_channels in pairwise(sizes)
        )

    def forward(self, pixels: FeatureMap) -> OutputMap:
        """A map with `width` channels."""
        features = pixels
        for each in self.convs:
            features = functional.max_pool2d(functional.relu(each(features)), 3, stride=2, padding=1)
        return features


class ResNetStem(nn.Module):
    """What a CNN makes of an image: its coarse map, each place of which a Transformer takes for a patch."""

    def __init__(self, channels: int, width: int, depth: int, stages: int):
        super().__init__()
        self.input_conv = conv2d(channels, width // 2 ** (stages - 1), 3)
        self.body = ResNet(width, depth, stages, "batch")

    def forward(self, pixels: FeatureMap) -> OutputMap:
        """A map with `width` channels."""
        return self.body(self.input_conv(pixels))


def flatten_map(features: FeatureMap) -> PatchGrid:
    """The map as rows of vectors, line after line from the top left: an image is a sequence."""
    vectors = features.flatten(2).mT
    lengths = torch.full((len(vectors),), vectors.size(1), device=vectors.device)
    return PatchGrid(vectors, lengths, (features.size(2), features.size(3)))


def unflatten_map(vectors: PatchGrid) -> Float[Tensor, "row width down across"]:
    """The inverse: rows of vectors as the map that they cover."""
    return vectors.values.mT.unflatten(2, vectors.grid)
