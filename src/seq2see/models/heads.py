"""Heads: from hidden states to logits."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

HiddenStates = Float[Tensor, "... width"]
Logits = Float[Tensor, "... vocab"]


class TiedHead(nn.Module):
    """A language-model head tied to the embedding table: logits = h Eᵀ.

    Press & Wolf 2017; Vaswani et al. 2017, section 3.4. The table gets gradients from both uses; the unembedding
    matrix of the course notes is the transposed embedding matrix.
    """

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.table = table

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logit of each token of the vocabulary."""
        return functional.linear(hidden, self.table.weight)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of `forward`, for a loss that computes the logits in chunks."""
        return self.table.weight, None


class UntiedHead(nn.Module):
    """A language-model head with its own matrix: logits = h W + b."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.project = nn.Linear(table.embedding_dim, table.num_embeddings)

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logit of each token of the vocabulary."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of `forward`, for a loss that computes the logits in chunks."""
        return self.project.weight, self.project.bias


class UntiedNoBiasHead(nn.Module):
    """A language-model head with its own matrix and without bias: logits = h W, as in Llama."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.project = nn.Linear(table.embedding_dim, table.num_embeddings, bias=False)

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logit of each token of the vocabulary."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of `forward`, for a loss that computes the logits in chunks."""
        return self.project.weight, None


class SuppressTokensHead(nn.Module):
    """Another head, in whose vocabulary some ids stand for no token: their probability is zero.

    Vocabularies of pretrained models often have no <pad>, or one token for both <bos> and <eos>. Without suppression
    the ids that exist only here would take probability from the tokens.
    """

    suppress_bias: Tensor

    def __init__(self, head: TiedHead | UntiedHead | UntiedNoBiasHead, size: int, suppress_tokens: tuple[int, ...]):
        super().__init__()
        self.head = head
        # Not minus infinity: its product with 0 is NaN.
        bias = torch.zeros(size).index_fill(0, torch.tensor(suppress_tokens), -1e9)
        self.register_buffer("suppress_bias", bias, persistent=False)

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logit of each token of the vocabulary."""
        return self.head(hidden) + self.suppress_bias

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of `forward`, for a loss that computes the logits in chunks."""
        weight, bias = self.head.weight_and_bias()
        return weight, self.suppress_bias if bias is None else bias + self.suppress_bias


HEADS: dict[str, type[TiedHead] | type[UntiedHead] | type[UntiedNoBiasHead]] = {
    "tied": TiedHead,
    "untied": UntiedHead,
    "untied-no-bias": UntiedNoBiasHead,
}


class MaskedLMHead(TiedHead):
    """A tied head with a bias: logits = h Eᵀ + b (Devlin et al. 2019, appendix A)."""

    def __init__(self, table: nn.Embedding):
        super().__init__(table)
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logit of each token of the vocabulary."""
        return functional.linear(hidden, self.table.weight, self.bias)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of `forward`, for a loss that computes the logits in chunks."""
        return self.table.weight, self.bias


class ClassificationHead(nn.Module):
    """A linear classifier: logits = h W + b."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.project = nn.Linear(width, classes)

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logit of each class."""
        return self.project(hidden)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of `forward`, for a loss that computes the logits in chunks."""
        return self.project.weight, self.project.bias


class PreTrainingHead(nn.Module):
    """Two heads: next sentence prediction at the first position, masked tokens at all others."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        self.tokens, self.next_sentence = MaskedLMHead(table), ClassificationHead(table.embedding_dim, 2)

    def forward(self, hidden: HiddenStates) -> Logits:
        """The logits of tokens; at the first position only the first two are finite: "no" and "yes"."""
        tokens = self.tokens(hidden[:, 1:])
        next_sentence = self.next_sentence(hidden[:, :1])
        padded = functional.pad(next_sentence, (0, tokens.size(-1) - 2), value=float("-inf"))
        return torch.cat([padded, tokens], dim=1)
