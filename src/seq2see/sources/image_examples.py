"""Images with what is said of each: pixels in one array, so that a whole set can lie in the memory of a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from seq2see.sources.examples import Example


@dataclass(frozen=True, eq=False)
class ImageExamples(Sequence[Example]):
    """A split of images, all of one size; to whoever does not look at pixels, a list of names and labels.

    As an `Example` an image is (its name, its label).
    """

    pixels: NDArray[np.uint8]  # (image, height, width, channel)
    labels: tuple[str, ...]
    names: tuple[str, ...]
    """The file of each image, or what else it is called."""

    def __post_init__(self) -> None:
        if not len(self.pixels) == len(self.labels) == len(self.names):
            raise ValueError(f"{len(self.pixels)} images, {len(self.labels)} labels, {len(self.names)} names")

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> ImageExamples: ...
    def __getitem__(self, place: int | slice) -> Example | ImageExamples:
        if isinstance(place, slice):
            return ImageExamples(self.pixels[place], self.labels[place], self.names[place])
        return Example(self.names[place], self.labels[place], location=self.names[place])

    @property
    def classes(self) -> tuple[str, ...]:
        """What each shows, where that is one of a few things: its label."""
        return self.labels

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and labels in their order."""
        digest = hashlib.sha256(repr((self.pixels.shape, self.labels)).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()


def short_name(image: str) -> str:
    """An image by its folder and its file: where on this machine they lie is nobody's business.

    >>> called("/somewhere/photos/cat/3.png")
    'cat/3.png'
    """
    return "/".join(Path(image).parts[-2:])
