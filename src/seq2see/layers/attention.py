"""Looking: scaled dot-product attention, and many heads of it.

`attention_weights` and `eager_attention` are the definition (Vaswani et al. 2017, eq. 1); `fused_attention` is
what runs: torch's kernels, or for short texts on a GPU our own (kernels/short_attention.py). Tests say they agree.
A fused kernel never shows its weights, so when somebody watches (`hook` is set), they are computed again by
the plain function: what is shown is exact, and the output is the one an unwatched model gives, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.devices import kernels_enabled
from seq2see.kernels.async_layers import split_projection
from seq2see.layers.masks import MayLook, cache_mask
from seq2see.layers.relative_positions import KeyPositions, QueryPositions, RelativePositions
from seq2see.layers.unpadding import PaddedLayout

PADDED = PaddedLayout()  # how vectors lie unless a stack says otherwise
MAX_KEYS_BF16, MAX_KEYS_FLOAT32 = 256, 100  # keys in bf16 and in float32, for `prefer_eager`

Vectors = Float[Tensor, "row time width"]
Queries = Float[Tensor, "row head query size"]
Keys = Float[Tensor, "row head key size"]
GroupedKeys = Float[Tensor, "row group key size"]


def attention_weights(queries: Queries, keys: Keys, attention_mask: MayLook) -> Float[Tensor, "row head query key"]:
    """softmax(Q Kᵀ / √size): how much each query takes from each key.

    A query that may look at nothing takes nothing: its weights are zeros, never NaN.
    """
    scores = queries @ keys.mT * queries.size(-1) ** -0.5
    if attention_mask.attention_bias is not None:
        scores = scores + attention_mask.attention_bias
    if attention_mask.is_full:  # to fill nothing takes as long as to fill something
        return scores.softmax(-1)
    mask = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
    # The most negative number instead of -inf: a row without any key stays finite, forward and backward.
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


def eager_attention(queries: Queries, keys: Keys, values: Keys, attention_mask: MayLook) -> Queries:
    """The weighted sum of the values."""
    return attention_weights(queries, keys, attention_mask) @ values


def fused_attention(queries: Queries, keys: Keys, values: Keys, attention_mask: MayLook) -> Queries:
    """The same as `eager_attention`, by fused kernels: ours for short texts on a GPU, else torch's."""
    if can_use_short_attention(queries, keys, attention_mask):
        from seq2see.kernels.short_attention import short_attention

        return short_attention(queries, keys, values, attention_mask.mask, attention_mask.causal)
    if prefer_eager(queries, keys, attention_mask):
        return eager_attention(queries, keys, values, attention_mask)
    if attention_mask.attention_bias is not None:
        mask = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
        attention_bias = attention_mask.attention_bias.to(queries.dtype).masked_fill(
            ~mask, torch.finfo(queries.dtype).min / 2
        )
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=attention_bias)
    if attention_mask.causal and attention_mask.mask is None:
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    table = attention_mask.mask if attention_mask.additive is None else attention_mask.additive
    if attention_mask.causal:
        table = attention_mask.to_dense(queries.size(-2), keys.size(-2), queries.device)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=table)


def can_use_short_attention(queries: Queries, keys: Keys, attention_mask: MayLook) -> bool:
    """Whether our own kernels for short texts are there for these."""
    if not (kernels_enabled(queries.device) and queries.requires_grad and attention_mask.attention_bias is None):
        return False
    from seq2see.kernels.short_attention import is_supported

    return is_supported(queries, keys)


def prefer_eager(queries: Queries, keys: Keys, attention_mask: MayLook) -> bool:
    """The fused kernel of a CPU is slow on its way back: in bf16 always, in float32 with few keys, as an image has.

    In bf16 with few keys, it is a little slower on its way forward too.
    """
    low, learns = queries.dtype == torch.bfloat16, queries.requires_grad
    few = attention_mask.is_full and keys.size(-2) <= (MAX_KEYS_BF16 if low else MAX_KEYS_FLOAT32)
    return queries.device.type == "cpu" and ((low and learns) or (few and (low or learns)))


def with_attention_bias(
    attention_mask: MayLook, places: RelativePositions, query_positions: QueryPositions, key_positions: KeyPositions
) -> MayLook:
    """The same, with what these places add to the scores."""
    attention_bias = places.attention_bias(query_positions, key_positions)
    return attention_mask if attention_bias is None else replace(attention_mask, attention_bias=attention_bias)


