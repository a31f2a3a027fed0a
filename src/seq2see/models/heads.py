"""From hidden states to answers: what stands behind every decoder and encoder."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


HiddenStates = Float[Tensor, "... width"]
Logits = Float[Tensor, "... vocab"]


class TiedHead(nn.Module):
    """Score each token by how well its own input vector fits the hidden state: logits = h Eᵀ.

    Press & Wolf 2017; Vaswani et al. 2017, section 3.4. One table, learned from both its uses: the notes' unembedding
    matrix is their embedding matrix, transposed.
    """

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.table = table

    def forward(self, hidden: HiddenStates) -> Logits:
        """A score for each token of the vocabulary."""
        return functional.linear(hidden, self.table.weight)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.table.weight, None


class UntiedHead(nn.Module):
    """A matrix of its own: logits = h W + b, softmax'd by whoever needs probabilities."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.project = nn.Linear(table.embedding_dim, table.num_embeddings)

    def forward(self, hidden: HiddenStates) -> Logits:
        """A score for each token of the vocabulary."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.project.weight, self.project.bias


class UntiedNoBiasHead(nn.Module):
    """A matrix of its own and nothing added: logits = h W, as in Llama."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.project = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False)

    def forward(self, hidden: HiddenStates) -> Logits:
        """A score for each token of the vocabulary."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.project.weight, None


class SuppressTokensHead(nn.Module):
    """Another head, over a vocabulary in which some numbers name no token: these get no probability at all.

    Vocabularies of other people often have no <pad>, or one token for both <bos> and <eos>. If the numbers that we
    have and they have not were scored like words, they would take probability from the words.
    """

    suppress_bias: Tensor

    def __init__(self, head: TiedHead | UntiedHead | UntiedNoBiasHead, size: int, suppress_tokens: tuple[int, ...]):
        super().__init__()
        self.head = head
        # Not minus infinity, which times 0 is no number.
        self.register_buffer(
            "suppress_bias", torch.zeros(size).index_fill(0, torch.tensor(suppress_tokens), -1e9), persistent=False
        )

    def forward(self, hidden: HiddenStates) -> Logits:
        """A score for each token of the vocabulary."""
        return self.head(hidden) + self.suppress_bias

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        weight, bias = self.head.weight_and_bias()
        return weight, self.suppress_bias if bias is None else bias + self.suppress_bias


HEADS: dict[str, type[TiedHead] | type[UntiedHead] | type[UntiedNoBiasHead]] = {
    "tied": TiedHead,
    "untied": UntiedHead,
    "untied-no-bias": UntiedNoBiasHead,
}


class MaskedLMHead(TiedHead):
    """A tied head that also knows how common each token is: logits = h Eᵀ + b (Devlin et al. 2019, appendix A)."""

    def __init__(self, table: nn.Embedding):
        super().__init__(table)
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))

    def forward(self, hidden: HiddenStates) -> Logits:
        """A score for each token of the vocabulary."""
        return functional.linear(hidden, self.table.weight, self.bias)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.table.weight, self.bias


class ClassificationHead(nn.Module):
    """A score for each of a few classes: logits = h W + b."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.project = nn.Linear(width, classes)

    def forward(self, hidden: HiddenStates) -> Logits:
        """A score for each class."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """What `forward` multiplies by and adds: for a loss that computes the scores in chunks."""
        return self.project.weight, self.project.bias


class PreTrainingHead(nn.Module):
    """Two heads: the first place says whether the second text follows the first, every other place names its token."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.tokens, self.next_sentence = MaskedLMHead(table), ClassificationHead(table.embedding_dim, 2)

    def forward(self, hidden: HiddenStates) -> Logits:
        """Scores of tokens; at the first place only the first two count, and stand for "no" and "yes"."""
        tokens = self.tokens(hidden[:, 1:])
        answer = functional.pad(self.next_sentence(hidden[:, :1]), (0, tokens.size(-1) - 2), value=float("-inf"))
        return torch.cat([answer, tokens], dim=1)
