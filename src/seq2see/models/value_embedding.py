"""Models of numbers: what stands before and behind a decoder that writes a series instead of a text.

x(t+1) = f(x(t), x(t-1), ...) + ε, autoregression. Any decoder goes: with a window it is a linear model or an MLP of the
last τ values, with recurrent cells it sums up the past in a state, with blocks it is GPT. The model is a
`LanguageModel`; only its vectors come from numbers, and its guess is a number.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Sequences


class ValueEmbedding(nn.Module):
    """A vector for a number: x w + b. Where it stands, the decoder must know by itself."""

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(1, width)

    def forward(self, numbers: Sequences) -> Sequences:
        """Vectors for whole series."""
        return Sequences(self.project(numbers.values[..., None]), numbers.lengths)

    def embed_at(
        self, numbers: Float[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Float[Tensor, "row time width"]:
        """Vectors for numbers, whenever they stand."""
        return self.project(numbers[..., None])


class RegressionHead(nn.Module):
    """The next number: h w + b, the mean of a normal distribution whose spread is the same everywhere."""

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(width, 1)

    def forward(self, hidden: Float[Tensor, "row time width"]) -> Float[Tensor, "row time 1"]:
        """A guess for each time."""
        return self.project(hidden)
