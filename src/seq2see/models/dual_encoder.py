"""Dual encoder: vectors for histories and replies, such that a history and its reply have a high dot product.

Histories and replies share one encoder, and each side has a projection, because an answer rarely means the same as its
question. Both projections are the identity before training, so that a history and a reply with the same words are
similar from the first training step on, as in tf-idf. The score of a reply does not depend on the other replies, so the
vectors of all candidates are computed once (Henderson et al. 2017; compare `encoder_model.py`).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Batch, Sequences
from seq2see.models.encoder_model import EncoderModel

INITIAL_SCALE = 10.0
"""The initial factor of the cosine similarities: with 1, the softmax would be almost uniform."""


class SimilarityHead(nn.Module):
    """The scaled cosine similarity of every history with every reply."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(INITIAL_SCALE))

    def forward(
        self, histories: Float[Tensor, "row width"], replies: Float[Tensor, "candidate width"]
    ) -> Float[Tensor, "row candidate"]:
        """The scores."""
        return self.scale * histories @ replies.mT


class UnitProjection(nn.Module):
    """A linear layer that is the identity before training; its outputs have length 1.

    The matrix is no `weight`, which would be initialized at random.
    """

    def __init__(self, width: int):
        super().__init__()
        self.matrix, self.bias = nn.Parameter(torch.eye(width)), nn.Parameter(torch.zeros(width))

    def forward(self, vectors: Float[Tensor, "row width"]) -> Float[Tensor, "row width"]:
        """(W x + b) / |W x + b| for each vector."""
        return functional.normalize(vectors @ self.matrix.mT + self.bias, dim=-1)


class DualEncoder(EncoderModel):
    """An encoder of histories and replies."""

    def __init__(self, source: nn.Module, encoder: nn.Module, width: int):
        super().__init__(source, encoder, SimilarityHead())
        self.history_proj, self.reply_proj = UnitProjection(width), UnitProjection(width)

    def forward(self, batch: Batch) -> Float[Tensor, "row candidate"]:
        """The score of each reply of the batch for each history; without replies, of each history for itself."""
        vectors = self.hidden(batch).values
        return self.head(vectors[:, 0], vectors[:, -1])

    def hidden(self, batch: Batch) -> Sequences:
        """Two vectors for each row, of its history and of its reply; only the first if the batch has no replies."""
        assert isinstance(batch.source, Sequences)
        vectors = [self.history_vectors(batch.source)]
        if batch.target is not None:
            vectors.append(self.reply_vectors(batch.target))
        stacked = torch.stack(vectors, dim=1)
        return Sequences(stacked, torch.full_like(batch.source.lengths, stacked.size(1)))

    def history_vectors(self, source: Sequences) -> Float[Tensor, "row width"]:
        """A vector of length 1 for each history."""
        vectors: Tensor = self.history_proj(self.pooled(source))
        return vectors

    def reply_vectors(self, replies: Sequences) -> Float[Tensor, "row width"]:
        """A vector of length 1 for each reply."""
        vectors: Tensor = self.reply_proj(self.pooled(replies))
        return vectors
