"""Padding and attention masks: which positions have data, and which query may attend to which key.

One convention everywhere: True means that the query *may attend* to the key. Masks are combined with `&`:
`causal_mask() & padding_mask(memory)`. A causal mask is a flag and no tensor until it reaches the attention kernel,
because fused kernels compute causal attention faster from a flag than from a dense mask.

The padding after the data of a row has no meaning, and may have any value, even NaN. With `zero_padding`,
`reverse_sequences`, `last_valid` and `masked_mean`, an encoder computes results that never depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.batch import DenseSequences, PackedSequences, Sequences


@dataclass(frozen=True)
class AttentionMask:
    """A boolean mask of queries and keys (None: no key is hidden), and whether later keys are hidden as well."""

    mask: Bool[Tensor, "#row 1 #query key"] | None = None
    causal: bool = False
    attention_bias: Float[Tensor, "#row head #query key"] | None = None
    """A bias that is added to the scores of each head, such as the distance penalty of ALiBi."""

    def __and__(self, other: AttentionMask) -> AttentionMask:
        masks = [each.mask for each in (self, other) if each.mask is not None]
        combined = reduce(torch.logical_and, masks) if masks else None
        return AttentionMask(combined, self.causal or other.causal)

    @property
    def is_full(self) -> bool:
        """Whether every query may attend to every key."""
        return self.mask is None and not self.causal

    def to_dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "#row 1 query key"]:
        """The boolean mask of all queries and keys, with the causal part written out."""
        full_mask = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device)
        if self.causal:
            full_mask = full_mask.tril()
        return full_mask if self.mask is None else full_mask & self.mask


def full_mask() -> AttentionMask:
    """Every query may attend to every key."""
    return AttentionMask()


def causal_mask() -> AttentionMask:
    """A query at position t may attend to keys up to position t, its own included.

    The course notes exclude position t itself. Here the inputs are shifted right by <bos>, so that the first position
    would have no key to attend to.
    """
    return AttentionMask(causal=True)


def document_mask(queries: PackedSequences, keys: PackedSequences) -> AttentionMask:
    """In packed rows: a query may attend to keys of the same document; padding may attend to every key."""
    query_ids, key_ids = queries.document_ids[:, :, None], keys.document_ids[:, None, :]
    return AttentionMask(((query_ids == key_ids) | (query_ids == 0))[:, None])


def causal_document_mask(packed: PackedSequences) -> AttentionMask:
    """In packed rows: a query may attend to keys of the same document, up to its own position."""
    same = packed.document_ids[:, :, None] == packed.document_ids[:, None, :]
    return AttentionMask((same & (packed.position_ids[:, None, :] <= packed.position_ids[:, :, None]))[:, None])


def padding_mask(sequences: Sequences) -> AttentionMask:
    """Only keys that are data may be attended to, not padding; `DenseSequences` have no padding to hide."""
    return full_mask() if isinstance(sequences, DenseSequences) else AttentionMask(sequences.valid[:, None, None, :])


def next_position_ids(first: Int[Tensor, "row"], count: int) -> Int[Tensor, "row count"]:
    """The next `count` position ids of each row, from `first` on."""
    return first[:, None] if count == 1 else first[:, None] + torch.arange(count, device=first.device)


def cache_mask(position_ids: Int[Tensor, "row query"], max_length: int) -> AttentionMask:
    """Each query may attend to the positions of a cache of `max_length` up to its own position id."""
    cache_positions = torch.arange(max_length, device=position_ids.device)
    return AttentionMask((cache_positions <= position_ids[:, :, None])[:, None])


AnySequences = TypeVar("AnySequences", bound=Sequences)


def zero_padding(sequences: AnySequences) -> AnySequences:
    """The sequences with zeros at padded positions.

    An attention weight of zero does not exclude padding: 0 · NaN is NaN, in the forward pass, and in the gradient of
    the weight. So the values themselves are replaced.
    """
    if isinstance(sequences, DenseSequences):
        return sequences
    return replace(sequences, values=torch.where(sequences.valid[..., None], sequences.values, 0))


def reverse_sequences(sequences: AnySequences) -> AnySequences:
    """The data of each row in reverse order; the padding stays at the end of the row.

    >>> ids = Sequences(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]))
    >>> reverse_sequences(ids).values.tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    values, lengths = sequences.values, sequences.lengths[:, None]
    rows, max_length = values.shape[:2]
    positions = torch.arange(max_length, device=values.device).expand(rows, max_length)
    reversed_positions = torch.where(sequences.valid, lengths - 1 - positions, positions)
    row_offsets = torch.arange(rows, device=values.device)[:, None] * max_length
    # Whole vectors are copied by their index in the flattened tensor: faster than `gather`, forward and backward.
    reordered = values.flatten(0, 1).index_select(0, (row_offsets + reversed_positions).flatten())
    return replace(sequences, values=reordered.view(values.shape))


def last_valid(sequences: Sequences) -> Float[Tensor, "row width"]:
    """The vector at the last valid position of each row; zeros for a row without data."""
    rows = torch.arange(sequences.values.size(0), device=sequences.values.device)
    last = sequences.values[rows, (sequences.lengths - 1).clamp(min=0)]
    return last.masked_fill((sequences.lengths == 0)[:, None], 0)


def masked_mean(sequences: Sequences) -> Float[Tensor, "row width"]:
    """The mean of the valid vectors of each row; zeros for a row without data."""
    return zero_padding(sequences).values.sum(1) / sequences.lengths.clamp(min=1)[:, None]
