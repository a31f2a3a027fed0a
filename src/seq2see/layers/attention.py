"""Scaled dot-product attention and multi-head attention: self-attention, grouped-query attention, cross-attention.

`attention_weights` and `eager_attention` are the definition (Vaswani et al. 2017, eq. 1). `acceleration/attention.py`
replaces them by a fused kernel, which does not return the attention weights. If a `hook` is set, `attention_weights`
computes the weights in addition to the kernel: so the weights are exact, and the output of the model is the same as
without a hook, bit for bit.

In the course notes, every head adds a change ΔE to the residual stream. In that form, the value matrix of a head is the
product of a narrow "down" and a wide "up" matrix, and each head adds its own change (`head_contributions`). Papers
write one output matrix instead. Both are equal: the output matrix is the concatenation of the "up" matrices of all
heads. A test compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.layers.masks import AttentionMask, cache_mask
from seq2see.layers.positions import KeyPositions, QueryPositions, RelativePositions

Vectors = Float[Tensor, "row time width"]
Queries = Float[Tensor, "row head query size"]
Keys = Float[Tensor, "row head key size"]
GroupedKeys = Float[Tensor, "row group key size"]


def attention_weights(
    queries: Queries, keys: Keys, attention_mask: AttentionMask
) -> Float[Tensor, "row head query key"]:
    """softmax(Q Kᵀ / √size): the weight of each key for each query; `size` is the width of a head (d_k in the paper).

    If the mask hides every key from a query, its weights are zeros, never NaN.
    """
    scores = queries @ keys.mT * queries.size(-1) ** -0.5
    if attention_mask.attention_bias is not None:
        scores = scores + attention_mask.attention_bias
    if attention_mask.is_full:  # without a mask, `masked_fill` would only cost time
        return scores.softmax(-1)
    mask = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
    # The most negative finite number instead of -inf: a query without any key stays finite, forward and backward.
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


def eager_attention(queries: Queries, keys: Keys, values: Keys, attention_mask: AttentionMask) -> Queries:
    """The sum of the values, weighted by `attention_weights`."""
    return attention_weights(queries, keys, attention_mask) @ values


def with_attention_bias(
    attention_mask: AttentionMask,
    relative_positions: RelativePositions,
    query_positions: QueryPositions,
    key_positions: KeyPositions,
) -> AttentionMask:
    """A mask with the attention bias of the relative positions, if they have one (ALiBi)."""
    attention_bias = relative_positions.attention_bias(query_positions, key_positions)
    return attention_mask if attention_bias is None else replace(attention_mask, attention_bias=attention_bias)


def split_heads(vectors: Vectors, heads: int) -> Float[Tensor, "row head time size"]:
    """Split each vector into `heads` parts of equal size, one for each head."""
    return vectors.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(heads: Float[Tensor, "row head time size"]) -> Vectors:
    """Concatenate the heads: the inverse of `split_heads`."""
    return heads.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class KeyValueCache:
    """The keys and values of past tokens, with space up to the maximum length.

    It is written in place, so two states must not share it. Keys and values are one tensor, keys first, so that writing
    or reordering them is one operation.
    """

    keys_values: Float[Tensor, "row 2 head max_length size"]

    @property
    def keys(self) -> Float[Tensor, "row head max_length size"]:
        """The keys, written and unwritten."""
        return self.keys_values[:, 0]

    @property
    def values(self) -> Float[Tensor, "row head max_length size"]:
        """The values, written and unwritten."""
        return self.keys_values[:, 1]

    def write(self, keys_values: Float[Tensor, "row 2 head new size"], position_ids: Int[Tensor, "row new"]) -> None:
        """Write new keys and values at the positions of each row."""
        indices = position_ids[:, None, None, :, None].expand_as(keys_values)
        self.keys_values.scatter_(3, indices, keys_values.to(self.keys_values.dtype))


@dataclass(frozen=True)
class AttentionRecord:
    """The inputs of one attention call, for a hook; with rotary positions, queries and keys are already rotated.

    `weights` computes the attention weights when it is read.
    """

    queries: Queries
    keys: Keys
    values: Keys
    attention_mask: AttentionMask

    @property
    def weights(self) -> Float[Tensor, "row head query key"]:
        """The attention weights of each query over the keys."""
        return attention_weights(self.queries, self.keys, self.attention_mask)

    @property
    def mask(self) -> Bool[Tensor, "row 1 query key"]:
        """The dense attention mask: True where a query may attend to a key."""
        mask = self.attention_mask.to_dense(self.queries.size(-2), self.keys.size(-2), self.queries.device)
        return mask.expand(len(self.queries), -1, -1, -1)


class Attention(nn.Module):
    """Multi-head attention, the base class of self- and cross-attention.

    [head₁; ...; headₕ] W_O with headᵢ = softmax(Qᵢ Kᵢᵀ / √size) Vᵢ (Vaswani et al. 2017, section 3.2.2).
    """

    score_function = "scaled-dot"
    """The name of the scoring function of `attention_weights`."""
    hook: Callable[[AttentionRecord], None] | None = None  # set by inspection, else None

    def __init__(self, width: int, heads: int, bias: bool = True):
        super().__init__()
        self.width, self.heads = width, heads
        self.out_proj = nn.Linear(width, width, bias=bias)

    def attend(self, queries: Queries, keys: Keys, values: Keys, attention_mask: AttentionMask) -> Vectors:
        """Compute the attention of every head, and the output projection of the concatenated heads."""
        if self.hook is not None:
            self.hook(AttentionRecord(queries, keys, values, attention_mask))
        return self.out_proj(merge_heads(eager_attention(queries, keys, values, attention_mask)))


class SelfAttention(Attention):
    """Self-attention: queries, keys and values are projections of the same sequence.

    The three projections share one weight matrix: one matmul instead of three. `relative_positions` is for models
    whose positions are not added to the embeddings (rotary positions, ALiBi). With `bias`, both linear layers have a
    bias; those of T5, PaLM and Llama (Touvron et al. 2023) have none.
    """

    def __init__(self, width: int, heads: int, relative_positions: RelativePositions | None = None, bias: bool = True):
        super().__init__(width, heads, bias)
        self.qkv_proj = nn.Linear(width, 3 * width, bias=bias)
        self.kv_heads, self.relative_positions = heads, relative_positions  # each head has its own keys and values

    def project(self, vectors: Vectors) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """The queries of all heads, and the keys and values of all key-value heads."""
        heads = split_heads(self.qkv_proj(vectors), self.heads + 2 * self.kv_heads)
        queries, keys, values = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        return queries, keys, values

    def forward(self, vectors: Vectors, attention_mask: AttentionMask) -> Vectors:
        """Every position attends to the sequence, as far as the mask allows."""
        queries, keys, values = self.project(vectors)
        if self.relative_positions is not None:
            # Attention depends on distances alone, so the position ids of packed texts need not restart at 0.
            position_ids = torch.arange(vectors.size(1), device=vectors.device)[None]
            attention_mask = with_attention_bias(attention_mask, self.relative_positions, position_ids, position_ids)
            queries, keys = (self.relative_positions.rotate(each, position_ids) for each in (queries, keys))
        return self.attend(queries, keys, values, attention_mask)

    def step(
        self,
        vectors: Vectors,
        cache: KeyValueCache,
        position_ids: Int[Tensor, "row time"],
        self_attention_mask: AttentionMask | None = None,
    ) -> Vectors:
        """New positions attend to the cached past and to each other; their keys and values are written to the cache.

        `self_attention_mask` is `cache_mask(position_ids, max_length)`, which is equal for all layers; so a stack
        computes it once and passes it to each layer.
        """
        self_attention_mask = self_attention_mask or cache_mask(position_ids, cache.keys.size(2))
        queries, keys, values = self.project(vectors)
        if self.relative_positions is not None:
            cache_positions = torch.arange(cache.keys.size(2), device=position_ids.device)[None]
            self_attention_mask = with_attention_bias(
                self_attention_mask, self.relative_positions, position_ids, cache_positions
            )
            queries, keys = (self.relative_positions.rotate(each, position_ids) for each in (queries, keys))
        cache.write(torch.stack([keys, values], dim=1), position_ids)
        return self.attend(queries, cache.keys, cache.values, self_attention_mask)

    def empty_cache(self, rows: int, max_length: int) -> KeyValueCache:
        """An empty cache for `max_length` tokens in each row."""
        shape = (rows, 2, self.kv_heads, max_length, self.width // self.heads)
        return KeyValueCache(self.out_proj.weight.new_zeros(shape))


class GroupedSelfAttention(SelfAttention):
    """Grouped-query attention: several query heads share the keys and values of one head (Ainslie et al. 2023).

    With one key-value head for all it is multi-query attention (Shazeer 2019). With g query heads for each key-value
    head the cache is g times smaller, and reading the cache is most of the work of generating a long text.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        relative_positions: RelativePositions | None = None,
        bias: bool = True,
    ):
        super().__init__(width, heads, relative_positions, bias)
        self.kv_heads = kv_heads
        self.qkv_proj = nn.Linear(width, width + 2 * kv_heads * (width // heads), bias=bias)

    def attend(
        self, queries: Queries, keys: GroupedKeys, values: GroupedKeys, attention_mask: AttentionMask
    ) -> Vectors:
        """Repeat the keys and values for all query heads of a group, and compute the attention of every head."""
        group_size = self.heads // self.kv_heads
        keys, values = keys.repeat_interleave(group_size, dim=1), values.repeat_interleave(group_size, dim=1)
        return super().attend(queries, keys, values, attention_mask)


class CrossAttention(Attention):
    """Cross-attention: queries are projected from the decoder, keys and values from the encoder output (memory)."""

    def __init__(self, width: int, heads: int, memory_width: int):
        super().__init__(width, heads)
        self.q_proj = nn.Linear(width, width)
        self.kv_proj = nn.Linear(memory_width, 2 * width)

    def project_memory(self, memory: Sequences) -> tuple[Keys, Keys]:
        """The keys and values of the memory. They are the same at every step, so they are computed once."""
        keys, values = split_heads(self.kv_proj(memory.values), 2 * self.heads).chunk(2, dim=1)
        return keys, values

    def forward(self, vectors: Vectors, keys_values: tuple[Tensor, Tensor], attention_mask: AttentionMask) -> Vectors:
        """Every position of the decoder attends to the keys and values of the memory."""
        return self.attend(split_heads(self.q_proj(vectors), self.heads), *keys_values, attention_mask)


def value_output_matrices(attention: SelfAttention) -> Float[Tensor, "head width size"]:
    """The "up" factor of the low-rank value matrix of each head: a slice of the output projection."""
    return attention.out_proj.weight.unflatten(1, (attention.heads, -1)).transpose(0, 1)


def head_contributions(
    attention: SelfAttention, vectors: Float[Tensor, "row time width"], attention_mask: AttentionMask
) -> Float[Tensor, "head row time width"]:
    """The vectors that each head adds to the residual stream; their sum plus the output bias is the layer's output."""
    queries, keys, values = attention.project(vectors)  # `values` are already multiplied by the "down" factor
    head_outputs = attention_weights(queries, keys, attention_mask) @ values
    return (head_outputs.transpose(0, 1) @ value_output_matrices(attention).mT[:, None]).contiguous()
