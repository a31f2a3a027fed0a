"""Examples: a source text with its target text and their annotation, or labeled images.

The pixels of all images are one array, so that a whole dataset can be copied to the memory of a GPU.

Readers and generated corpora both return `Example`s, so tokenizers, batches and metrics do not depend on the origin
of a pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Example:
    """One pair of texts; the optional fields are the gold annotation of generated corpora.

    >>> Example("我 有 笔", "I have a pen", sure_links=((0, 0), (1, 1), (2, 3))).target
    'I have a pen'
    """

    source: str
    target: str
    sure_links: tuple[tuple[int, int], ...] = ()
    """Sure links of the gold alignment: (source word, target word), counted from 0."""
    possible_links: tuple[tuple[int, int], ...] = ()
    """Possible links of the gold alignment."""
    source_words: tuple[str, ...] = ()
    """The source words that the links index, if the source is not split at spaces (Chinese)."""
    target_words: tuple[str, ...] = ()
    """The target words that the links index."""
    source_tags: tuple[str, ...] = ()
    """Part of speech of each source word."""
    target_tags: tuple[str, ...] = ()
    """Part of speech of each target word."""
    references: tuple[str, ...] = ()
    """All references, if there are several (a word with two pronunciations); else empty."""
    location: str = ""
    """"file:line" of data that were read from a file."""

    @property
    def all_references(self) -> tuple[str, ...]:
        """All references; without several, the target alone."""
        return self.references or (self.target,)


@dataclass(frozen=True, eq=False)
class ImageExamples(Sequence[Example]):
    """A split of images, all of one size.

    As an `Example` an image has its name as source and its label as target.
    """

    pixels: NDArray[np.uint8]  # (image, height, width, channel)
    labels: tuple[str, ...]
    names: tuple[str, ...]
    """The file of each image, or another name."""

    def __post_init__(self) -> None:
        if not len(self.pixels) == len(self.labels) == len(self.names):
            raise ValueError(f"{len(self.pixels)} images, {len(self.labels)} labels, {len(self.names)} names")

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> ImageExamples: ...
    def __getitem__(self, index: int | slice) -> Example | ImageExamples:
        if isinstance(index, slice):
            return ImageExamples(self.pixels[index], self.labels[index], self.names[index])
        return Example(self.names[index], self.labels[index], location=self.names[index])

    @property
    def classes(self) -> tuple[str, ...]:
        """The class of each image: its label."""
        return self.labels

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all pixels and labels in their order."""
        digest = hashlib.sha256(repr((self.pixels.shape, self.labels)).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()


def short_name(image: str) -> str:
    """The folder and file name of an image, without the rest of the path, which may be private.

    >>> short_name("/somewhere/photos/cat/3.png")
    'cat/3.png'
    """
    return "/".join(Path(image).parts[-2:])
