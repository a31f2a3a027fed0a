"""Token embeddings, from token ids to input vectors; and heads, from hidden states to logits.

Both may share one table (Vaswani et al. 2017, section 3.4, "Embeddings and Softmax").

Models of series have an embedding and a head for values in place of tokens: x(t+1) = f(x(t), x(t-1), ...) + ε,
autoregression. Every decoder can be used: an MLP or a linear model over the last τ values, recurrent cells whose state
summarizes the past, or a GPT. The model is a `LanguageModel` whose embedding takes values and whose head predicts a
value.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.batch import PackedSequences, SequencePairs, Sequences
from seq2see.layers.norms_and_dropout import EPSILON, Dropout, EmbeddingDropout, LayerNorm, VariationalDropout


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
        self.embedding_dropout: EmbeddingDropout | None = None
        self.dropout = Dropout(dropout)
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
        vectors = self.table(tokens)
        if self.embedding_dropout is not None:
            vectors = self.embedding_dropout(vectors, tokens, self.table.num_embeddings)
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


class ValueEmbedding(nn.Module):
    """The embedding of a value: x w + b, without position encoding."""

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(1, width)

    def forward(self, series: Sequences) -> Sequences:
        """The embeddings of whole series."""
        return Sequences(self.project(series.values[..., None]), series.lengths)

    def embed_at(
        self, values: Float[Tensor, "row time"], position_ids: Int[Tensor, "#row time"]
    ) -> Float[Tensor, "row time width"]:
        """The embeddings of values; positions do not matter."""
        return self.project(values[..., None])


class RegressionHead(nn.Module):
    """The next value: h w + b, the mean of a normal distribution of constant variance."""

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(width, 1)

    def forward(self, hidden: Float[Tensor, "row time width"]) -> Float[Tensor, "row time 1"]:
        """The prediction for each position."""
        return self.project(hidden)
