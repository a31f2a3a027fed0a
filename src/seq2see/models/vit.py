"""The Vision Transformer: a Transformer encoder over image patches; an image is worth 16x16 words.

Dosovitskiy et al. 2021. Six steps: split the image into patches, project each to a vector, add position embeddings,
prepend a class token, encode, and classify by the hidden state of the class token. Compare `bert.py`: there embeddings
are looked up in a table, here patches are projected; after the embedding an image is a sequence like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from seq2see.core.batch import Images, Sequences
from seq2see.layers.norms_and_dropout import Dropout
from seq2see.layers.pooling import Pooling
from seq2see.models.embeddings_and_heads import ClassificationHead
from seq2see.models.encoder_model import Classifier
from seq2see.models.resnet_encoder import flatten_map

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


class ImageEmbedding(nn.Module):
    """Steps 1 to 4: patch embeddings plus position encodings, after prefix tokens.

    `patches` maps an image to a feature map: a projection of patches, or a CNN. `prefix_tokens` adds the class token
    (`PrefixTokens`), or is the identity if the pooling needs none.
    """

    def __init__(self, patches: nn.Module, positions: nn.Module, prefix_tokens: nn.Module, dropout: float):
        super().__init__()
        self.normalize = PixelNormalization()
        self.patches, self.positions, self.prefix_tokens = patches, positions, prefix_tokens
        self.dropout = Dropout(dropout)

    def forward(self, images: Images) -> Sequences:
        """Images as sequences of vectors, patches in row-major order."""
        features = self.patches(self.normalize(images.values))
        patches = flatten_map(features)
        vectors = self.prefix_tokens(replace(patches, values=patches.values + self.positions(patches.grid)))
        return replace(vectors, values=self.dropout(vectors.values))


class ViT(Classifier):
    """Steps 5 and 6: encode, pool (the class token, or all patches) and classify."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int, pooling: Pooling):
        super().__init__(source, encoder, settings, classes)
        self.pooling = pooling
        if pooling.vector_count > 1:
            self.head = ClassificationHead(pooling.vector_count * settings.width, classes)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """The output of the pooling."""
        return self.pooling(self.encode(source))
