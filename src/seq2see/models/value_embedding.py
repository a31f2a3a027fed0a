"""Models of series: the embedding and the head of a decoder for values in place of tokens.

x(t+1) = f(x(t), x(t-1), ...) + ε, autoregression. Every decoder can be used: an MLP or a linear model over the last τ
values, recurrent cells whose state summarizes the past, or a GPT. The model is a `LanguageModel` whose embedding takes
values and whose head predicts a value.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Sequences


class ValueEmbedding(nn.Module):
    """The embedding of a value: x w + b, without position encoding."""

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(1, width)

    def forward(self, series: Sequences) -> Sequences:
        """The embeddings of whole series."""
        return Sequences(self.project(series.values[..., None]), series.lengths)

    def embed_at(
        self, values: Float[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Float[Tensor, "row time width"]:
        """The embeddings of values; positions do not matter."""
        return self.project(values[..., None])


class RegressionHead(nn.Module):
    """The next value: h w + b, the mean of a normal distribution of constant variance."""

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(width, 1)

    def forward(self, hidden: Float[Tensor, "row time width"]) -> Float[Tensor, "row time 1"]:
        """The prediction for each position."""
        return self.project(hidden)
