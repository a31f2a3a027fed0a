"""BERT: a Transformer encoder with bidirectional attention, pretrained as a masked language model.

Devlin et al. 2019. Compare `gpt.py`, whose causal mask hides the future and which predicts the next token. The blocks
are the encoder's own (`transformer.py`) and only padding is masked. Such a model could copy its input, so some tokens
are masked (`data/masking.py`), and the model predicts the tokens at these positions.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.layers.feed_forward import ACTIVATIONS
from seq2see.layers.norms_and_dropout import EPSILON, LayerNorm
from seq2see.models.embeddings_and_heads import MaskedLMHead, PreTrainingHead, TokenEmbedding
from seq2see.models.encoder_model import EncoderModel

Vectors = Float[Tensor, "row time width"]


class PredictionHeadTransform(nn.Module):
    """norm(f(x W + b)), between the encoder and the masked-LM head; f is the activation of the blocks (ReLU, GELU)."""

    def __init__(self, width: int, activation: str = "gelu-tanh", eps: float = EPSILON):
        super().__init__()
        self.project, self.norm = nn.Linear(width, width), LayerNorm(width, eps)
        self.activation = ACTIVATIONS[activation]

    def forward(self, vectors: Vectors) -> Vectors:
        """Transform the hidden state of every position."""
        valid = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        return self.norm(self.activation(self.project(vectors)), valid)


class BERT(EncoderModel):
    """Predict masked tokens from their left and right context (the masked language model of section 3.1)."""

    def __init__(self, source: TokenEmbedding, encoder: nn.Module, transform: PredictionHeadTransform):
        super().__init__(source, encoder, MaskedLMHead(source.table))
        self.transform = transform

    def hidden(self, batch: Batch) -> Sequences:
        """The transformed hidden state of every position."""
        encoded = super().hidden(batch)
        return Sequences(self.transform(encoded.values), encoded.lengths)


class BERTForPreTraining(BERT):
    """BERT with next sentence prediction at <bos>: does the second text follow the first? (section 3.1, task 2)."""

    def __init__(self, source: TokenEmbedding, encoder: nn.Module, transform: PredictionHeadTransform):
        super().__init__(source, encoder, transform)
        self.head = PreTrainingHead(source.table)
        self.pooler = nn.Linear(source.table.embedding_dim, source.table.embedding_dim)

    def hidden(self, batch: Batch) -> Sequences:
        """The pooled vector at <bos>, and the transformed hidden states of all later positions."""
        encoded = EncoderModel.hidden(self, batch)
        first, others = encoded.values[:, :1], encoded.values[:, 1:]
        return Sequences(torch.cat([self.pooler(first).tanh(), self.transform(others)], dim=1), encoded.lengths)
