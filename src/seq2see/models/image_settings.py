"""Settings of image and video sources."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2see.core.settings import Settings, default_kind
from seq2see.models.resnet_encoder import ConvStemSettings, PixelEmbeddingSettings, ResNetStemSettings


class PatchEmbeddingSettings(Settings):
    """Patch embeddings: square patches, each projected to a vector, plus position encodings."""

    kind: Literal["patches"] = "patches"
    size: PositiveInt = 4
    """Side length of a patch in pixels."""
    positions: Literal["learned", "sinusoidal", "none"] = "learned"
    """Position encoding of the patches."""


PATCH_STRIDE_SETTING = {
    "patches": "source.embedding.size",
    "conv-stem": "2^source.embedding.depth =",
    "resnet-stem": "2^(source.embedding.stages - 1) =",
}
"""The setting that determines the stride of the patches in pixels, for error messages; `pixels` have stride 1."""


class ImageSource(Settings):
    """The source image."""

    kind: Literal["image"] = "image"
    image_size: int = Field(32, ge=1, le=4096)
    """Side length in pixels; training images of other sizes are resized to it."""
    channels: Literal[1, 3] = 3
    """Color channels: 3 for RGB, 1 for grayscale."""
    embedding: Annotated[
        PatchEmbeddingSettings | ConvStemSettings | ResNetStemSettings | PixelEmbeddingSettings,
        Field(discriminator="kind"),
        default_kind("patches"),
    ] = PatchEmbeddingSettings()
    """How pixels are embedded."""

    def nearest_image_size(self, image_size: int) -> int:
        """The multiple of the patch size that is nearest to `image_size`."""
        return max(1, round(image_size / self.embedding.size)) * self.embedding.size


class VideoSource(ImageSource):
    """The source video: a sequence of images."""

    kind: Literal["video"] = "video"  # type: ignore[assignment]
    frames: int = Field(8, ge=2, le=1024)
    """Frames of a video; longer videos are sampled at equal intervals."""

    def nearest_image_size(self, image_size: int) -> int:
        """The size of the settings: the projection has separate weights for every patch of a frame."""
        return self.image_size
