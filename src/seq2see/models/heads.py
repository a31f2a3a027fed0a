"""From hidden states to answers: what stands behind every decoder and encoder."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Hidden = Float[Tensor, "... width"]
Logits = Float[Tensor, "... vocab"]


class TiedHead(nn.Module):
    """Score each token by how well its own input vector fits the hidden state: logits = h Eᵀ.

    Press & Wolf 2017; Vaswani et al. 2017, section 3.4. One table, learned from both its uses.
    """

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.table = table

    def forward(self, hidden: Hidden) -> Logits:
        """A score for each token of the vocabulary."""
        return functional.linear(hidden, self.table.weight)

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.table.weight, None


class FreeHead(nn.Module):
    """A matrix of its own: logits = h W + b, softmax'd by whoever needs probabilities."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.project = nn.Linear(table.embedding_dim, table.num_embeddings)

    def forward(self, hidden: Hidden) -> Logits:
        """A score for each token of the vocabulary."""
        return self.project(hidden)

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.project.weight, self.project.bias


HEADS = {"tied": TiedHead, "free": FreeHead}
