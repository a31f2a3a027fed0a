"""MLP language models: the next token from the embeddings of the last τ tokens (the Markov assumption).

Bengio et al. 2003. Compare `ngram_lm.py`, which looks these τ tokens up in a table: embeddings generalize from seen
contexts to similar unseen ones. Compare `gpt.py` and `recurrent.py`, whose context is not limited to τ tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings


class MLPDecoderSettings(Settings):
    """A neural n-gram model: an MLP over the last few embeddings (Bengio et al. 2003)."""

    kind: Literal["mlp"] = "mlp"
    width: int = Field(256, ge=1)
    """Width of the embeddings and of the output."""
    context: int = Field(4, ge=1)
    """Context length τ: the number of embeddings that the MLP reads."""
    depth: int = Field(1, ge=0)
    """The number of hidden layers; with 0 the model is linear."""
    hidden: int = Field(256, ge=1)
    """Width of the hidden layers."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout rate of the embeddings and after each hidden layer."""


class HiddenLayer(nn.Module):
    """tanh(W x + b), the hidden layer of Bengio et al. 2003, equation 1."""

    def __init__(self, in_features: int, out_features: int, dropout: float):
        super().__init__()
        self.project, self.dropout = nn.Linear(in_features, out_features), nn.Dropout(dropout)

    def forward(self, vectors: Float[Tensor, "... into"]) -> Float[Tensor, "... out"]:
        """Apply the layer to every vector."""
        return self.dropout(torch.tanh(self.project(vectors)))


@dataclass(frozen=True)
class MLPState:
    """The last τ - 1 embeddings, the newest last; zeros before the first token."""

    past: Float[Tensor, "row past width"]


class MLPDecoder(nn.Module):
    """hidden(t) = f(x[t-τ+1], ..., x[t]): an MLP over the concatenation of τ embeddings.

    Each position in the window has its own weights, so no position encoding is needed.
    """

    def __init__(self, settings: MLPDecoderSettings):
        super().__init__()
        self.context, self.width = settings.context, settings.width
        sizes = [self.context * self.width, *[settings.hidden] * settings.depth]
        self.layers = nn.Sequential(*(HiddenLayer(*widths, settings.dropout) for widths in pairwise(sizes)))
        self.output = nn.Linear(sizes[-1], self.width)

    def forward(self, target: Sequences, memory: None = None) -> Float[Tensor, "row time width"]:
        """All positions at once, for training: the sequence is unfolded into its windows."""
        return self._predict(functional.pad(target.values, (0, 0, self.context - 1, 0)))

    def start(self, memory: None, rows: int, max_length: int) -> MLPState:
        """The state before the first token: zeros."""
        return MLPState(self.output.weight.new_zeros(rows, self.context - 1, self.width))

    def step(
        self, vectors: Float[Tensor, "row new width"], state: MLPState
    ) -> tuple[Float[Tensor, "row new width"], MLPState]:
        """Process one or more new embeddings of each row."""
        embeddings = torch.cat([state.past.to(vectors.dtype), vectors], dim=1)
        return self._predict(embeddings), MLPState(embeddings[:, embeddings.size(1) - self.context + 1 :])

    def _predict(self, vectors: Float[Tensor, "row length width"]) -> Float[Tensor, "row time width"]:
        """The output for each window of τ embeddings; the number of windows is length - τ + 1."""
        windows = vectors.unfold(1, self.context, 1).mT.flatten(2)  # (row, window, τ · width), the oldest first
        return self.output(self.layers(windows))
