"""From hidden states to answers: what stands behind every decoder and encoder."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.layers.matrices import Product

Hidden = Float[Tensor, "... width"]
Logits = Float[Tensor, "... vocab"]


class TiedHead(nn.Module):
    """Score each token by how well its own input vector fits the hidden state: logits = h Eᵀ.

    Press & Wolf 2017; Vaswani et al. 2017, section 3.4. One table, learned from both its uses: the notes' unembedding
    matrix is their embedding matrix, transposed.
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


class PlainHead(nn.Module):
    """A matrix of its own and nothing added: logits = h W, as in Llama."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.project = Product(table.embedding_dim, table.num_embeddings)

    def forward(self, hidden: Hidden) -> Logits:
        """A score for each token of the vocabulary."""
        return self.project(hidden)

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.project.weight, None


class PartialHead(nn.Module):
    """Another head, over a vocabulary in which some numbers name no token: these get no probability at all.

    Vocabularies of other people often have no <pad>, or one token for both <bos> and <eos>. If the numbers that we
    have and they have not were scored like words, they would take probability from the words.
    """

    never: Tensor

    def __init__(self, head: TiedHead | FreeHead | PlainHead, size: int, missing: tuple[int, ...]):
        super().__init__()
        self.head = head
        # Not minus infinity, which times 0 is no number.
        self.register_buffer("never", torch.zeros(size).index_fill(0, torch.tensor(missing), -1e9), persistent=False)

    def forward(self, hidden: Hidden) -> Logits:
        """A score for each token of the vocabulary."""
        return self.head(hidden) + self.never

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        weight, bias = self.head.matrix()
        return weight, self.never if bias is None else bias + self.never


HEADS: dict[str, type[TiedHead] | type[FreeHead] | type[PlainHead]] = {
    "tied": TiedHead,
    "free": FreeHead,
    "plain": PlainHead,
}


class BlankHead(TiedHead):
    """A tied head that also knows how common each token is: logits = h Eᵀ + b (Devlin et al. 2019, appendix A)."""

    def __init__(self, table: nn.Embedding):
        super().__init__(table)
        self.common = nn.Parameter(torch.zeros(table.num_embeddings))

    def forward(self, hidden: Hidden) -> Logits:
        """A score for each token of the vocabulary."""
        return functional.linear(hidden, self.table.weight, self.common)

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.table.weight, self.common


class ClassHead(nn.Module):
    """A score for each of a few classes: logits = h W + b."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.project = nn.Linear(width, classes)

    def forward(self, hidden: Hidden) -> Logits:
        """A score for each class."""
        return self.project(hidden)

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.project.weight, self.project.bias


class PairHead(nn.Module):
    """Two heads: the first place says whether the second text follows the first, every other place names its token."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.tokens, self.follows = BlankHead(table), ClassHead(table.embedding_dim, 2)

    def forward(self, hidden: Hidden) -> Logits:
        """Scores of tokens; at the first place only the first two count, and stand for "no" and "yes"."""
        tokens = self.tokens(hidden[:, 1:])
        answer = functional.pad(self.follows(hidden[:, :1]), (0, tokens.size(-1) - 2), value=float("-inf"))
        return torch.cat([answer, tokens], dim=1)
