"""Attention of a recurrent decoder over the encoder output (the memory): additive, dot, scaled dot and bilinear.

Each class has its own scoring function for a query and the keys of the memory. A softmax turns the scores into weights,
and the context vector is the weighted mean of the vectors of the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.layers.masks import zero_padding


@dataclass(frozen=True)
class MemoryAttentionRecord:
    """The weights and inputs of attention over one memory, with a head axis of size 1, as in multi-head attention."""

    weights: Float[Tensor, "row 1 query key"]
    queries: Float[Tensor, "row 1 query size"]
    keys: Float[Tensor, "row 1 key size"]
    values: Float[Tensor, "row 1 key width"]
    mask: Bool[Tensor, "row 1 query key"]


Hook = Callable[[MemoryAttentionRecord], None]


def masked_softmax(
    scores: Float[Tensor, "row query key"], valid: Bool[Tensor, "row key"]
) -> Float[Tensor, "row query key"]:
    """Softmax over the valid positions: exactly zero at padded positions, all zeros if a row has no valid position.

    Masked scores are the lowest finite number, not minus infinity: a softmax over nothing but minus infinity is NaN,
    and even if the NaN is replaced afterwards, tools that detect NaN (anomaly detection) report it.
    """
    padded = ~valid[:, None]
    scores = scores.masked_fill(padded, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(padded, 0)


class MemoryAttention(nn.Module):
    """Attention over one memory: the base class; subclasses define the scoring function.

    If `hook` is set, it is called with the weights and with the inputs that they were computed from.
    """

    score_function = "dot"
    """The scoring function of the outputs of `project_query` and `project_keys`."""
    hook: Hook | None = None

    def project_query(self, query: Float[Tensor, "row query width"]) -> Float[Tensor, "row query size"]:
        """The projection of the query that is scored against the keys: by default the query itself."""
        return query

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """The keys: the part of the scores that depends on the memory alone, computed once for each source."""
        raise NotImplementedError

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """The score of each query and each key."""
        raise NotImplementedError

    def attend(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"], memory: Sequences
    ) -> tuple[Float[Tensor, "row query context"], Float[Tensor, "row query key"]]:
        """The context vector and the weights, without the hook; the padding of the memory must already be zero."""
        weights = masked_softmax(self.score(query, keys), memory.valid)
        return weights @ memory.values, weights

    @torch.no_grad()
    def call_hook(
        self,
        hook: Hook,
        query: Float[Tensor, "row query width"],
        keys: Float[Tensor, "row key size"],
        memory: Sequences,
        weights: Float[Tensor, "row query key"],
    ) -> None:
        """Call the hook with the weights and their inputs."""
        mask = memory.valid[:, None, None].expand_as(weights[:, None])
        queries, values = self.project_query(query), zero_padding(memory).values
        hook(MemoryAttentionRecord(weights[:, None], queries[:, None], keys[:, None], values[:, None], mask))

    def forward(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"], memory: Sequences
    ) -> tuple[Float[Tensor, "row query context"], Float[Tensor, "row query key"]]:
        """The context vector and the weights."""
        context, weights = self.attend(query, keys, zero_padding(memory))
        if self.hook is not None:
            self.call_hook(self.hook, query, keys, memory, weights)
        return context, weights


class AdditiveAttention(MemoryAttention):
    """Additive attention: the score is a small network, v · tanh(W q + U k).

    Bahdanau, Cho & Bengio 2015, appendix A.1.2. Query and key may have different widths. It needs a tanh for each pair
    of query and key and for each unit of the hidden layer, where dot-product attention needs one matmul for all pairs.
    """

    score_function = "additive"

    def __init__(self, query_width: int, memory_width: int, size: int | None = None):
        super().__init__()
        size = query_width if size is None else size
        self.query = nn.Linear(query_width, size)
        self.key = nn.Linear(memory_width, size, bias=False)
        self.score_proj = nn.Linear(size, 1, bias=False)

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """U k for every position of the memory."""
        return self.key(zero_padding(memory).values)

    def project_query(self, query: Float[Tensor, "row query width"]) -> Float[Tensor, "row query size"]:
        """W q."""
        return self.query(query)

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """v · tanh(W q + U k) for every pair of query and key."""
        hidden = torch.tanh(self.project_query(query)[:, :, None] + keys[:, None])
        return self.score_proj(hidden).squeeze(-1)


class DotAttention(MemoryAttention):
    """Dot-product attention without parameters: the score is q · k (Luong, Pham & Manning 2015, eq. 8, "dot")."""

    def __init__(self, query_width: int, memory_width: int):
        super().__init__()
        if query_width != memory_width:
            raise UserError(
                f"Dot-product attention needs vectors of the same width, but the width of the decoder is {query_width} "
                f"and the width of the encoder output is {memory_width}.",
                hint="Set both to the same width, or use 'bilinear' or 'additive' attention.",
            )

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """The vectors of the memory themselves."""
        return zero_padding(memory).values

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """q · k for every pair of query and key."""
        return query @ keys.mT


class ScaledDotAttention(DotAttention):
    """Scaled dot-product attention: the score is q · k / √width (Vaswani et al. 2017, eq. 1).

    The dot product of two vectors of independent numbers with variance 1 has variance `width`. The division makes the
    variance 1 again, so that the softmax is not saturated at the beginning of training.
    """

    score_function = "scaled-dot"

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """q · k / √width for every pair of query and key."""
        return super().score(query, keys) * query.size(-1) ** -0.5


class BilinearAttention(MemoryAttention):
    """Bilinear attention: the score is q · W k, so that query and key may have different widths.

    Luong, Pham & Manning 2015, eq. 8, "general". W k does not depend on the query, so it is computed once, in
    `project_keys`.
    """

    def __init__(self, query_width: int, memory_width: int):
        super().__init__()
        self.key = nn.Linear(memory_width, query_width, bias=False)

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """W k for every position of the memory."""
        return self.key(zero_padding(memory).values)

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """q · W k for every pair of query and key."""
        return query @ keys.mT
