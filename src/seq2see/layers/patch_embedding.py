"""From an image to a sequence: pixel normalization, and patches that are embedded like tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

Pixels = Shaped[Tensor, "row channel height width"]


class PixelNormalization(nn.Module):
    """(x / 255 - mean) / std: pixels as numbers around 0, the scale that layers expect."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: float = 0.5, std: float = 0.5):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("std", torch.tensor(std), persistent=False)

    def forward(self, pixels: Pixels) -> Float[Tensor, "row channel height width"]:
        """Normalize the pixels of a batch of images."""
        return (pixels / 255 - self.mean) / self.std


def patchify(pixels: Float[Tensor, "row channel height width"], size: int) -> Float[Tensor, "row down across patch"]:
    """Square patches of size x size pixels, left to right, top to bottom; both sides must be multiples of `size`.

    Each patch becomes one vector: its rows of pixels one after another, all rows of the first channel first.

    >>> patchify(torch.arange(8.0).view(1, 1, 2, 4), 2).tolist()
    [[[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]]]
    """
    patches = pixels.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # row channel down y across x
    return patches.permute(0, 2, 4, 1, 3, 5).flatten(3)


class PatchEmbedding(nn.Module):
    """Split an image into patches, and project each patch: v = patch W + b (Dosovitskiy et al. 2021, eq. 1).

    A convolution whose kernel size equals its stride computes the same numbers; a linear layer is faster on a CPU, and
    closer to the equation.
    """

    def __init__(self, channels: int, size: int, width: int):
        super().__init__()
        self.size = size
        self.projection = nn.Linear(channels * size * size, width)

    def forward(self, pixels: Float[Tensor, "row channel height width"]) -> Float[Tensor, "row filter down across"]:
        """The embedding of each patch, as the channels of a feature map."""
        return self.projection(patchify(pixels, self.size)).permute(0, 3, 1, 2)
