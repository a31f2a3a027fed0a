"""Attention by fused kernels: torch's own, or, for short sequences in training on a GPU, `short_attention.py`.

The definition is `eager_attention` of layers/attention.py. A fused kernel does not store the weights of all queries and
keys, so it reads and writes far less memory. The classes here replace those of layers/attention.py; tests compare them
(tests/layers/test_attention.py, tests/acceleration/test_short_attention.py).

`split_projection` splits a projection into the queries, keys and values of all heads, with a backward pass of at most
one copy. Its definition is `split_heads`, followed by `split`, whose gradient concatenates the gradients of all parts
(tests/acceleration/test_qkv_grad.py).

The rows of different length in a stack have one of two memory layouts: padded rows, or one line without padding. All
layers of a Transformer but attention process each token by itself. So the tokens of a whole batch can be concatenated
to one line (unpadding), and no time is spent on padding. Only attention needs rows: `pad` restores them, and `unpad`
concatenates them again. On a GPU the rows stay padded: a shape that depends on the lengths would need a synchronization
of CPU and GPU. In both layouts a stack has vectors of the shape (row, time, width); the unpadded line is one long row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, active_async_grads
from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.attention import (
    Attention,
    AttentionRecord,
    CrossAttention,
    GroupedKeys,
    GroupedSelfAttention,
    Keys,
    KeyValueCache,
    Queries,
    SelfAttention,
    Vectors,
    eager_attention,
    merge_heads,
    split_heads,
    with_attention_bias,
)
from seq2see.layers.masks import AttentionMask, cache_mask, zero_padding
from seq2see.models.encoder_model import EncoderOutput

UnpaddedVectors = Shaped[Tensor, "line token width"]
PaddedVectors = Shaped[Tensor, "row time width"]


class PaddedLayout:
    """Padded rows: `pad` and `unpad` change nothing, and padded positions are computed like all others."""

    def from_sequences(self, sequences: Sequences) -> tuple[UnpaddedVectors, Bool[Tensor, "line token"]]:
        """The vectors in this layout, with zeros at padded positions, and which of them are valid."""
        return zero_padding(sequences).values, sequences.valid

    def pad(self, vectors: UnpaddedVectors) -> PaddedVectors:
        """From this layout to padded rows."""
        return vectors

    def unpad(self, rows: PaddedVectors) -> UnpaddedVectors:
        """From padded rows to this layout."""
        return rows


class UnpaddedLayout(PaddedLayout):
    """The valid vectors of all rows, concatenated to one long row; only attention works on padded rows."""

    def __init__(self, sequences: Sequences):
        self.shape = sequences.values.shape[:2]
        self.indices = sequences.valid.flatten().nonzero().squeeze(1)

    def from_sequences(self, sequences: Sequences) -> tuple[UnpaddedVectors, Bool[Tensor, "line token"]]:
        """The valid vectors on one line; all of its positions are valid."""
        return self.unpad(sequences.values), torch.ones_like(self.indices, dtype=torch.bool)[None]

    def pad(self, vectors: UnpaddedVectors) -> PaddedVectors:
        """Padded rows, with zeros at padded positions."""
        rows = vectors.new_zeros(self.shape.numel(), vectors.size(-1))
        return rows.index_copy(0, self.indices, vectors[0]).unflatten(0, self.shape)

    def unpad(self, rows: PaddedVectors) -> UnpaddedVectors:
        """The valid vectors of all rows as one long row."""
        return rows.flatten(0, 1).index_select(0, self.indices)[None]


PADDED = PaddedLayout()
"""The default layout."""


@dataclass(frozen=True)
class UnpaddedMemory(EncoderOutput):
    """An encoder output whose `values` are in a layout; its lengths are those of the padded rows."""

    layout: PaddedLayout = PADDED


def choose_layout(sequences: Sequences) -> PaddedLayout:
    """The fastest layout for these rows on their device.

    A compiled or exported graph must be correct for rows of any length, so it must not depend on the lengths.
    """
    lengths = sequences.lengths
    if isinstance(sequences, DenseSequences) or lengths.device.type != "cpu" or torch.compiler.is_compiling():
        return PaddedLayout()
    has_no_padding = int(lengths.sum()) == sequences.values.shape[:2].numel()
    return PaddedLayout() if has_no_padding else UnpaddedLayout(sequences)


class SplitHeadsFunction(torch.autograd.Function):
    """`split_heads_eagerly` with a fast backward pass.

    If the gradients of all parts are adjacent in memory, they are the gradient of the projection, without a copy.
    Otherwise one kernel concatenates them, and sums them for the bias of the projection.
    """

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, heads: tuple[int, ...], async_grads: AsyncWeightGrads
    ) -> tuple[Tensor, ...]:
        ctx.async_grads = async_grads
        return split_heads_eagerly(projected, heads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        joined = _join_without_copy(grads)
        if joined is not None:
            return joined, None, None
        if not ctx.async_grads.kernels:
            return torch.cat([grad_output.transpose(1, 2) for grad_output in grads], dim=2).flatten(2), None, None
        from seq2see.acceleration.qkv_grad import join_head_grads
        from seq2see.acceleration.row_sums import sum_parts

        joined, parts = join_head_grads(grads)
        ctx.async_grads.store_sum(joined, parts, sum_parts)
        return joined, None, None


def _join_without_copy(grads: Sequence[Tensor]) -> Tensor | None:
    """The gradient of the projection as a view, if the gradients of its parts have the memory layout of its slices."""
    first, heads = grads[0], tuple(grad_output.size(1) for grad_output in grads)
    rows, _, length, size = first.shape
    joined = torch.empty(rows, length, sum(heads) * size, device="meta")
    for grad_output, part in zip(grads, split_heads_eagerly(joined, heads), strict=True):
        offset = grad_output.storage_offset() - first.storage_offset()
        if grad_output.untyped_storage().data_ptr() != first.untyped_storage().data_ptr():
            return None
        if (grad_output.stride(), offset) != (part.stride(), part.storage_offset()):
            return None
    return first.as_strided(joined.shape, joined.stride())


def split_heads_eagerly(projected: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Split a projection (row, time, width) into parts (row, head, time, size) with these numbers of heads."""
    parts = projected.unflatten(-1, (sum(heads), -1)).split(heads, dim=2)
    return tuple(part.transpose(1, 2) for part in parts)


