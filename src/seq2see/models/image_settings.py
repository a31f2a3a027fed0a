"""What a model looks at: images, and videos, which are images one after another."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2see.core.settings import Settings, default_kind
from seq2see.models.resnet_encoder import ConvStemSettings, PixelEmbeddingSettings, ResNetStemSettings


class PatchEmbeddingSettings(Settings):
    """Images are cut into square patches, and each becomes a vector, plus one for where it stands."""

    kind: Literal["patches"] = "patches"
    size: PositiveInt = 4
    """Pixels on each side of a patch."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """How a model is told where a patch stands."""


PATCH_STRIDE_SETTING = {
    "patches": "source.embedding.size",
    "conv-stem": "2^source.embedding.depth =",
    "resnet-stem": "2^(source.embedding.stages - 1) =",
}
"""What decides how many pixels stand from one patch to the next, in the words of a recipe; pixels are one apart."""


class ImageSource(Settings):
    """An image that is looked at."""

    kind: Literal["image"] = "image"
    image_size: int = Field(32, ge=1, le=4096)
    """Pixels on each side: what a model learns from has this size, or is brought to it."""
    channels: Literal[1, 3] = 3
    """Numbers of a pixel: 3 are red, green and blue, 1 is gray."""
    embedding: Annotated[
        PatchEmbeddingSettings | ConvStemSettings | ResNetStemSettings | PixelEmbeddingSettings,
        Field(discriminator="kind"),
        default_kind("patches"),
    ] = PatchEmbeddingSettings()
    """How pixels become vectors."""

    def nearest_image_size(self, image_size: int) -> int:
        """The number of pixels nearest to this that is whole patches."""
        return max(1, round(image_size / self.embedding.size)) * self.embedding.size


class VideoSource(ImageSource):
    """A video that is watched: images one after another."""

    kind: Literal["video"] = "video"  # type: ignore[assignment]
    frames: int = Field(8, ge=2, le=1024)
    """Images in a video: of one that has more, as many are taken at equal distances."""

    def nearest_image_size(self, image_size: int) -> int:
        """The size that was learned: what stands where in a frame has weights of its own."""
        return self.image_size
