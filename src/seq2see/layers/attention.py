"""Looking: scaled dot-product attention, and many heads of it.

`attention_weights` and `plain_attention` are the definition (Vaswani et al. 2017, eq. 1); `fused_attention` is
what runs: torch's kernels, or for short texts on a GPU our own (kernels/short_attention.py). Tests say they agree.
A fused kernel never shows its weights, so when somebody watches (`probe` is set), they are computed again by
the plain function: what is shown is exact, and the output is the one an unwatched model gives, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.devices import kernels_on
from seq2see.kernels.layers import pieces
from seq2see.layers.layout import Padded
from seq2see.layers.masks import MayLook, so_far
from seq2see.layers.relative_positions import Asked, Asking, Places

AS_ROWS = Padded()  # how vectors lie unless a stack says otherwise
FEW, FEWER = 256, 100  # keys in bf16 and in float32, for `plain_is_sooner`

Vectors = Float[Tensor, "row time width"]
Queries = Float[Tensor, "row head query size"]
Keys = Float[Tensor, "row head key size"]
Shared = Float[Tensor, "row group key size"]


def attention_weights(queries: Queries, keys: Keys, may_look: MayLook) -> Float[Tensor, "row head query key"]:
    """softmax(Q Kᵀ / √size): how much each query takes from each key.

    A query that may look at nothing takes nothing: its weights are zeros, never NaN.
    """
    scores = queries @ keys.mT * queries.size(-1) ** -0.5
    if may_look.lean is not None:
        scores = scores + may_look.lean
    if may_look.everywhere:  # to fill nothing takes as long as to fill something
        return scores.softmax(-1)
    allowed = may_look.table(queries.size(-2), keys.size(-2), queries.device)
    # The most negative number instead of -inf: a row without any key stays finite, forward and backward.
    weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~allowed, 0.0)


def plain_attention(queries: Queries, keys: Keys, values: Keys, may_look: MayLook) -> Queries:
    """The weighted sum of the values."""
    return attention_weights(queries, keys, may_look) @ values


def fused_attention(queries: Queries, keys: Keys, values: Keys, may_look: MayLook) -> Queries:
    """The same as `plain_attention`, by fused kernels: ours for short texts on a GPU, else torch's."""
    if is_short(queries, keys, may_look):
        from seq2see.kernels.short_attention import short_attention

        return short_attention(queries, keys, values, may_look.allowed, may_look.causal)
    if plain_is_sooner(queries, keys, may_look):
        return plain_attention(queries, keys, values, may_look)
    if may_look.lean is not None:
        allowed = may_look.table(queries.size(-2), keys.size(-2), queries.device)
        lean = may_look.lean.to(queries.dtype).masked_fill(~allowed, torch.finfo(queries.dtype).min / 2)
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=lean)
    if may_look.causal and may_look.allowed is None:
        return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    table = may_look.allowed if may_look.added is None else may_look.added
    if may_look.causal:
        table = may_look.table(queries.size(-2), keys.size(-2), queries.device)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=table)


def is_short(queries: Queries, keys: Keys, may_look: MayLook) -> bool:
    """Whether our own kernels for short texts are there for these."""
    if not (kernels_on(queries.device) and queries.requires_grad and may_look.lean is None):
        return False
    from seq2see.kernels.short_attention import fits

    return fits(queries, keys)


def plain_is_sooner(queries: Queries, keys: Keys, may_look: MayLook) -> bool:
    """The fused kernel of a CPU is slow on its way back: in bf16 always, in float32 with few keys, as a picture has.

    In bf16 with few keys, it is a little slower on its way forward too.
    """
    low, learns = queries.dtype == torch.bfloat16, queries.requires_grad
    few = may_look.everywhere and keys.size(-2) <= (FEW if low else FEWER)
    return queries.device.type == "cpu" and ((low and learns) or (few and (low or learns)))


def leaning(may_look: MayLook, places: Places, asking: Asking, asked: Asked) -> MayLook:
    """The same, with what these places add to the scores."""
    lean = places.lean(asking, asked)
    return may_look if lean is None else replace(may_look, lean=lean)


