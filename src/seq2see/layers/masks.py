"""Who may look at whom.

One convention everywhere: True means *may look*. A mask is a sentence made of small words joined by
`&`: `causal_mask() & padding_mask(memory)`. The causal word stays a description until it reaches the attention
kernel, because fused kernels have a faster way to be causal than reading a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.batch import DenseSequences, PackedSequences, Sequences


@dataclass(frozen=True)
class MayLook:
    """A table of who may look at whom (None: everyone at everyone), and whether the future is hidden."""

    mask: Bool[Tensor, "#row 1 #query key"] | None = None
    causal_mask: bool = False
    additive: Float[Tensor, "#row 1 #query key"] | None = None
    """The table as numbers to add to scores: nothing, or very much less (see `with_additive_mask`)."""
    attention_bias: Float[Tensor, "#row head #query key"] | None = None
    """What is added to the scores of each head, where attention is told how far away a key stands."""

    def __and__(self, other: MayLook) -> MayLook:
        tables = [mask.mask for mask in (self, other) if mask.mask is not None]
        joined = reduce(torch.logical_and, tables) if tables else None
        return MayLook(joined, self.causal_mask or other.causal_mask)

    @property
    def is_full(self) -> bool:
        """Whether nothing is hidden from anyone."""
        return self.mask is None and not self.causal_mask

    def to_dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "#row 1 query key"]:
        """The whole table, written out."""
        full_mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device)
        if self.causal_mask:
            full_mask = full_mask.tril()
        return full_mask if self.mask is None else full_mask & self.mask


def with_additive_mask(attention_mask: MayLook, vectors: Float[Tensor, "..."]) -> MayLook:
    """The same with its table as numbers, which is what a GPU's kernels add: made once for a whole stack of layers."""
    if not vectors.is_cuda or attention_mask.mask is None or attention_mask.causal_mask:
        return attention_mask
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else vectors.dtype
    # Half of the most negative number, so that adding a score to it cannot make it infinite.
    additive = torch.zeros_like(attention_mask.mask, dtype=dtype).masked_fill(
        ~attention_mask.mask, torch.finfo(dtype).min / 2
    )
    return replace(attention_mask, additive=additive)


def full_mask() -> MayLook:
    """All may look at all."""
    return MayLook()


def causal_mask() -> MayLook:
    """A query at time t may look at keys up to time t, itself included.

    The notes forbid time t itself; with inputs shifted right by <bos> that would leave the first row
    with nothing to look at.
    """
    return MayLook(causal_mask=True)


def document_mask(queries: PackedSequences, keys: PackedSequences) -> MayLook:
    """Where several texts lie on a line: only at the text with the same number; padding may look anywhere."""
    own, other = queries.document_ids[:, :, None], keys.document_ids[:, None, :]
    return MayLook(((own == other) | (own == 0))[:, None])


def causal_document_mask(line: PackedSequences) -> MayLook:
    """Where several texts lie on a line: only at one's own text, up to oneself."""
    same = line.document_ids[:, :, None] == line.document_ids[:, None, :]
    return MayLook((same & (line.position_ids[:, None, :] <= line.position_ids[:, :, None]))[:, None])


def padding_mask(sequences: Sequences) -> MayLook:
    """Only at keys that are data, not padding: at all of them, if the rows are known to be whole."""
    return full_mask() if isinstance(sequences, DenseSequences) else MayLook(sequences.padding_mask[:, None, None, :])


def next_position_ids(first: Int[Tensor, "row"], count: int) -> Int[Tensor, "row count"]:
    """Each row's next `count` times; the first alone is there already."""
    return first[:, None] if count == 1 else first[:, None] + torch.arange(count, device=first.device)


def cache_mask(position_ids: Int[Tensor, "row query"], max_length: int) -> MayLook:
    """Each query stands at its own time in a cache with `max_length` places and sees what lies up to it."""
    places = torch.arange(max_length, device=position_ids.device)
    return MayLook((places <= position_ids[:, :, None])[:, None])