def split_projection(
    projected: Tensor, heads: tuple[int, ...], async_grads: AsyncWeightGrads | None
) -> tuple[Tensor, ...]:
    """`split_heads_eagerly`, with the fast backward pass if weight gradients are asynchronous."""
    if async_grads is None:
        return split_heads_eagerly(projected, heads)
    parts: tuple[Tensor, ...] = SplitHeadsFunction.apply(projected, heads, async_grads)
    return parts


MAX_KEYS_BF16, MAX_KEYS_FLOAT32 = 256, 100
"""The numbers of keys up to which `prefer_eager` holds."""


@dataclass(frozen=True)
class PreparedMask(AttentionMask):
    """A mask for hidden states in a memory layout, and its additive form, which GPU kernels need.

    A stack of blocks computes it once for all its layers.
    """

    additive: Float[Tensor, "#row 1 #query key"] | None = None
    """The mask as numbers that are added to the scores: 0, or a very negative number."""
    layout: PaddedLayout = PADDED
    """The layout of the queries' hidden states."""

    @staticmethod
    def of(attention_mask: AttentionMask, vectors: Tensor, layout: PaddedLayout = PADDED) -> PreparedMask:
        """A mask for these hidden states in this layout."""
        additive = to_additive(attention_mask, vectors)
        return PreparedMask(attention_mask.mask, attention_mask.causal, attention_mask.attention_bias, additive, layout)


def to_additive(attention_mask: AttentionMask, vectors: Tensor) -> Tensor | None:
    """The additive form of a mask for kernels of a GPU; None on a CPU, and for masks that need none."""
    if not vectors.is_cuda or attention_mask.mask is None or attention_mask.causal:
        return None
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else vectors.dtype
    # Half of the most negative number, so that the sum with a score cannot become infinite.
    lowest = torch.finfo(dtype).min / 2
    return torch.zeros_like(attention_mask.mask, dtype=dtype).masked_fill(~attention_mask.mask, lowest)


