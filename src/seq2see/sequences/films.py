"""Films as numbers: compare `pixels.py`, where a picture is a film of one frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.sequences.pixels import Pixels
from seq2see.sources.films import see_film, spread


class FilmPixels(Pixels):
    """How a film becomes numbers: so many frames at equal distances, each seen as a picture is."""

    def __init__(self, side: int, channels: int, frames: int):
        super().__init__(side, channels)
        self.frames = frames

    def look(self, picture: str | Path | NDArray[np.uint8]) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
        """(frame, channel, height, width) of a file or folder, with remarks, or of (frame, height, width, channel)."""
        remarks: tuple[str, ...] = ()
        if isinstance(picture, str | Path):
            picture, remarks = see_film(Path(picture), self.side, self.channels, self.frames)
        if picture.dtype != np.uint8 or picture.ndim != 4 or picture.shape[3] != self.channels or not picture.size:
            raise UserError(
                f"These pixels are {picture.dtype} of shape {picture.shape}.",
                remedy=f"Give bytes (uint8) of frame x height x width x {self.channels}, an animated GIF, or a folder.",
            )
        return picture[spread(len(picture), self.frames)].transpose(0, 3, 1, 2), remarks

    def fit(self, pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
        """(frame, channel, height, width) in another size."""
        return np.stack([super(FilmPixels, self).fit(frame, height, width) for frame in pixels])

    def in_size(self, side: int) -> FilmPixels:
        """The same eyes for another size."""
        return FilmPixels(side, self.channels, self.frames)

    @property
    def told(self) -> dict[str, int]:
        """What is written down of it."""
        return super().told | {"frames": self.frames}
