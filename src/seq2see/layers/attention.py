"""Scaled dot-product attention and multi-head attention: self-attention, grouped-query attention, cross-attention.

`attention_weights` and `eager_attention` are the definition (Vaswani et al. 2017, eq. 1). `fused_attention` is what
runs: torch's fused kernels, or, for short sequences on a GPU, our own (`short_attention.py`). Tests compare them.
A fused kernel does not return its attention weights. If a `hook` is set, they are computed a second time by the eager
function: the recorded weights are exact, and the output of the model is the same as without a hook, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.async_layers import split_projection
from seq2see.core.devices import kernels_enabled
from seq2see.layers.masks import AttentionMask, cache_mask
from seq2see.layers.relative_positions import KeyPositions, QueryPositions, RelativePositions
from seq2see.layers.unpadding import PaddedLayout

PADDED = PaddedLayout()  # the default layout of hidden states
MAX_KEYS_BF16, MAX_KEYS_FLOAT32 = 256, 100  # the numbers of keys up to which `prefer_eager` holds

Vectors = Float[Tensor, "row time width"]
Queries = Float[Tensor, "row head query size"]
Keys = Float[Tensor, "row head key size"]
GroupedKeys = Float[Tensor, "row group key size"]


def attention_weights(
    queries: Queries, keys: Keys, attention_mask: AttentionMask
) -> Float[Tensor, "row head query key"]:
    """softmax(Q Kᵀ / √size): the weight of each key for each query.

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


def fused_attention(queries: Queries, keys: Keys, values: Keys, attention_mask: AttentionMask) -> Queries:
    """Compute `eager_attention` with a fused kernel: our own for short sequences on a GPU, else torch's."""
    if can_use_short_attention(queries, keys, attention_mask):
        from seq2see.acceleration.short_attention import short_attention

        return short_attention(queries, keys, values, attention_mask.mask, attention_mask.causal)
    if prefer_eager(queries, keys, attention_mask):
        return eager_attention(queries, keys, values, attention_mask)
    if attention_mask.attention_bias is not None:
        dense_mask = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
        attention_bias = attention_mask.attention_bias.to(queries.dtype).masked_fill(
            ~dense_mask, torch.finfo(queries.dtype).min / 2
        )
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=attention_bias)
    if attention_mask.causal and attention_mask.mask is None:
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    mask = attention_mask.mask if attention_mask.additive is None else attention_mask.additive
    if attention_mask.causal:
        mask = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def can_use_short_attention(queries: Queries, keys: Keys, attention_mask: AttentionMask) -> bool:
    """Whether our own kernels for short sequences support these queries, keys and mask."""
    if not (kernels_enabled(queries.device) and queries.requires_grad and attention_mask.attention_bias is None):
        return False
    from seq2see.acceleration.short_attention import is_supported

    return is_supported(queries, keys)