def stored_additive(attention_mask: AttentionMask, vectors: Tensor) -> Tensor | None:
    """The additive form of the mask of a decoding step, which is stored in the mask, because all layers share it."""
    if not vectors.is_cuda:
        return None
    stored: dict[str, Tensor | None] = attention_mask.__dict__
    if "stored_additive" not in stored:
        stored["stored_additive"] = to_additive(attention_mask, vectors)
    return stored["stored_additive"]


def layout_of(attention_mask: AttentionMask) -> PaddedLayout:
    """The layout of the queries' hidden states."""
    return attention_mask.layout if isinstance(attention_mask, PreparedMask) else PADDED


def fused_attention(queries: Queries, keys: Keys, values: Keys, attention_mask: AttentionMask) -> Queries:
    """Compute `eager_attention` with torch's fused kernels."""
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
    additive = (
        attention_mask.additive
        if isinstance(attention_mask, PreparedMask)
        else stored_additive(attention_mask, queries)
    )
    mask = attention_mask.mask if additive is None else additive
    if attention_mask.causal:
        mask = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def can_use_short_attention(queries: Queries, keys: Keys, attention_mask: AttentionMask) -> bool:
    """Whether our own kernels for short sequences support these queries, keys and mask."""
    if not (queries.is_cuda and queries.requires_grad and attention_mask.attention_bias is None):
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


class FusedAttention(Attention):
    """What the fast classes share: a fused kernel, and hidden states in any layout."""

    short_kernels: bool = False
    """Whether our own kernels for short sequences may run."""
    async_grads: AsyncWeightGrads | None = None
    """Computes weight gradients asynchronously in training (`async_weight_grad.py`)."""

    def attend(self, queries: Queries, keys: Keys, values: Keys, attention_mask: AttentionMask) -> Vectors:
        """Compute the attention of every head, and the output projection of the concatenated heads."""
        if self.hook is not None:
            self.hook(AttentionRecord(queries, keys, values, attention_mask))
        if self.short_kernels and can_use_short_attention(queries, keys, attention_mask):
            from seq2see.acceleration.short_attention import short_attention

            mask, causal = attention_mask.mask, attention_mask.causal
            heads = short_attention(
                queries, keys, values, mask, causal, active_async_grads(self) if self.async_grads else None
            )
        else:
            heads = fused_attention(queries, keys, values, attention_mask)
        return self.out_proj(layout_of(attention_mask).unpad(merge_heads(heads)))


def written_part(
    cache: KeyValueCache, attention_mask: AttentionMask, position_ids: Int[Tensor, "row time"]
) -> tuple[KeyValueCache, AttentionMask]:
    """The cache up to the last of these positions, and the mask of its keys; all later keys are hidden anyway.

    So the time of a step grows with the tokens so far, not with the capacity. On a GPU the whole cache is returned,
    because reading a position would wait for all kernels; and in a compiled graph, because its shapes are fixed.
    """
    if position_ids.device.type != "cpu" or torch.compiler.is_compiling() or attention_mask.mask is None:
        return cache, attention_mask
    count = int(position_ids.max()) + 1
    keys_values, mask = cache.keys_values[:, :, :, :count], attention_mask.mask[..., :count]
    return KeyValueCache(keys_values), replace(attention_mask, mask=mask)


