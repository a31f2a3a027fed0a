"""Window models: the next token from the last τ and from nothing before them (the Markov assumption).

Bengio et al. 2003. Compare `counting.py`, which looks these τ tokens up in a table: here they are vectors, so a
context that was never seen is like others that were. Compare `gpt.py` and `recurrent.py`, whose past has no end.
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
    """A window over the last few vectors, and layers that see nothing else."""

    kind: Literal["mlp"] = "mlp"
    width: int = Field(256, ge=1)
    """Numbers in each vector, of a token and of what is guessed from them."""
    context: int = Field(4, ge=1)
    """How many vectors the window shows; what lies further back is forgotten."""
    depth: int = Field(1, ge=0)
    """Hidden layers between the window and the guess; 0 makes the model linear."""
    hidden: int = Field(256, ge=1)
    """Numbers in each hidden layer."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the numbers that is set to zero, in the vectors of tokens and after each hidden layer, in training."""


class HiddenLayer(nn.Module):
    """tanh(W x + b), the only layer of Bengio et al. 2003, equation 1."""

    def __init__(self, into: int, out: int, dropout: float):
        super().__init__()
        self.project, self.dropout = nn.Linear(into, out), nn.Dropout(dropout)

    def forward(self, vectors: Float[Tensor, "... into"]) -> Float[Tensor, "... out"]:
        """Each vector by itself."""
        return self.dropout(torch.tanh(self.project(vectors)))


@dataclass(frozen=True)
class MLPState:
    """The last τ - 1 vectors, the newest last; zeros stand for what was before the beginning."""

    past: Float[Tensor, "row past width"]


class MLPDecoder(nn.Module):
    """hidden(t) = f(x[t-τ+1], ..., x[t]): the τ vectors as one long one, and layers over it.

    Each place in the window has weights of its own, so nothing else must say where a token stands.
    """

    def __init__(self, settings: MLPDecoderSettings):
        super().__init__()
        self.context, self.width = settings.context, settings.width
        sizes = [self.context * self.width, *[settings.hidden] * settings.depth]
        self.layers = nn.Sequential(*(HiddenLayer(into, out, settings.dropout) for into, out in pairwise(sizes)))
        self.output = nn.Linear(sizes[-1], self.width)

    def forward(self, target: Sequences, memory: None = None) -> Float[Tensor, "row time width"]:
        """All times at once, for training: the text, unfolded into its windows."""
        return self._predict(functional.pad(target.values, (0, 0, self.context - 1, 0)))

    def start(self, memory: None, rows: int, max_length: int) -> MLPState:
        """The state before the first token: a window of zeros."""
        return MLPState(self.output.weight.new_zeros(rows, self.context - 1, self.width))

    def step(
        self, vectors: Float[Tensor, "row new width"], state: MLPState
    ) -> tuple[Float[Tensor, "row new width"], MLPState]:
        """Take in one or more new vectors a row; the window moves on."""
        seen = torch.cat([state.past.to(vectors.dtype), vectors], dim=1)
        return self._predict(seen), MLPState(seen[:, seen.size(1) - self.context + 1 :])

    def _predict(self, vectors: Float[Tensor, "row seen width"]) -> Float[Tensor, "row time width"]:
        """What is guessed in each window of τ vectors; there are τ - 1 fewer windows than vectors."""
        windows = vectors.unfold(1, self.context, 1).mT.flatten(2)  # (row, window, τ · width), the oldest first
        return self.output(self.layers(windows))
