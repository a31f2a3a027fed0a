"""Token embeddings: from token ids to the input vectors of encoders and decoders."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.batch import PackedSequences, SequencePairs, Sequences
from seq2see.layers.dropout import Dropout, EmbeddingDropout, VariationalDropout
from seq2see.layers.norms import EPSILON, LayerNorm


class TokenEmbedding(nn.Module):
    """The embedding of each token times √width, plus its position encoding.

    Vaswani et al. 2017, section 3.4: the table may be shared by the encoder's input, the decoder's input and the
    output layer. For the output layer its entries are small (1/√width); times √width they have the scale of the
    position encodings.
    """

    def __init__(self, table: nn.Embedding, positions: nn.Module, dropout: float):
        super().__init__()
        self.table = table
        self.positions = positions
        self.embedding_dropout, self.dropout = EmbeddingDropout(0.0), Dropout(dropout)
        self.scale = table.embedding_dim**0.5

    def set_awd_dropout(self, embedding_dropout: float, input_dropout: float) -> None:
        """Enable embedding dropout, and variational dropout with one mask for all positions of a row."""
        self.embedding_dropout, self.dropout = EmbeddingDropout(embedding_dropout), VariationalDropout(input_dropout)

    def forward(self, tokens: Sequences) -> Sequences:
        """The embeddings of whole sequences, from position 0."""
        if isinstance(tokens, PackedSequences):
            return replace(tokens, values=self.embed_at(tokens.values, tokens.position_ids))
        position_ids = torch.arange(tokens.values.size(1), device=tokens.values.device)
        return Sequences(self.embed_at(tokens.values, position_ids[None]), tokens.lengths)

    def embed_at(
        self, tokens: Int[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Float[Tensor, "row time width"]:
        """The embeddings of tokens at given positions."""
        vectors = self.embedding_dropout(self.table(tokens), tokens, self.table.num_embeddings)
        if self.scale != 1:  # a multiplication by 1 would cost time
            vectors = vectors * self.scale
        return self.dropout(vectors + self.positions(position_ids).to(vectors.dtype))


class UnscaledTokenEmbedding(TokenEmbedding):
    """Token embeddings without the factor √width (GPT-2, Llama)."""

    def __init__(self, table: nn.Embedding, positions: nn.Module, dropout: float):
        super().__init__(table, positions, dropout)
        self.scale = 1.0


class BertEmbedding(TokenEmbedding):
    """BERT's embeddings: the normalized sum of token, position and token type embeddings.

    Devlin et al. 2019, figure 2. The norm determines the scale, so the token embeddings are not scaled. All tokens of a
    single text have token type 0.
    """

    def __init__(self, table: nn.Embedding, positions: nn.Module, dropout: float, eps: float = EPSILON):
        super().__init__(table, positions, dropout)
        self.token_type_embedding = nn.Embedding(2, table.embedding_dim)
        self.norm = LayerNorm(table.embedding_dim, eps)

    def forward(self, tokens: Sequences) -> Sequences:
        """The embeddings of whole sequences, from position 0."""
        ids = tokens.values
        token_type_ids = tokens.token_type_ids if isinstance(tokens, SequencePairs) else torch.zeros_like(ids)
        position_ids = torch.arange(ids.size(1), device=ids.device)[None]
        vectors = self.table(ids) + self.positions(position_ids) + self.token_type_embedding(token_type_ids)
        return Sequences(self.dropout(self.norm(vectors, tokens.valid)), tokens.lengths)


TOKEN_EMBEDDINGS = {True: TokenEmbedding, False: UnscaledTokenEmbedding}
