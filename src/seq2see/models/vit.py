"""The Vision Transformer: a Transformer encoder over image patches; an image is worth 16x16 words.

Dosovitskiy et al. 2021. Six steps: split the image into patches, project each to a vector, add position embeddings,
prepend a class token, encode, and classify by the hidden state of the class token. Compare `bert.py`: there embeddings
are looked up in a table, here patches are projected; after the embedding an image is a sequence like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Images, Sequences
from seq2see.layers.norms_and_dropout import Dropout
from seq2see.layers.patch_embedding import PixelNormalization
from seq2see.layers.pooling import Pooling
from seq2see.layers.resnet import flatten_map
from seq2see.models.classifier import Classifier
from seq2see.models.embeddings_and_heads import ClassificationHead


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
