"""Videos as tensors; compare `image_dataset.py`: an image is a video of one frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.sequences.image_dataset import ImageProcessor
from seq2see.sources.video_decoding import frame_indices, load_video


class VideoProcessor(ImageProcessor):
    """The processor of videos: `frames` frames at equal intervals, each processed as an image."""

    def __init__(self, image_size: int, channels: int, frames: int):
        super().__init__(image_size, channels)
        self.frames = frames

    def preprocess(self, image: str | Path | NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
        """(frame, channel, height, width) of a file or folder, with warnings, or of (frame, height, width, channel)."""
        warnings: tuple[str, ...] = ()
        if isinstance(image, str | Path):
            image, warnings = load_video(Path(image), self.image_size, self.channels, self.frames)
        if image.dtype != np.uint8 or image.ndim != 4 or image.shape[3] != self.channels or not image.size:
            raise UserError(
                f"These pixels are {image.dtype} of shape {image.shape}.",
                hint=f"Give bytes (uint8) of frame x height x width x {self.channels}, an animated GIF, or a folder.",
            )
        return image[frame_indices(len(image), self.frames)].transpose(0, 3, 1, 2), warnings

    def resize(self, pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
        """(frame, channel, height, width) in another size."""
        return np.stack([super(VideoProcessor, self).resize(frame, height, width) for frame in pixels])

    def with_size(self, image_size: int) -> VideoProcessor:
        """A processor with another image size."""
        return VideoProcessor(image_size, self.channels, self.frames)

    @property
    def config(self) -> dict[str, int]:
        """The stored settings."""
        return super().config | {"frames": self.frames}
