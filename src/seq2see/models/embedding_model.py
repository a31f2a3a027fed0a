"""Embedders: read a text, and say what it means as a point: texts that mean alike lie close together.

Compare `classifier.py`: there a head asks one question of the summary; here the summary is the answer, and whoever gets
it asks. How close two texts lie is the cosine of the angle between their vectors (Reimers & Gurevych 2019).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.models.encoder_model import EncoderModel


def normalized_embedding(reader: EncoderModel, source: Sequences | Images) -> Float[Tensor, "row width"]:
    """The summary of each text or image as a vector of length 1: the product of two is the cosine between them."""
    return functional.normalize(reader.pooled(source), dim=-1)


class EmbeddingModel(EncoderModel):
    """One vector a text: the mean of all places, for a Transformer."""

    def __init__(self, source: nn.Module, encoder: nn.Module):
        super().__init__(source, encoder, nn.Identity())

    def hidden(self, batch: Batch) -> Sequences:
        """The vector of each text or image, as a row of one place."""
        assert batch.source is not None, "an embedder needs something to read"
        vectors = normalized_embedding(self, batch.source)
        return Sequences(vectors[:, None], torch.ones_like(vectors[:, 0], dtype=torch.long))


class ClsEmbeddingModel(EmbeddingModel):
    """One vector a text: what the encoder made of <bos>."""

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """The vector at <bos>."""
        return self.encode(source).values[:, 0]


EMBEDDING_MODELS = {"mean": EmbeddingModel, "cls": ClsEmbeddingModel}
