"""Pooling: from the vectors of all positions of an image or a text to one vector."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.attention import CrossAttention
from seq2see.layers.masks import masked_mean, padding_mask, zero_padding
from seq2see.layers.norms_and_dropout import EPSILON, LayerNorm


class PrefixTokens(nn.Module):
    """Learned vectors that are prepended to every row, such as a class token; they attend to all positions.

    One is the class token of BERT and ViT (Dosovitskiy et al. 2021, eq. 1); DeiT has a second one, the distillation
    token, which learns from another model (Touvron et al. 2021, section 4). They have no position embedding: its sum
    with a learned vector would be another learned vector.
    """

    def __init__(self, width: int, count: int = 1):
        super().__init__()
        self.embeddings = nn.Parameter(torch.randn(count, width) * width**-0.5)

    def forward(self, sequences: Sequences) -> Sequences:
        """Prepend the learned vectors to each row."""
        prefix = self.embeddings.to(sequences.values.dtype).expand(len(sequences.values), -1, -1)
        cls = DenseSequences if isinstance(sequences, DenseSequences) else Sequences
        return cls(torch.cat([prefix, sequences.values], dim=1), sequences.lengths + len(self.embeddings))


class Pooling(nn.Module):
    """The base class of all poolings."""

    vector_count = 1
    """The number of vectors that are concatenated."""


class ClsPooling(Pooling):
    """The vector of the first position: the class token, if there is one."""

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector for each row."""
        return sequences.values[:, 0]


class TanhClsPooling(Pooling):
    """The vector of the class token after a linear layer and tanh: tanh(h W + b).

    This is the pooler of BERT, and of ViT in pre-training on large datasets (Dosovitskiy et al. 2021, section 3.1: the
    head is then a network with one hidden layer); Google's files call it pre_logits.
    """

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector for each row."""
        return self.dense(sequences.values[:, 0]).tanh()


class ClsDistillationPooling(Pooling):
    """The vectors of the class token and the distillation token, concatenated.

    DeiT (Touvron et al. 2021, section 4) has a head for each token, and averages their logits. One head on the
    concatenated vectors computes the same.
    """

    vector_count = 2

    def forward(self, sequences: Sequences) -> Float[Tensor, "row both"]:
        """One vector for each row, of twice the width."""
        return sequences.values[:, :2].flatten(1)


class MeanPooling(Pooling):
    """The mean of the vectors of all valid positions."""

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector for each row."""
        return masked_mean(sequences)


class AttentionPooling(Pooling):
    """Multi-head attention pooling: y + feed_forward(norm(y)), where y is the attention of a learned query.

    Lee et al. 2019, eq. 11, with one seed; as in Zhai et al. 2022, section 3.2. The query attends to all positions, and
    each head has its own weights. There is no residual connection around the attention: the query is not added to y.
    """

    def __init__(self, width: int, heads: int, feed_forward: nn.Module, eps: float = EPSILON):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, width) * width**-0.5)
        self.attention = CrossAttention(width, heads, width)
        self.norm, self.feed_forward = LayerNorm(width, eps), feed_forward

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector for each row."""
        memory = zero_padding(sequences)
        query = self.query.to(memory.values.dtype).expand(len(memory.values), 1, -1)
        output = self.attention(query, self.attention.project_memory(memory), padding_mask(sequences))
        valid = torch.ones(output.shape[:2], dtype=torch.bool, device=output.device)
        return (output + self.feed_forward(self.norm(output, valid)))[:, 0]
