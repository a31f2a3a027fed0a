"""Embedders: read a text, and say what it means as a point: texts that mean alike lie close together.

Compare `classifier.py`: there a head asks one question of the summary; here the summary is the answer, and whoever gets
it asks. How close two texts lie is the cosine of the angle between their vectors (Reimers & Gurevych 2019).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.models.reader import Reader


def meaning(reader: Reader, source: Sequences | Pictures) -> Float[Tensor, "row width"]:
    """The summary of each text or picture as a vector of length 1: the product of two is the cosine between them."""
    return functional.normalize(reader.summary(source), dim=-1)


class Embedder(Reader):
    """One vector a text: the mean of all places, for a Transformer."""

    def __init__(self, source: nn.Module, encoder: nn.Module):
        super().__init__(source, encoder, nn.Identity())

    def hidden(self, batch: Batch) -> Sequences:
        """The vector of each text or picture, as a row of one place."""
        assert batch.source is not None, "an embedder needs something to read"
        vectors = meaning(self, batch.source)
        return Sequences(vectors[:, None], torch.ones_like(vectors[:, 0], dtype=torch.long))


class FirstEmbedder(Embedder):
    """One vector a text: what the encoder made of <bos>."""

    def summary(self, source: Sequences | Pictures) -> Float[Tensor, "row width"]:
        """The vector at <bos>."""
        return self.encode(source).values[:, 0]


EMBEDDERS = {"mean": Embedder, "first": FirstEmbedder}
