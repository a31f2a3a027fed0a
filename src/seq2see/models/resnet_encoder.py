"""A ResNet that reads what an image's frontend gives, as the Transformer does: what a ViT is compared with.

He et al. 2016. Compare `transformer.py`: there every place looks at all others from the first block on, here only at
its neighbors, and the map grows coarser until a few places cover the whole image.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import PositiveInt
from torch import nn

from seq2see.core.batch import PatchGrid
from seq2see.core.settings import Settings
from seq2see.layers.padding import masked_mean
from seq2see.layers.resnet import ResNet, flatten_map, unflatten_map
from seq2see.models.encoder_output import EncoderOutput


class ConvStemSettings(Settings):
    """Images are cut into patches that overlap, by a few convolutions (Hassani et al. 2021)."""

    kind: Literal["conv-stem"] = "conv-stem"
    depth: PositiveInt = 2
    """Convolutions on top of each other; each halves the sides of the map: patches stand 2^depth pixels apart."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """How a model is told where a patch stands."""

    @property
    def size(self) -> int:
        """Pixels from one patch to the next."""
        return 2**self.depth


class ResNetStemSettings(Settings):
    """A CNN looks first, and each place of its coarse map is a patch (Dosovitskiy et al. 2021, section 3.1: hybrid)."""

    kind: Literal["resnet-stem"] = "resnet-stem"
    depth: PositiveInt = 2
    """Residual blocks a stage."""
    stages: PositiveInt = 4
    """Stages; each but the first halves the sides of the map: patches stand 2^(stages - 1) pixels apart."""
    positions: ClassVar[str] = "learned"

    @property
    def size(self) -> int:
        """Pixels from one patch to the next."""
        return 2 ** (self.stages - 1)


class PixelEmbeddingSettings(Settings):
    """Every pixel becomes a vector, with its eight neighbors: what a CNN begins with."""

    kind: Literal["pixels"] = "pixels"
    size: ClassVar[int] = 1
    positions: ClassVar[str] = "none"  # a CNN needs not be told where a pixel stands


class ResNetSettings(Settings):
    """An encoder of convolutions with ways around them, for images."""

    kind: Literal["resnet"] = "resnet"
    width: PositiveInt = 512
    """Channels of the last stage; each stage below has half of those above it."""
    depth: PositiveInt = 2
    """Residual blocks a stage, of two convolutions each."""
    stages: PositiveInt = 4
    """Stages; each but the first halves the sides of the map."""
    norm: Literal["batch", "group"] = "batch"
    """What a norm takes together: a channel of the whole batch, or some channels of one image."""
    dropout: ClassVar[float] = 0.0  # a CNN is kept from learning by heart by other views of its images

    @property
    def enters(self) -> int:
        """Width of the vectors that the first stage takes."""
        return self.width // 2 ** (self.stages - 1)


class ResNetEncoder(nn.Module):
    """Every place of a coarse map ends up knowing the part of the image around it."""

    def __init__(self, settings: ResNetSettings):
        super().__init__()
        self.stages = ResNet(settings.width, settings.depth, settings.stages, settings.norm)

    def forward(self, source: PatchGrid) -> EncoderOutput:
        """Read the vectors of an image; the summary is the mean of all places of the last map."""
        places = flatten_map(self.stages(unflatten_map(source)))
        return EncoderOutput(places.values, places.lengths, masked_mean(places))