def split_heads(vectors: Vectors, heads: int) -> Float[Tensor, "row head time size"]:
    """Cut each vector into `heads` equal pieces, one for each head."""
    return vectors.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(split_projection: Float[Tensor, "row head time size"]) -> Vectors:
    """Put the heads' pieces side by side again."""
    return split_projection.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class KeyValueCache:
    """The keys and values of the past, with room for the future; written in place, so it has one owner.

    They lie in one tensor, keys first: whoever writes or moves them does it once.
    """

    keys_values: Float[Tensor, "row 2 head room size"]

    @property
    def keys(self) -> Float[Tensor, "row head room size"]:
        """What queries are compared with."""
        return self.keys_values[:, 0]

    @property
    def values(self) -> Float[Tensor, "row head room size"]:
        """What they take."""
        return self.keys_values[:, 1]

    def write(self, keys_values: Float[Tensor, "row 2 head new size"], times: Int[Tensor, "row new"]) -> None:
        """Put the new keys and values at each row's own times."""
        places = times[:, None, None, :, None].expand_as(keys_values)
        self.keys_values.scatter_(3, places, keys_values.to(self.keys_values.dtype))


@dataclass(frozen=True)
class AttentionRecord:
    """All that goes into one look, for whoever watches: queries and keys as they meet, turned if positions turn them.

    The weights are computed when they are asked for.
    """

    queries: Queries
    keys: Keys
    values: Keys
    attention_mask: MayLook

    @property
    def weights(self) -> Float[Tensor, "row head query key"]:
        """How much each query takes from each key."""
        return attention_weights(self.queries, self.keys, self.attention_mask)

    @property
    def mask(self) -> Bool[Tensor, "row 1 query key"]:
        """Who may look at whom."""
        table = self.attention_mask.to_dense(self.queries.size(-2), self.keys.size(-2), self.queries.device)
        return table.expand(len(self.queries), -1, -1, -1)


class Attention(nn.Module):
    """What self- and cross-attention share: heads that look, an output matrix, a place for a watcher.

    [head₁; ...; headₕ] W_O with headᵢ = softmax(Qᵢ Kᵢᵀ / √size) Vᵢ (Vaswani et al. 2017, section 3.2.2).
    """

    formula = "scaled-dot"
    """How queries and keys are scored, as `attention_weights` says it."""
    hook: Callable[[AttentionRecord], None] | None = None  # set by inspection, else None

    def __init__(self, width: int, heads: int, matrix: type[nn.Linear] = nn.Linear):
        super().__init__()
        self.width, self.heads = width, heads
        self.out_proj = matrix(width, width)

    def attend(
        self, queries: Queries, keys: Keys, values: Keys, attention_mask: MayLook, layout: PaddedLayout = PADDED
    ) -> Float[Tensor, "line token width"]:
        """Let every head look, and mix what they found."""
        if self.hook is not None:
            self.hook(AttentionRecord(queries, keys, values, attention_mask))
        return self.out_proj(layout.unpad(merge_heads(fused_attention(queries, keys, values, attention_mask))))


