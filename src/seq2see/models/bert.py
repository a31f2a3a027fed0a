"""BERT's half of the Transformer: blocks that look both ways, and a question for them: what was hidden?

Devlin et al. 2019. Compare `gpt.py`, which hides the future and asks what comes next. Here the blocks are the encoder's
own (`transformer.py`), with no mask but that of the padding; a model that sees everything would only copy, so some
tokens are hidden from it (`sequences/blanks.py`), and the places where they stood are asked for them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.feed_forward import CURVES
from seq2see.layers.norms import EPSILON, LayerNorm
from seq2see.models.frontends import TokenFrontend
from seq2see.models.heads import BlankHead, PairHead
from seq2see.models.reader import Reader

Vectors = Float[Tensor, "row time width"]


class Rethink(nn.Module):
    """norm(f(x W + b)): from what a place knows of the text to what would fit there; f is the blocks' (ReLU, GELU)."""

    def __init__(self, width: int, curve: str = "gelu-tanh", epsilon: float = EPSILON):
        super().__init__()
        self.project, self.norm = nn.Linear(width, width), LayerNorm(width, epsilon)
        self.curve = CURVES[curve]

    def forward(self, vectors: Vectors) -> Vectors:
        """Each place by itself."""
        everything = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        return self.norm(self.curve(self.project(vectors)), everything)


class BERT(Reader):
    """Guess hidden tokens from both of their sides (the masked language model of section 3.1)."""

    def __init__(self, source: TokenFrontend, encoder: nn.Module, rethink: Rethink):
        super().__init__(source, encoder, BlankHead(source.table))
        self.rethink = rethink

    def hidden(self, batch: Batch) -> Sequences:
        """What would fit at every place."""
        read = super().hidden(batch)
        return Sequences(self.rethink(read.values), read.lengths)


class PairBERT(BERT):
    """The same, and a second question, asked at <bos>: does the second text follow the first? (section 3.1, task 2)."""

    def __init__(self, source: TokenFrontend, encoder: nn.Module, rethink: Rethink):
        super().__init__(source, encoder, rethink)
        self.head = PairHead(source.table)
        self.sum_up = nn.Linear(source.table.embedding_dim, source.table.embedding_dim)

    def hidden(self, batch: Batch) -> Sequences:
        """At <bos> what the two texts have to do with each other, behind it what would fit at every place."""
        read = Reader.hidden(self, batch)
        first, places = read.values[:, :1], read.values[:, 1:]
        return Sequences(torch.cat([self.sum_up(first).tanh(), self.rethink(places)], dim=1), read.lengths)
