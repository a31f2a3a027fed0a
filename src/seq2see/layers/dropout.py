"""Dropout and its variants: variational dropout, embedding dropout, drop path.

In training, dropout zeroes elements at random, so that no unit relies on a single other one. The other elements are
multiplied by 1 / (1 - p), so that the expected sum stays the same.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Dropout):
    """y = m ⊙ x / (1 - p), where each element of the mask m is 0 with probability p, else 1.

    Srivastava et al. 2014, section 4; there the weights are multiplied by 1 - p in evaluation instead.
    """

    def forward(self, inputs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """In training, zero each element with probability p."""
        if not self.training or self.p == 0:
            return inputs
        mask = torch.rand(inputs.shape, device=inputs.device) >= self.p
        return inputs * mask / (1 - self.p)


class VariationalDropout(Dropout):
    """Dropout with the same mask at all time steps of a row: y_t = m ⊙ x_t, with one mask m for each row.

    Gal & Ghahramani 2016, section 4.1 ("variational"); Merity et al. 2018, section 4.2 ("locked"). With a new mask at
    every time step, a recurrent layer above would learn to average over time instead.
    """

    def forward(self, inputs: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """In training, zero each feature of a row with probability p, at all time steps of the row."""
        if not self.training or self.p == 0:
            return inputs
        return inputs * super().forward(torch.ones_like(inputs[:, :1]))


class EmbeddingDropout(nn.Module):
    """Dropout of whole tokens of the vocabulary: the embedding of a dropped token is zero wherever it occurs.

    Gal & Ghahramani 2016, section 4.2; Merity et al. 2018, section 4.3. It is dropout on the rows of the embedding
    matrix, drawn once a step; embeddings of other tokens are multiplied by 1 / (1 - p). A tied head is not affected.
    """

    def __init__(self, p: float):
        super().__init__()
        self.dropout = Dropout(p)

    def forward(
        self, vectors: Float[Tensor, "row time width"], tokens: Int[Tensor, "row time"], vocab_size: int
    ) -> Float[Tensor, "row time width"]:
        """In training, zero the embeddings of the tokens that are dropped from a vocabulary of `vocab_size`."""
        if not self.training or self.dropout.p == 0:
            return vectors
        return vectors * functional.embedding(tokens, self.dropout(vectors.new_ones(vocab_size, 1)))


class DropPath(Dropout):
    """Drop path: the output of a sublayer is zeroed for whole rows, so that they skip the sublayer.

    Stochastic depth (Huang et al. 2016, eq. 2). The paper makes one random decision for a batch and scales in
    evaluation. Here the decision is made for each row, and rows that are kept are scaled in training, as in all
    dropout. Rows of different length that are unpadded to one line (`acceleration/attention.py`) share one decision.
    """

    def forward(self, inputs: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """In training, zero each row with probability p."""
        if not self.training or self.p == 0:
            return inputs
        return inputs * super().forward(inputs.new_ones(len(inputs), 1, 1))
