"""ResNets: residual blocks of convolutions, stems for a ViT, and a ResNet as encoder of embedded images.

A 3 x 3 convolution combines a pixel and its eight neighbors, with the same weights at all positions. It detects a
pattern wherever it occurs and needs no position encoding: a ViT must learn this property (Dosovitskiy et al. 2021,
section 3.1). Compare `PreNorm`: x + f(norm(x)) here and there, with convolutions instead of attention.

As an encoder, a ResNet is the convolutional baseline of a ViT (He et al. 2016). Compare `transformer.py`: there every
position attends to all others from the first block on; here a position reads only its neighbors, and the feature map is
downsampled until a few positions cover the whole image.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import PatchGrid
from seq2see.core.settings import Settings
from seq2see.layers.masks import masked_mean
from seq2see.models.encoder_model import EncoderOutput

FeatureMap = Float[Tensor, "row channel height width"]
OutputMap = Float[Tensor, "row filter down across"]
"""A feature map with another number of channels, height and width."""

CHANNELS_PER_GROUP = 8
"""The number of channels in each group of a group norm; fewer if a feature map has fewer."""


def group_norm(channels: int) -> nn.Module:
    """Normalize groups of channels of each image (Wu & He 2018): the norm of the CNNs in the ViT paper."""
    return nn.GroupNorm(max(1, channels // CHANNELS_PER_GROUP), channels)


NORMS_2D: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "group": group_norm}
"""Statistics over all positions of all images of a batch (Ioffe & Szegedy 2015), or over each image by itself."""


def conv2d(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution with "same" padding, a stride, and no bias, since the norms have one.

    Its weights have variance 2 / (size² · out), which keeps the variance of gradients (He et al. 2015, eq. 14).
    """
    convolution = nn.Conv2d(in_channels, out_channels, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution


class ResidualBlock(nn.Module):
    """x + W₂ * relu(norm(W₁ * relu(norm(x)))), where * is a 3 x 3 convolution.

    He et al. 2016, "Identity Mappings ...", figure 1b: norm and relu come before each convolution, so that nothing
    changes the residual stream itself (pre-activation).
    """

    def __init__(self, width: int, norm: str):
        super().__init__()
        self.norm1, self.conv1 = NORMS_2D[norm](width), conv2d(width, width, 3)
        self.norm2, self.conv2 = NORMS_2D[norm](width), conv2d(width, width, 3)

    def forward(self, features: FeatureMap) -> FeatureMap:
        """Add the output of both convolutions to the feature map."""
        output = self.conv1(functional.relu(self.norm1(features)))
        return features + self.conv2(functional.relu(self.norm2(output)))


class DownsamplingBlock(nn.Module):
    """A residual block that halves height and width and changes the number of channels.

    Its shortcut is a projection: a 1 x 1 convolution with stride 2 of relu(norm(x)) (He et al. 2016, section 4.1).
    """

    def __init__(self, in_channels: int, out_channels: int, norm: str):
        super().__init__()
        self.norm1, self.conv1 = NORMS_2D[norm](in_channels), conv2d(in_channels, out_channels, 3, stride=2)
        self.norm2, self.conv2 = NORMS_2D[norm](out_channels), conv2d(out_channels, out_channels, 3)
        self.downsample = conv2d(in_channels, out_channels, 1, stride=2)

    def forward(self, features: FeatureMap) -> OutputMap:
        """A feature map of half the height and width, rounded up."""
        activated = functional.relu(self.norm1(features))
        return self.downsample(activated) + self.conv2(functional.relu(self.norm2(self.conv1(activated))))


class ResNet(nn.Module):
    """Stages of residual blocks, and a norm at the end (He et al. 2016, "Deep Residual Learning ...", section 4.2).

    Every stage but the first halves height and width and doubles the channels, so that all stages need about the same
    computation. The last stage has `width` channels.
    """

    def __init__(self, width: int, depth: int, stages: int, norm: str):
        super().__init__()
        sizes = [width // 2**exponent for exponent in reversed(range(stages))]
        blocks: list[nn.Module] = [ResidualBlock(sizes[0], norm) for _ in range(depth)]
        for in_channels, out_channels in pairwise(sizes):
            blocks += [
                DownsamplingBlock(in_channels, out_channels, norm),
                *(ResidualBlock(out_channels, norm) for _ in range(depth - 1)),
            ]
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = NORMS_2D[norm](width)

    def forward(self, features: FeatureMap) -> OutputMap:
        """The feature map of the last stage."""
        output = features
        for block in self.blocks:
            output = block(output)
        return functional.relu(self.final_norm(output))


class ConvolutionalStem(nn.Module):
    """A convolutional stem, with overlapping patches: convolution, relu, and 3 x 3 max pooling with stride 2.

    Hassani et al. 2021, eq. 2 (the compact convolutional Transformer): x₀ = maxpool(relu(conv(x))). Objects at the
    border of a patch are inside an adjacent one. Each layer halves height and width and doubles the channels.
    """

    def __init__(self, channels: int, width: int, depth: int):
        super().__init__()
        sizes = [channels, *(width // 2**exponent for exponent in reversed(range(depth)))]
        self.convs = nn.ModuleList(
            conv2d(in_channels, out_channels, 3) for in_channels, out_channels in pairwise(sizes)
        )

    def forward(self, pixels: FeatureMap) -> OutputMap:
        """A feature map with `width` channels."""
        features = pixels
        for conv in self.convs:
            features = functional.max_pool2d(functional.relu(conv(features)), 3, stride=2, padding=1)
        return features


class ResNetStem(nn.Module):
    """A ResNet as the stem of a ViT (hybrid): each position of its feature map is a patch of the Transformer."""

    def __init__(self, channels: int, width: int, depth: int, stages: int):
        super().__init__()
        self.input_conv = conv2d(channels, width // 2 ** (stages - 1), 3)
        self.body = ResNet(width, depth, stages, "batch")

    def forward(self, pixels: FeatureMap) -> OutputMap:
        """A feature map with `width` channels."""
        return self.body(self.input_conv(pixels))


def flatten_map(features: FeatureMap) -> PatchGrid:
    """The feature map as sequences of vectors, row by row from the top left."""
    vectors = features.flatten(2).mT
    lengths = torch.full((len(vectors),), vectors.size(1), device=vectors.device)
    return PatchGrid(vectors, lengths, (features.size(2), features.size(3)))


def unflatten_map(vectors: PatchGrid) -> Float[Tensor, "row width down across"]:
    """The inverse of `flatten_map`: sequences of vectors as a feature map."""
    return vectors.values.mT.unflatten(2, vectors.grid)


class ConvStemSettings(Settings):
    """A convolutional stem, which splits images into overlapping patches (CCT; Hassani et al. 2021)."""

    kind: Literal["conv-stem"] = "conv-stem"
    depth: PositiveInt = 2
    """Convolutional layers; each halves height and width, so the stride of the patches is 2^depth pixels."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """Position encoding of the patches."""

    @property
    def size(self) -> int:
        """Pixels from one patch to the next."""
        return 2**self.depth


class ResNetStemSettings(Settings):
    """The feature map of a ResNet in place of patches (hybrid ViT; Dosovitskiy et al. 2021, section 3.1)."""

    kind: Literal["resnet-stem"] = "resnet-stem"
    depth: PositiveInt = 2
    """Residual blocks per stage."""
    stages: PositiveInt = 4
    """Stages; each but the first halves height and width, so the stride of the patches is 2^(stages - 1) pixels."""
    positions: ClassVar[str] = "learned"

    @property
    def size(self) -> int:
        """Pixels from one patch to the next."""
        return 2 ** (self.stages - 1)


class PixelEmbeddingSettings(Settings):
    """An embedding of every pixel by a 3 x 3 convolution, the first layer of a CNN."""

    kind: Literal["pixels"] = "pixels"
    size: ClassVar[int] = 1
    positions: ClassVar[str] = "none"  # a CNN needs no position encoding


class ResNetSettings(Settings):
    """A ResNet encoder for images (He et al. 2016)."""

    kind: Literal["resnet"] = "resnet"
    width: PositiveInt = 512
    """Channels of the last stage; each earlier stage has half as many as the next."""
    depth: PositiveInt = 2
    """Residual blocks per stage, of two convolutions each."""
    stages: PositiveInt = 4
    """Stages; each but the first halves height and width of the feature map."""
    norm: Literal["batch", "group"] = "batch"
    """Batch norm (statistics of a channel over the batch) or group norm (of some channels of one image)."""
    dropout: ClassVar[float] = 0.0  # a CNN is regularized by augmentation

    @property
    def input_width(self) -> int:
        """Width of the input of the first stage."""
        return self.width // 2 ** (self.stages - 1)


class ResNetEncoder(nn.Module):
    """A ResNet over the grid of an embedded image."""

    def __init__(self, settings: ResNetSettings):
        super().__init__()
        self.stages = ResNet(settings.width, settings.depth, settings.stages, settings.norm)

    def forward(self, source: PatchGrid) -> EncoderOutput:
        """The last feature map as a sequence; the pooled vector is its mean."""
        features = flatten_map(self.stages(unflatten_map(source)))
        return EncoderOutput(features.values, features.lengths, masked_mean(features))
