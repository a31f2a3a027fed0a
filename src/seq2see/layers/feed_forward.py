"""Thinking: the same small network applied to every position on its own."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, eq. 2): widen, keep what is positive, narrow again."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, vectors: Float[Tensor, "row time width"]) -> Float[Tensor, "row time width"]:
        """Each position by itself; nothing passes between positions here."""
        return self.narrow(functional.relu(self.widen(vectors)))
