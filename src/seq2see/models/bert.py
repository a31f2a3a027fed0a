"""BERT's half of the Transformer: blocks that look both ways, and a question for them: what was hidden?

Devlin et al. 2019. Compare `gpt.py`, which hides the future and asks what comes next. Here the blocks are the encoder's
own (`transformer.py`), with no mask but that of the padding; a model that sees everything would only copy, so some
tokens are hidden from it (`sequences/masking.py`), and the places where they stood are asked for them.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.feed_forward import ACTIVATIONS
from seq2see.layers.norms import EPSILON, LayerNorm
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.heads import MaskedLMHead, PreTrainingHead
from seq2see.models.token_embeddings import TokenEmbedding

Vectors = Float[Tensor, "row time width"]


class PredictionHeadTransform(nn.Module):
    """norm(f(x W + b)): from what a place knows of the text to what would fit there; f is the blocks' (ReLU, GELU)."""

    def __init__(self, width: int, activation: str = "gelu-tanh", eps: float = EPSILON):
        super().__init__()
        self.project, self.norm = nn.Linear(width, width), LayerNorm(width, eps)
        self.activation = ACTIVATIONS[activation]

    def forward(self, vectors: Vectors) -> Vectors:
        """Each place by itself."""
        valid = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        return self.norm(self.activation(self.project(vectors)), valid)


class BERT(EncoderModel):
    """Guess hidden tokens from both of their sides (the masked language model of section 3.1)."""

    def __init__(self, source: TokenEmbedding, encoder: nn.Module, transform: PredictionHeadTransform):
        super().__init__(source, encoder, MaskedLMHead(source.table))
        self.transform = transform

    def hidden(self, batch: Batch) -> Sequences:
        """What would fit at every place."""
        read = super().hidden(batch)
        return Sequences(self.transform(read.values), read.lengths)


class BERTForPreTraining(BERT):
    """The same, and a second question, asked at <bos>: does the second text follow the first? (section 3.1, task 2)."""

    def __init__(self, source: TokenEmbedding, encoder: nn.Module, transform: PredictionHeadTransform):
        super().__init__(source, encoder, transform)
        self.head = PreTrainingHead(source.table)
        self.pooler = nn.Linear(source.table.embedding_dim, source.table.embedding_dim)

    def hidden(self, batch: Batch) -> Sequences:
        """At <bos> what the two texts have to do with each other, behind it what would fit at every place."""
        read = EncoderModel.hidden(self, batch)
        first, places = read.values[:, :1], read.values[:, 1:]
        return Sequences(torch.cat([self.pooler(first).tanh(), self.transform(places)], dim=1), read.lengths)
