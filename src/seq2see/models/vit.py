"""The Vision Transformer: BERT's half of the Transformer with another frontend; an image is worth 16x16 words.

Dosovitskiy et al. 2021. Six steps: cut the image into patches, project each to a vector, add where it stands, put a
class token in front, encode, and read what became of the class token. Compare `bert.py`: there tokens are looked up in
a table, here patches are multiplied by a matrix; behind the frontend an image is a sequence like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Images, Sequences
from seq2see.layers.dropout import Dropout
from seq2see.layers.patch_embedding import PixelNormalization
from seq2see.layers.pooling import Pooling
from seq2see.layers.resnet import flatten_map
from seq2see.models.classifier import Classifier
from seq2see.models.heads import ClassificationHead


class ImageEmbedding(nn.Module):
    """Steps 1 to 4: a vector for each patch, plus where it stands; in front of them what is of no place.

    `patches` makes a map of vectors of an image: it cuts and projects it, or looks at it with a CNN first. `prefix_tokens` is
    a class token (`PrefixTokens`), or nothing for whoever sums the patches up in another way.
    """

    def __init__(self, patches: nn.Module, positions: nn.Module, prefix_tokens: nn.Module, dropout: float):
        super().__init__()
        self.normalize = PixelNormalization()
        self.patches, self.positions, self.prefix_tokens = patches, positions, prefix_tokens
        self.dropout = Dropout(dropout)

    def forward(self, images: Images) -> Sequences:
        """Images as sequences of vectors, in the order in which one reads."""
        features = self.patches(self.normalize(images.values))
        places = flatten_map(features)
        rows = self.prefix_tokens(replace(places, values=places.values + self.positions(places.grid)))
        return replace(rows, values=self.dropout(rows.values))


class ViT(Classifier):
    """Steps 5 and 6: encode, and read the class token; or sum up all patches, if `pooling` does that."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int, pooling: Pooling):
        super().__init__(source, encoder, settings, classes)
        self.pooling = pooling
        if pooling.vector_count > 1:
            self.head = ClassificationHead(pooling.vector_count * settings.width, classes)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """What the class token has come to know, or all patches together."""
        return self.pooling(self.encode(source))