def split_heads(vectors: Vectors, heads: int) -> Float[Tensor, "row head time size"]:
    """Cut each vector into `heads` equal pieces, one for each head."""
    return vectors.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(pieces: Float[Tensor, "row head time size"]) -> Vectors:
    """Put the heads' pieces side by side again."""
    return pieces.transpose(1, 2).flatten(2)


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
class Looked:
    """All that goes into one look, for whoever watches: queries and keys as they meet, turned if positions turn them.

    The weights are computed when they are asked for.
    """

    queries: Queries
    keys: Keys
    values: Keys
    may_look: MayLook

    @property
    def weights(self) -> Float[Tensor, "row head query key"]:
        """How much each query takes from each key."""
        return attention_weights(self.queries, self.keys, self.may_look)

    @property
    def allowed(self) -> Bool[Tensor, "row 1 query key"]:
        """Who may look at whom."""
        table = self.may_look.table(self.queries.size(-2), self.keys.size(-2), self.queries.device)
        return table.expand(len(self.queries), -1, -1, -1)


class Attention(nn.Module):
    """What self- and cross-attention share: heads that look, an output matrix, a place for a watcher.

    [head₁; ...; headₕ] W_O with headᵢ = softmax(Qᵢ Kᵢᵀ / √size) Vᵢ (Vaswani et al. 2017, section 3.2.2).
    """

    formula = "scaled-dot"
    """How queries and keys are scored, as `attention_weights` says it."""
    probe: Callable[[Looked], None] | None = None  # set by inspection, else None

    def __init__(self, width: int, heads: int, matrix: type[nn.Linear] = nn.Linear):
        super().__init__()
        self.width, self.heads = width, heads
        self.output = matrix(width, width)

    def look(
        self, queries: Queries, keys: Keys, values: Keys, may_look: MayLook, layout: Padded = AS_ROWS
    ) -> Float[Tensor, "line token width"]:
        """Let every head look, and mix what they found."""
        if self.probe is not None:
            self.probe(Looked(queries, keys, values, may_look))
        return self.output(layout.gather(join_heads(fused_attention(queries, keys, values, may_look))))


