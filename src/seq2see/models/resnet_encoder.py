"""A ResNet as encoder of embedded images: the convolutional baseline of a ViT.

He et al. 2016. Compare `transformer.py`: there every position attends to all others from the first block on; here a
position reads only its neighbors, and the feature map is downsampled until a few positions cover the whole image.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import PositiveInt
from torch import nn

from seq2see.core.batch import PatchGrid
from seq2see.core.settings import Settings
from seq2see.layers.masks import masked_mean
from seq2see.layers.resnet import ResNet, flatten_map, unflatten_map
from seq2see.models.encoder_model import EncoderOutput


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