class FusedSelfAttention(FusedAttention, SelfAttention):
    """`SelfAttention` by fused kernels."""

    plain: ClassVar[type[nn.Module]] = SelfAttention

    def project_and_rotate(
        self, qkv: Tensor, position_ids: Int[Tensor, "#row time"]
    ) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """Queries, keys and values, where queries and keys are rotated in one call (see `RelativePositions`)."""
        assert self.relative_positions is not None
        parts = (self.heads + self.kv_heads, self.kv_heads)
        queries_keys, values = split_projection(qkv, parts, active_async_grads(self) if self.async_grads else None)
        queries_keys = self.relative_positions.rotate(queries_keys, position_ids).transpose(1, 2)
        queries, keys = queries_keys.split((self.heads, self.kv_heads), dim=2)
        return queries.transpose(1, 2), keys.transpose(1, 2), values

    def forward(self, vectors: Vectors, attention_mask: AttentionMask) -> Vectors:
        """Every position attends to the sequence, as far as the mask allows."""
        layout = layout_of(attention_mask)
        qkv = layout.pad(self.qkv_proj(vectors))
        if self.relative_positions is not None:
            position_ids = torch.arange(qkv.size(1), device=qkv.device)[None]
            attention_mask = with_attention_bias(attention_mask, self.relative_positions, position_ids, position_ids)
            return self.attend(*self.project_and_rotate(qkv, position_ids), attention_mask)
        async_grads = active_async_grads(self) if self.async_grads else None
        queries, keys, values = split_projection(qkv, (self.heads, self.kv_heads, self.kv_heads), async_grads)
        has_one_projection = self.hook is None and self.kv_heads == self.heads
        if self.short_kernels and has_one_projection and can_use_short_attention(queries, keys, attention_mask):
            from seq2see.acceleration.short_attention import short_self_attention

            inputs = (qkv, self.heads, attention_mask.mask, attention_mask.causal)
            return self.out_proj(layout.unpad(short_self_attention(*inputs, async_grads)))
        return self.attend(queries, keys, values, attention_mask)

    def step(
        self,
        vectors: Vectors,
        cache: KeyValueCache,
        position_ids: Int[Tensor, "row time"],
        self_attention_mask: AttentionMask | None = None,
    ) -> Vectors:
        """New positions attend to the cached past; keys and values are one slice of the projection, without a copy."""
        self_attention_mask = self_attention_mask or cache_mask(position_ids, cache.keys.size(2))
        cache, self_attention_mask = written_part(cache, self_attention_mask, position_ids)
        if self.relative_positions is None:
            heads = split_heads(self.qkv_proj(vectors), self.heads + 2 * self.kv_heads)
            queries, keys_values = heads[:, : self.heads], heads[:, self.heads :].unflatten(1, (2, self.kv_heads))
        else:
            cache_positions = torch.arange(cache.keys.size(2), device=position_ids.device)[None]
            queries, keys, values = self.project_and_rotate(self.qkv_proj(vectors), position_ids)
            keys_values = torch.stack([keys, values], dim=1)
            self_attention_mask = with_attention_bias(
                self_attention_mask, self.relative_positions, position_ids, cache_positions
            )
        cache.write(keys_values, position_ids)
        return self.attend(queries, cache.keys, cache.values, self_attention_mask)


class FusedGroupedSelfAttention(FusedSelfAttention, GroupedSelfAttention):
    """`GroupedSelfAttention` by fused kernels."""

    plain: ClassVar[type[nn.Module]] = GroupedSelfAttention

    def attend(
        self, queries: Queries, keys: GroupedKeys, values: GroupedKeys, attention_mask: AttentionMask
    ) -> Vectors:
        """Repeat the keys and values for all query heads of a group, and compute the attention of every head."""
        group_size = self.heads // self.kv_heads
        keys, values = keys.repeat_interleave(group_size, dim=1), values.repeat_interleave(group_size, dim=1)
        return FusedAttention.attend(self, queries, keys, values, attention_mask)


class FusedCrossAttention(FusedAttention, CrossAttention):
    """`CrossAttention` by fused kernels."""

    plain: ClassVar[type[nn.Module]] = CrossAttention

    def project_memory(self, memory: Sequences) -> tuple[Keys, Keys]:
        """The keys and values of the memory, whose rows may be unpadded."""
        layout = memory.layout if isinstance(memory, UnpaddedMemory) else PADDED
        projected = layout.pad(self.kv_proj(memory.values))
        keys, values = split_projection(
            projected, (self.heads, self.heads), active_async_grads(self) if self.async_grads else None
        )
        return keys, values

    def forward(self, vectors: Vectors, keys_values: tuple[Tensor, Tensor], attention_mask: AttentionMask) -> Vectors:
        """Every position of the decoder attends to the keys and values of the memory."""
        queries = split_heads(layout_of(attention_mask).pad(self.q_proj(vectors)), self.heads)
        return self.attend(queries, *keys_values, attention_mask)