class SelfAttention(Attention):
    """Queries, keys and values all come from the same sequence.

    The three projections stand in one matrix: one product instead of three. `places` tells the heads where the
    tokens stand to each other, where that was not added to the vectors; `matrix` is the kind of all its products.
    """

    def __init__(self, width: int, heads: int, places: Places | None = None, matrix: type[nn.Linear] = nn.Linear):
        super().__init__(width, heads, matrix)
        self.queries_keys_values = matrix(width, 3 * width)
        self.key_heads, self.places = heads, places  # every head has keys of its own

    def project(
        self, vectors: Float[Tensor, "line token width"], layout: Padded = AS_ROWS
    ) -> tuple[Queries, Float[Tensor, "row 2 group key size"]]:
        """Queries of every head, and keys and values of every head that has its own."""
        heads = split_heads(layout.spread(self.queries_keys_values(vectors)), self.heads + 2 * self.key_heads)
        queries, keys_values = heads[:, : self.heads], heads[:, self.heads :]
        return queries, keys_values.unflatten(1, (2, self.key_heads))

    def cut(self, together: Float[Tensor, "row time all"]) -> tuple[Queries, Shared, Shared]:
        """The same for learning: on the way back what belongs to the three is put together once, not added up."""
        queries, keys, values = pieces(together, self.heads, self.key_heads, self.key_heads)
        return queries, keys, values

    def turned(
        self, places: Places, together: Float[Tensor, "row time all"], times: Int[Tensor, "#row time"]
    ) -> tuple[Queries, Shared, Shared]:
        """The same, told where they stand: queries and keys lie side by side, so they are turned at once."""
        compared, values = pieces(together, self.heads + self.key_heads, self.key_heads)
        compared = places.turn(compared, times).transpose(1, 2)
        queries, keys = compared.split((self.heads, self.key_heads), dim=2)
        return queries.transpose(1, 2), keys.transpose(1, 2), values

    def forward(self, vectors: Vectors, may_look: MayLook, layout: Padded = AS_ROWS) -> Vectors:
        """Every time looks at the whole sequence (as far as it may)."""
        together = layout.spread(self.queries_keys_values(vectors))
        if self.places is not None:
            # Only distances count, so it does not matter if a text begins in the middle of a line.
            times = torch.arange(together.size(1), device=together.device)[None]
            may_look = leaning(may_look, self.places, times, times)
            return self.look(*self.turned(self.places, together, times), may_look, layout)
        queries, keys, values = self.cut(together)
        if self.probe is None and self.key_heads == self.heads and is_short(queries, keys, may_look):
            from seq2see.kernels.short_attention import short_self_attention

            found = short_self_attention(together, self.heads, may_look.allowed, may_look.causal)
            return self.output(layout.gather(found))
        return self.look(queries, keys, values, may_look, layout)

    def step(
        self, vectors: Vectors, cache: KeyValueCache, times: Int[Tensor, "row time"], at_past: MayLook | None = None
    ) -> Vectors:
        """The new times look at the cached past and at each other; the cache takes them in.

        `at_past` is `so_far(times, room)`: the same for all layers, so a stack makes it once.
        """
        at_past = at_past or so_far(times, cache.keys.size(2))
        if self.places is None:
            queries, keys_values = self.project(vectors)
        else:
            room = torch.arange(cache.keys.size(2), device=times.device)[None]
            queries, *rest = self.turned(self.places, self.queries_keys_values(vectors), times)
            keys_values = torch.stack(rest, dim=1)
            at_past = leaning(at_past, self.places, times, room)
        cache.write(keys_values, times)
        return self.look(queries, cache.keys, cache.values, at_past)

    def room(self, rows: int, room: int) -> KeyValueCache:
        """An empty cache for `room` tokens in each row."""
        shape = (rows, 2, self.key_heads, room, self.width // self.heads)
        return KeyValueCache(self.output.weight.new_zeros(shape))


class GroupedSelfAttention(SelfAttention):
    """Several heads ask the same keys and values (Ainslie et al. 2023; with one for all, Shazeer 2019).

    What is remembered of the past is smaller by as much, and reading it is most of the work of writing a long text.
    """

    def __init__(
        self, width: int, heads: int, key_heads: int, places: Places | None = None, matrix: type[nn.Linear] = nn.Linear
    ):
        super().__init__(width, heads, places, matrix)
        self.key_heads = key_heads
        self.queries_keys_values = matrix(width, width + 2 * key_heads * (width // heads))

    def look(
        self, queries: Queries, keys: Shared, values: Shared, may_look: MayLook, layout: Padded = AS_ROWS
    ) -> Float[Tensor, "line token width"]:
        """Let every head look at its group's keys."""
        times = self.heads // self.key_heads
        keys, values = keys.repeat_interleave(times, dim=1), values.repeat_interleave(times, dim=1)
        return super().look(queries, keys, values, may_look, layout)


class CrossAttention(Attention):
    """Queries come from the decoder, keys and values from the encoder's memory."""

    def __init__(self, width: int, heads: int, memory_width: int):
        super().__init__(width, heads)
        self.queries = nn.Linear(width, width)
        self.keys_values = nn.Linear(memory_width, 2 * width)

    def prepare(self, memory: Float[Tensor, "line token memory"], layout: Padded = AS_ROWS) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory: the same at every step, so they are computed once."""
        keys, values = pieces(layout.spread(self.keys_values(memory)), self.heads, self.heads)
        return keys, values

    def forward(
        self, vectors: Vectors, keys_values: tuple[Tensor, Tensor], may_look: MayLook, layout: Padded = AS_ROWS
    ) -> Vectors:
        """Every time looks at the prepared memory."""
        queries = split_heads(layout.spread(self.queries(vectors)), self.heads)
        return self.look(queries, *keys_values, may_look, layout)
