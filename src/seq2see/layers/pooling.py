"""From the vectors of all places to one: how an image, or a text, is summed up."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.attention import CrossAttention
from seq2see.layers.masks import padding_mask, with_additive_mask
from seq2see.layers.norms import EPSILON, LayerNorm
from seq2see.layers.padding import masked_mean, zero_padding


class PrefixTokens(nn.Module):
    """Vectors that are of no place, put in front of every row: what they come to know is of all places.

    One is the class token of BERT and ViT (Dosovitskiy et al. 2021, eq. 1); DeiT has a second, taught by another model
    (Touvron et al. 2021, section 4). Being of no place they need no position: with one added, each would be another
    such vector.
    """

    def __init__(self, width: int, count: int = 1):
        super().__init__()
        self.vector_count = nn.Parameter(torch.randn(count, width) * width**-0.5)

    def forward(self, sequences: Sequences) -> Sequences:
        """The same rows, each longer by these vectors."""
        first = self.vector_count.to(sequences.values.dtype).expand(len(sequences.values), -1, -1)
        kind = DenseSequences if isinstance(sequences, DenseSequences) else Sequences
        return kind(torch.cat([first, sequences.values], dim=1), sequences.lengths + len(self.vector_count))


class Pooling(nn.Module):
    """What all of them share: how many vectors they put side by side."""

    vectors = 1


class ClsPooling(Pooling):
    """What the first place has come to know: the class token, if one was put there."""

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        return sequences.values[:, 0]


class TanhClsPooling(Pooling):
    """What the class token has come to know, thought over once more: tanh(h W + b).

    So it is in BERT, and in ViT while it learns from very much (Dosovitskiy et al. 2021, section 3.1: the head is a
    network with one hidden layer then); Google's files call it pre_logits.
    """

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        return self.dense(sequences.values[:, 0]).tanh()


class ClsDistillationPooling(Pooling):
    """Two tokens side by side: what one has learned from labels, and the other from another model.

    DeiT (Touvron et al. 2021, section 4) has a head for each and takes the mean of both; that is one head on both.
    """

    vectors = 2

    def forward(self, sequences: Sequences) -> Float[Tensor, "row both"]:
        """One vector a row, twice as wide."""
        return sequences.values[:, :2].flatten(1)


class MeanPooling(Pooling):
    """The mean of all places: each has a say, and all the same one."""

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        return masked_mean(sequences)


class AttentionPooling(Pooling):
    """A learned question looks at all places, and thinks about what it found: y + think(norm(y)).

    Multihead attention pooling (Lee et al. 2019, eq. 11, with one seed), as in Zhai et al. 2022, section 3.2: each head
    decides which places have how much of a say. The question is not added to what it finds.
    """

    def __init__(self, width: int, heads: int, feed_forward: nn.Module, eps: float = EPSILON):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, width) * width**-0.5)
        self.attention = CrossAttention(width, heads, width)
        self.norm, self.feed_forward = LayerNorm(width, eps), feed_forward

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        places = zero_padding(sequences).values
        query = self.query.to(places.dtype).expand(len(places), 1, -1)
        found = self.attention(
            query, self.attention.project_memory(places), with_additive_mask(padding_mask(sequences), places)
        )
        valid = torch.ones(found.shape[:2], dtype=torch.bool, device=found.device)
        return (found + self.feed_forward(self.norm(found, valid)))[:, 0]
