"""From the vectors of all places to one: how a picture, or a text, is summed up."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences, Whole
from seq2see.layers.attention import CrossAttention
from seq2see.layers.masks import for_kernel, real
from seq2see.layers.norms import EPSILON, LayerNorm
from seq2see.layers.padding import blank, mean_real


class LearnedTokens(nn.Module):
    """Vectors that are of no place, put in front of every row: what they come to know is of all places.

    One is the class token of BERT and ViT (Dosovitskiy et al. 2021, eq. 1); DeiT has a second, taught by another model
    (Touvron et al. 2021, section 4). Being of no place they need no position: with one added, each would be another
    such vector.
    """

    def __init__(self, width: int, count: int = 1):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(count, width) * width**-0.5)

    def forward(self, sequences: Sequences) -> Sequences:
        """The same rows, each longer by these vectors."""
        first = self.vectors.to(sequences.values.dtype).expand(len(sequences.values), -1, -1)
        kind = Whole if isinstance(sequences, Whole) else Sequences
        return kind(torch.cat([first, sequences.values], dim=1), sequences.lengths + len(self.vectors))


class Pooling(nn.Module):
    """What all of them share: how many vectors they put side by side."""

    vectors = 1


class FirstPooling(Pooling):
    """What the first place has come to know: the class token, if one was put there."""

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        return sequences.values[:, 0]


class RethoughtPooling(Pooling):
    """What the class token has come to know, thought over once more: tanh(h W + b).

    So it is in BERT, and in ViT while it learns from very much (Dosovitskiy et al. 2021, section 3.1: the head is a
    network with one hidden layer then); Google's files call it pre_logits.
    """

    def __init__(self, width: int):
        super().__init__()
        self.sum_up = nn.Linear(width, width)

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        return self.sum_up(sequences.values[:, 0]).tanh()


class FirstTwoPooling(Pooling):
    """Two tokens side by side: what one has learnt from labels, and the other from another model.

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
        return mean_real(sequences)


class AttentionPooling(Pooling):
    """A learned question looks at all places, and thinks about what it found: y + think(norm(y)).

    Multihead attention pooling (Lee et al. 2019, eq. 11, with one seed), as in Zhai et al. 2022, section 3.2: each head
    decides which places have how much of a say. The question is not added to what it finds.
    """

    def __init__(self, width: int, heads: int, think: nn.Module, epsilon: float = EPSILON):
        super().__init__()
        self.question = nn.Parameter(torch.randn(1, width) * width**-0.5)
        self.look = CrossAttention(width, heads, width)
        self.norm, self.think = LayerNorm(width, epsilon), think

    def forward(self, sequences: Sequences) -> Float[Tensor, "row width"]:
        """One vector a row."""
        places = blank(sequences).values
        question = self.question.to(places.dtype).expand(len(places), 1, -1)
        found = self.look(question, self.look.prepare(places), for_kernel(real(sequences), places))
        everything = torch.ones(found.shape[:2], dtype=torch.bool, device=found.device)
        return (found + self.think(self.norm(found, everything)))[:, 0]