class SelfAttention(Attention):
    """Queries, keys and values all come from the same sequence.

    The three projections stand in one matrix: one product instead of three. `places` tells the heads where the
    tokens stand to each other, where that was not added to the vectors; `matrix` is the kind of all its products.
    """

    def __init__(
        self, width: int, heads: int, places: RelativePositions | None = None, matrix: type[nn.Linear] = nn.Linear
    ):
        super().__init__(width, heads, matrix)
        self.qkv_proj = matrix(width, 3 * width)
        self.kv_heads, self.relative_positions = heads, places  # every head has keys of its own

    def project(
        self, vectors: Float[Tensor, "line token width"], layout: PaddedLayout = PADDED
    ) -> tuple[Queries, Float[Tensor, "row 2 group key size"]]:
        """Queries of every head, and keys and values of every head that has its own."""
        heads = split_heads(layout.pad(self.qkv_proj(vectors)), self.heads + 2 * self.kv_heads)
        queries, keys_values = heads[:, : self.heads], heads[:, self.heads :]
        return queries, keys_values.unflatten(1, (2, self.kv_heads))

    def split_qkv(self, qkv: Float[Tensor, "row time all"]) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """The same for learning: on the way back what belongs to the three is put together once, not added up."""
        queries, keys, values = split_projection(qkv, self.heads, self.kv_heads, self.kv_heads)
        return queries, keys, values

    def split_and_rotate(
        self, places: RelativePositions, qkv: Float[Tensor, "row time all"], times: Int[Tensor, "#row time"]
    ) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """The same, told where they stand: queries and keys lie side by side, so they are turned at once."""
        compared, values = split_projection(qkv, self.heads + self.kv_heads, self.kv_heads)
        compared = places.rotate(compared, times).transpose(1, 2)
        queries, keys = compared.split((self.heads, self.kv_heads), dim=2)
        return queries.transpose(1, 2), keys.transpose(1, 2), values

    def forward(self, vectors: Vectors, attention_mask: MayLook, layout: PaddedLayout = PADDED) -> Vectors:
        """Every time looks at the whole sequence (as far as it may)."""
        qkv = layout.pad(self.qkv_proj(vectors))
        if self.relative_positions is not None:
            # Only distances count, so it does not matter if a text begins in the middle of a line.
            times = torch.arange(qkv.size(1), device=qkv.device)[None]
            attention_mask = with_attention_bias(attention_mask, self.relative_positions, times, times)
            return self.attend(*self.split_and_rotate(self.relative_positions, qkv, times), attention_mask, layout)
        queries, keys, values = self.split_qkv(qkv)
        if self.hook is None and self.kv_heads == self.heads and can_use_short_attention(queries, keys, attention_mask):
            from seq2see.kernels.short_attention import short_self_attention

            found = short_self_attention(qkv, self.heads, attention_mask.mask, attention_mask.causal)
            return self.out_proj(layout.unpad(found))
        return self.attend(queries, keys, values, attention_mask, layout)

    def step(
        self,
        vectors: Vectors,
        cache: KeyValueCache,
        times: Int[Tensor, "row time"],
        self_attention_mask: MayLook | None = None,
    ) -> Vectors:
        """The new times look at the cached past and at each other; the cache takes them in.

        `self_attention_mask` is `cache_mask(times, room)`: the same for all layers, so a stack makes it once.
        """
        self_attention_mask = self_attention_mask or cache_mask(times, cache.keys.size(2))
        if self.relative_positions is None:
            queries, keys_values = self.project(vectors)
        else:
            room = torch.arange(cache.keys.size(2), device=times.device)[None]
            queries, *rest = self.split_and_rotate(self.relative_positions, self.qkv_proj(vectors), times)
            keys_values = torch.stack(rest, dim=1)
            self_attention_mask = with_attention_bias(self_attention_mask, self.relative_positions, times, room)
        cache.write(keys_values, times)
        return self.attend(queries, cache.keys, cache.values, self_attention_mask)

    def empty_cache(self, rows: int, room: int) -> KeyValueCache:
        """An empty cache for `room` tokens in each row."""
        shape = (rows, 2, self.kv_heads, room, self.width // self.heads)
        return KeyValueCache(self.out_proj.weight.new_zeros(shape))


class GroupedSelfAttention(SelfAttention):
    """Several heads ask the same keys and values (Ainslie et al. 2023; with one for all, Shazeer 2019).

    What is remembered of the past is smaller by as much, and reading it is most of the work of writing a long text.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        places: RelativePositions | None = None,
        matrix: type[nn.Linear] = nn.Linear,
    ):
        super().__init__(width, heads, places, matrix)
        self.kv_heads = kv_heads
        self.qkv_proj = matrix(width, width + 2 * kv_heads * (width // heads))

    def attend(
        self,
        queries: Queries,
        keys: GroupedKeys,
        values: GroupedKeys,
        attention_mask: MayLook,
        layout: PaddedLayout = PADDED,
    ) -> Float[Tensor, "line token width"]:
        """Let every head look at its group's keys."""
        times = self.heads // self.kv_heads
        keys, values = keys.repeat_interleave(times, dim=1), values.repeat_interleave(times, dim=1)
        return super().attend(queries, keys, values, attention_mask, layout)


class CrossAttention(Attention):
    """Queries come from the decoder, keys and values from the encoder's memory."""

    def __init__(self, width: int, heads: int, memory_width: int):
        super().__init__(width, heads)
        self.queries = nn.Linear(width, width)
        self.keys_values = nn.Linear(memory_width, 2 * width)

    def project_memory(
        self, memory: Float[Tensor, "line token memory"], layout: PaddedLayout = PADDED
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory: the same at every step, so they are computed once."""
        keys, values = split_projection(layout.pad(self.keys_values(memory)), self.heads, self.heads)
        return keys, values

    def forward(
        self,
        vectors: Vectors,
        keys_values: tuple[Tensor, Tensor],
        attention_mask: MayLook,
        layout: PaddedLayout = PADDED,
    ) -> Vectors:
        """Every time looks at the prepared memory."""
        queries = split_heads(layout.pad(self.queries(vectors)), self.heads)
        return self.attend(queries, *keys_values, attention_mask, layout)
