"""From pixels to a sequence: cut an image into patches, as a text is cut into tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

Pixels = Shaped[Tensor, "row channel height width"]


class PixelNormalization(nn.Module):
    """(x / 255 - mean) / spread: pixels as numbers around 0, which is what layers begin with."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: float = 0.5, std: float = 0.5):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("spread", torch.tensor(std), persistent=False)

    def forward(self, pixels: Pixels) -> Float[Tensor, "row channel height width"]:
        """The same images in fractions."""
        return (pixels / 255 - self.mean) / self.std


def patchify(pixels: Float[Tensor, "row channel height width"], size: int) -> Float[Tensor, "row down across patch"]:
    """Square patches of size x size pixels, in the order in which one reads; both sides must be multiples of `size`.

    Each patch becomes one vector: its rows of pixels one after another, first all of the first channel.

    >>> cut(torch.arange(8.0).view(1, 1, 2, 4), 2).tolist()
    [[[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]]]
    """
    squares = pixels.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # row channel down y across x
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3)


class PatchEmbedding(nn.Module):
    """Cut into patches and project each: v = patch W + b (Dosovitskiy et al. 2021, eq. 1).

    The same numbers come out of a convolution whose kernel is as large as its stride; a product is quicker on a CPU
    and says more plainly what happens.
    """

    def __init__(self, channels: int, size: int, width: int):
        super().__init__()
        self.size = size
        self.projection = nn.Linear(channels * size * size, width)

    def forward(self, pixels: Float[Tensor, "row channel height width"]) -> Float[Tensor, "row filter down across"]:
        """A vector for each patch, as the channels of a map."""
        return self.projection(patchify(pixels, self.size)).permute(0, 3, 1, 2)
