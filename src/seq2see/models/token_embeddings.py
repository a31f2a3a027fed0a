"""From raw sequences to sequences of vectors: what stands before every encoder and decoder."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import PackedSequences, SequencePairs, Sequences
from seq2see.layers.dropout import Dropout, EmbeddingDropout, VariationalDropout
from seq2see.layers.norms import EPSILON, LayerNorm


class TokenEmbedding(nn.Module):
    """Look up a vector for each token, times √width, and add where the token stands.

    Vaswani et al. 2017, section 3.4: the table may be shared between the encoder's input, the decoder's
    input and the output. As a share of the output its entries are small (1/√width); times √width they
    are as large as the positions they are added to.
    """

    def __init__(self, table: nn.Embedding, positions: nn.Module, dropout: float):
        super().__init__()
        self.table = table
        self.positions = positions
        self.embedding_dropout, self.dropout = EmbeddingDropout(0.0), Dropout(dropout)
        self.scale = table.embedding_dim**0.5

    def set_awd_dropout(self, embedding_dropout: float, input_dropout: float) -> None:
        """Drop out whole words, and numbers for all times of a row at once."""
        self.embedding_dropout, self.dropout = EmbeddingDropout(embedding_dropout), VariationalDropout(input_dropout)

    def forward(self, tokens: Sequences) -> Sequences:
        """Vectors for whole sequences that start at time 0."""
        if isinstance(tokens, PackedSequences):
            return replace(tokens, values=self.embed_at(tokens.values, tokens.position_ids))
        position_ids = torch.arange(tokens.values.size(1), device=tokens.values.device)
        return Sequences(self.embed_at(tokens.values, position_ids[None]), tokens.lengths)

    def embed_at(
        self, tokens: Int[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Float[Tensor, "row time width"]:
        """Vectors for tokens that stand at given times."""
        vectors = self.embedding_dropout(self.table(tokens), tokens, self.table.num_embeddings)
        if self.scale != 1:  # to multiply by 1 takes as long as by any other number
            vectors = vectors * self.scale
        return self.dropout(vectors + self.positions(position_ids).to(vectors.dtype))


class UnscaledTokenEmbedding(TokenEmbedding):
    """The same without √width: vectors are added to their positions as they stand in the table (GPT-2, Llama)."""

    def __init__(self, table: nn.Embedding, positions: nn.Module, dropout: float):
        super().__init__(table, positions, dropout)
        self.scale = 1.0


class BertEmbedding(TokenEmbedding):
    """A vector for the token, one for its place and one for its sentence, added up and normalized.

    Devlin et al. 2019, figure 2. The norm makes the scale of the sum what it should be, so no table is scaled. A text
    that stands alone is all first sentence.
    """

    def __init__(self, table: nn.Embedding, positions: nn.Module, dropout: float, eps: float = EPSILON):
        super().__init__(table, positions, dropout)
        self.token_type_embedding = nn.Embedding(2, table.embedding_dim)
        self.norm = LayerNorm(table.embedding_dim, eps)

    def forward(self, tokens: Sequences) -> Sequences:
        """Vectors for whole sequences that start at time 0."""
        ids = tokens.values
        token_type_ids = tokens.token_type_ids if isinstance(tokens, SequencePairs) else torch.zeros_like(ids)
        position_ids = torch.arange(ids.size(1), device=ids.device)[None]
        vectors = self.table(ids) + self.positions(position_ids) + self.token_type_embedding(token_type_ids)
        return Sequences(self.dropout(self.norm(vectors, tokens.valid)), tokens.lengths)


TOKEN_EMBEDDINGS = {True: TokenEmbedding, False: UnscaledTokenEmbedding}
