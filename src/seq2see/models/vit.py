"""The Vision Transformer: BERT's half of the Transformer with another frontend; an image is worth 16x16 words.

Dosovitskiy et al. 2021. Six steps: cut the picture into patches, project each to a vector, add where it stands, put a
class token in front, encode, and read what became of the class token. Compare `bert.py`: there tokens are looked up in
a table, here patches are multiplied by a matrix; behind the frontend a picture is a sequence like any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Pictures, Sequences
from seq2see.layers.dropout import Dropout
from seq2see.layers.patches import Tones
from seq2see.layers.pooling import Pooling
from seq2see.layers.resnet import read_off
from seq2see.models.classifier import Classifier
from seq2see.models.heads import ClassHead


class PictureFrontend(nn.Module):
    """Steps 1 to 4: a vector for each patch, plus where it stands; in front of them what is of no place.

    `patches` makes a map of vectors of a picture: it cuts and projects it, or looks at it with a CNN first. `tokens` is
    a class token (`LearnedTokens`), or nothing for whoever sums the patches up in another way.
    """

    def __init__(self, patches: nn.Module, positions: nn.Module, tokens: nn.Module, dropout: float):
        super().__init__()
        self.tones = Tones()
        self.patches, self.positions, self.tokens = patches, positions, tokens
        self.dropout = Dropout(dropout)

    def forward(self, pictures: Pictures) -> Sequences:
        """Pictures as sequences of vectors, in the order in which one reads."""
        features = self.patches(self.tones(pictures.values))
        places = read_off(features)
        rows = self.tokens(replace(places, values=places.values + self.positions(places.grid)))
        return replace(rows, values=self.dropout(rows.values))


class ViT(Classifier):
    """Steps 5 and 6: encode, and read the class token; or sum up all patches, if `pool` does that."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, answers: int, pool: Pooling):
        super().__init__(source, encoder, settings, answers)
        self.pool = pool
        if pool.vectors > 1:
            self.head = ClassHead(pool.vectors * settings.width, answers)

    def summary(self, source: Sequences | Pictures) -> Float[Tensor, "row width"]:
        """What the class token has come to know, or all patches together."""
        return self.pool(self.encode(source))
