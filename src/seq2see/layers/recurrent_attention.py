"""Looking back at one memory: how a recurrent decoder attends to what the encoder said.

Each class scores every place of the memory against a query in its own way; the scores become weights
that sum to one, and the context is the weighted mean of the memory's vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.layers.padding import zero_padding
from seq2see.layers.records import MemoryAttentionRecord

Hook = Callable[[MemoryAttentionRecord], None]


def masked_softmax(
    scores: Float[Tensor, "row query key"], valid: Bool[Tensor, "row key"]
) -> Float[Tensor, "row query key"]:
    """Softmax over the places that are data: exactly zero elsewhere, all zero if there are none.

    The lowest finite number stands for minus infinity: a softmax over nothing but minus infinity is NaN,
    and even where it is taken away afterwards, it alarms whoever hunts for NaN.
    """
    nothing_there = ~valid[:, None]
    scores = scores.masked_fill(nothing_there, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(nothing_there, 0)


class MemoryAttention(nn.Module):
    """Attention over one memory; the classes below say how a query and a key are scored.

    Set `hook` to a function to watch: it is called with the weights, and with what they were made of.
    """

    formula = "dot"
    """How what `project_query` and `project_keys` give is scored."""
    hook: Hook | None = None

    def project_query(self, query: Float[Tensor, "row query width"]) -> Float[Tensor, "row query size"]:
        """What of a query meets the keys: itself, unless a class says otherwise."""
        return query

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """The keys: all that can be computed from the memory alone, once for the whole sentence."""
        raise NotImplementedError

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """How well each query fits each key."""
        raise NotImplementedError

    def attend(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"], memory: Sequences
    ) -> tuple[Float[Tensor, "row query context"], Float[Tensor, "row query key"]]:
        """The context and the weights, unwatched, from a memory whose padding was made blank before."""
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
        """Let a probe see the weights, and what they were made of."""
        mask = memory.valid[:, None, None].expand_as(weights[:, None])
        queries, values = self.project_query(query), zero_padding(memory).values
        hook(MemoryAttentionRecord(weights[:, None], queries[:, None], keys[:, None], values[:, None], mask))

    def forward(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"], memory: Sequences
    ) -> tuple[Float[Tensor, "row query context"], Float[Tensor, "row query key"]]:
        """The context and the weights."""
        context, weights = self.attend(query, keys, zero_padding(memory))
        if self.hook is not None:
            self.call_hook(self.hook, query, keys, memory, weights)
        return context, weights


class AdditiveAttention(MemoryAttention):
    """Score each place with a small network: v · tanh(W q + U k).

    Bahdanau, Cho & Bengio 2015, appendix A.1.2. Query and key may have different widths. It costs a tanh for each pair
    of query and key, and for each unit of the hidden layer, where a dot product costs one matrix product for all.
    """

    formula = "additive"

    def __init__(self, query_width: int, memory_width: int, size: int | None = None):
        super().__init__()
        size = query_width if size is None else size
        self.query = nn.Linear(query_width, size)
        self.key = nn.Linear(memory_width, size, bias=False)
        self.score_proj = nn.Linear(size, 1, bias=False)

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """U k for every place."""
        return self.key(zero_padding(memory).values)

    def project_query(self, query: Float[Tensor, "row query width"]) -> Float[Tensor, "row query size"]:
        """W q."""
        return self.query(query)

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """v · tanh(W q + U k) for every pair."""
        together = torch.tanh(self.project_query(query)[:, :, None] + keys[:, None])
        return self.score_proj(together).squeeze(-1)


class DotAttention(MemoryAttention):
    """Score each place by q · k: no parameters at all; Luong, Pham & Manning 2015, eq. 8, "dot"."""

    def __init__(self, query_width: int, memory_width: int):
        super().__init__()
        if query_width != memory_width:
            raise UserError(
                f"A dot product needs vectors of one width, but the decoder's is {query_width} "
                f"and the memory's is {memory_width}.",
                hint="Give both the same width, or look by 'bilinear' or 'additive'.",
            )

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """The memory's vectors themselves."""
        return zero_padding(memory).values

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """q · k for every pair."""
        return query @ keys.mT


class ScaledDotAttention(DotAttention):
    """Score each place by q · k / √width; Vaswani et al. 2017, eq. 1.

    The dot product of two vectors of independent numbers with variance 1 has variance `width`; the
    division brings it back to 1, so that the softmax does not begin saturated.
    """

    formula = "scaled-dot"

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """q · k / √width for every pair."""
        return super().score(query, keys) * query.size(-1) ** -0.5


class BilinearAttention(MemoryAttention):
    """Score each place by q · W k: a dot product that is free of equal widths.

    Luong, Pham & Manning 2015, eq. 8, "general". W k does not depend on the query, so it is computed
    once, in `project_keys`.
    """

    def __init__(self, query_width: int, memory_width: int):
        super().__init__()
        self.key = nn.Linear(memory_width, query_width, bias=False)

    def project_keys(self, memory: Sequences) -> Float[Tensor, "row key size"]:
        """W k for every place."""
        return self.key(zero_padding(memory).values)

    def score(
        self, query: Float[Tensor, "row query width"], keys: Float[Tensor, "row key size"]
    ) -> Float[Tensor, "row query key"]:
        """q · W k for every pair."""
        return query @ keys.mT