def prefer_eager(queries: Queries, keys: Keys, attention_mask: AttentionMask) -> bool:
    """Whether `eager_attention` is faster than torch's fused kernel, as it may be on a CPU.

    The backward pass of the fused CPU kernel is slow: in bf16 always, in float32 with few keys (the patches of an
    image). In bf16 with few keys, its forward pass is a little slower too.
    """
    is_bf16, needs_grad = queries.dtype == torch.bfloat16, queries.requires_grad
    few_keys = attention_mask.is_full and keys.size(-2) <= (MAX_KEYS_BF16 if is_bf16 else MAX_KEYS_FLOAT32)
    return queries.device.type == "cpu" and ((is_bf16 and needs_grad) or (few_keys and (is_bf16 or needs_grad)))


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
    """The keys and values of past tokens, with space up to the maximum length. It is written in place.

    Because it is written in place, only one owner may use it. Keys and values share one tensor, keys first, so that
    writing or reordering them is one operation.
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
    """The scoring function of a query and a key: the one of `attention_weights`."""
    hook: Callable[[AttentionRecord], None] | None = None  # set by inspection, else None

    def __init__(self, width: int, heads: int, bias: bool = True):
        super().__init__()
        self.width, self.heads = width, heads
        self.out_proj = nn.Linear(width, width, bias=bias)

    def attend(
        self, queries: Queries, keys: Keys, values: Keys, attention_mask: AttentionMask, layout: PaddedLayout = PADDED
    ) -> Float[Tensor, "line token width"]:
        """Compute the attention of every head, and the output projection of the concatenated heads."""
        if self.hook is not None:
            self.hook(AttentionRecord(queries, keys, values, attention_mask))
        return self.out_proj(layout.unpad(merge_heads(fused_attention(queries, keys, values, attention_mask))))


class SelfAttention(Attention):
    """Self-attention: queries, keys and values are projections of the same sequence.

    The three projections share one weight matrix: one matmul instead of three. `relative_positions` is for models
    whose positions are not added to the embeddings (rotary positions, ALiBi). `bias` is that of both linear layers:
    it is a few numbers among thousands, and Llama (Touvron et al. 2023) has none, like T5 and PaLM before it.
    """

    def __init__(self, width: int, heads: int, relative_positions: RelativePositions | None = None, bias: bool = True):
        super().__init__(width, heads, bias)
        self.qkv_proj = nn.Linear(width, 3 * width, bias=bias)
        self.kv_heads, self.relative_positions = heads, relative_positions  # every head has keys of its own

    def project(
        self, vectors: Float[Tensor, "line token width"], layout: PaddedLayout = PADDED
    ) -> tuple[Queries, Float[Tensor, "row 2 group key size"]]:
        """The queries of all heads, and the keys and values of all key-value heads."""
        heads = split_heads(layout.pad(self.qkv_proj(vectors)), self.heads + 2 * self.kv_heads)
        queries, keys_values = heads[:, : self.heads], heads[:, self.heads :]
        return queries, keys_values.unflatten(1, (2, self.kv_heads))

    def split_qkv(self, qkv: Float[Tensor, "row time all"]) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """Queries, keys and values out of one projection; in training, their gradients are concatenated once."""
        queries, keys, values = split_projection(qkv, self.heads, self.kv_heads, self.kv_heads)
        return queries, keys, values

    def split_and_rotate(
        self,
        relative_positions: RelativePositions,
        qkv: Float[Tensor, "row time all"],
        position_ids: Int[Tensor, "#row time"],
    ) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """Queries, keys and values, where queries and keys are rotated in one call (see `RelativePositions`)."""
        queries_keys, values = split_projection(qkv, self.heads + self.kv_heads, self.kv_heads)
        queries_keys = relative_positions.rotate(queries_keys, position_ids).transpose(1, 2)
        queries, keys = queries_keys.split((self.heads, self.kv_heads), dim=2)
        return queries.transpose(1, 2), keys.transpose(1, 2), values

    def forward(self, vectors: Vectors, attention_mask: AttentionMask, layout: PaddedLayout = PADDED) -> Vectors:
        """Every position attends to the sequence, as far as the mask allows."""
        qkv = layout.pad(self.qkv_proj(vectors))
        if self.relative_positions is not None:
            # Attention depends on distances alone, so the position ids of packed texts need not restart at 0.
            position_ids = torch.arange(qkv.size(1), device=qkv.device)[None]
            attention_mask = with_attention_bias(attention_mask, self.relative_positions, position_ids, position_ids)
            queries, keys, values = self.split_and_rotate(self.relative_positions, qkv, position_ids)
            return self.attend(queries, keys, values, attention_mask, layout)
        queries, keys, values = self.split_qkv(qkv)
        if self.hook is None and self.kv_heads == self.heads and can_use_short_attention(queries, keys, attention_mask):
            from seq2see.acceleration.short_attention import short_self_attention

            output = short_self_attention(qkv, self.heads, attention_mask.mask, attention_mask.causal)
            return self.out_proj(layout.unpad(output))
        return self.attend(queries, keys, values, attention_mask, layout)

    def step(
        self,
        vectors: Vectors,
        cache: KeyValueCache,
        position_ids: Int[Tensor, "row time"],
        self_attention_mask: AttentionMask | None = None,
    ) -> Vectors:
        """New positions attend to the cached past and to each other; their keys and values are written to the cache.

        `self_attention_mask` is `cache_mask(position_ids, max_length)`. It is equal for all layers, so a stack
        computes it once.
        """
        self_attention_mask = self_attention_mask or cache_mask(position_ids, cache.keys.size(2))
        if self.relative_positions is None:
            queries, keys_values = self.project(vectors)
        else:
            cache_positions = torch.arange(cache.keys.size(2), device=position_ids.device)[None]
            queries, keys, values = self.split_and_rotate(self.relative_positions, self.qkv_proj(vectors), position_ids)
            keys_values = torch.stack([keys, values], dim=1)
            self_attention_mask = with_attention_bias(
                self_attention_mask, self.relative_positions, position_ids, cache_positions
            )
        cache.write(keys_values, position_ids)
        return self.attend(queries, cache.keys, cache.values, self_attention_mask)

    def empty_cache(self, rows: int, max_length: int) -> KeyValueCache:
        """An empty cache for `max_length` tokens in each row."""
        shape = (rows, 2, self.kv_heads, max_length, self.width // self.heads)
        return KeyValueCache(self.out_proj.weight.new_zeros(shape))


class GroupedSelfAttention(SelfAttention):
    """Grouped-query attention: several query heads share the keys and values of one head (Ainslie et al. 2023).

    With one key-value head for all it is multi-query attention (Shazeer 2019). The cache is smaller by the same factor,
    and reading the cache is most of the work of generating a long text.
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
        self,
        queries: Queries,
        keys: GroupedKeys,
        values: GroupedKeys,
        attention_mask: AttentionMask,
        layout: PaddedLayout = PADDED,
    ) -> Float[Tensor, "line token width"]:
        """Repeat the keys and values for all query heads of a group, and compute the attention of every head."""
        group_size = self.heads // self.kv_heads
        keys, values = keys.repeat_interleave(group_size, dim=1), values.repeat_interleave(group_size, dim=1)
        return super().attend(queries, keys, values, attention_mask, layout)


class CrossAttention(Attention):
    """Cross-attention: queries are projected from the decoder, keys and values from the encoder output (memory)."""

    def __init__(self, width: int, heads: int, memory_width: int):
        super().__init__(width, heads)
        self.q_proj = nn.Linear(width, width)
        self.kv_proj = nn.Linear(memory_width, 2 * width)

    def project_memory(
        self, memory: Float[Tensor, "line token memory"], layout: PaddedLayout = PADDED
    ) -> tuple[Tensor, Tensor]:
        """The keys and values of the memory. They are the same at every step, so they are computed once."""
        keys, values = split_projection(layout.pad(self.kv_proj(memory)), self.heads, self.heads)
        return keys, values

    def forward(
        self,
        vectors: Vectors,
        keys_values: tuple[Tensor, Tensor],
        attention_mask: AttentionMask,
        layout: PaddedLayout = PADDED,
    ) -> Vectors:
        """Every position of the decoder attends to the keys and values of the memory."""
        queries = split_heads(layout.pad(self.q_proj(vectors)), self.heads)
        return self.attend(queries, *keys_values, attention_mask, layout)
