"""Sentence embeddings: a vector for each text, such that texts of similar meaning have a high cosine similarity.

Compare `classifier.py`: there a head computes labels from the pooled vector; here the pooled vector is the output.
Cosine similarity of sentence embeddings: Reimers & Gurevych 2019.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.models.encoder_model import EncoderModel


def normalized_embedding(model: EncoderModel, source: Sequences | Images) -> Float[Tensor, "row width"]:
    """The pooled vector of each text or image with length 1: dot products are cosine similarities."""
    return functional.normalize(model.pooled(source), dim=-1)


class EmbeddingModel(EncoderModel):
    """One vector per text by the encoder's own pooling: the masked mean for a Transformer."""

    def __init__(self, source: nn.Module, encoder: nn.Module):
        super().__init__(source, encoder, nn.Identity())

    def hidden(self, batch: Batch) -> Sequences:
        """The embedding of each text or image, as a sequence of length 1."""
        assert batch.source is not None, "an embedding model needs a source"
        vectors = normalized_embedding(self, batch.source)
        return Sequences(vectors[:, None], torch.ones_like(vectors[:, 0], dtype=torch.long))


class ClsEmbeddingModel(EmbeddingModel):
    """One vector per text: the hidden state of <bos>."""

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """The hidden state of <bos>."""
        return self.encode(source).values[:, 0]


EMBEDDING_MODELS = {"mean": EmbeddingModel, "cls": ClsEmbeddingModel}
