"""Attention over short texts on a GPU, for training: the kernels of short_tiles.py as torch sees them.

The plain twin is `plain_attention` in layers/attention.py; a test on a GPU compares output and gradients.
"""

from typing import Any

import torch
from torch import Tensor

from seq2see.kernels.beside import at_hand
from seq2see.kernels.short_tiles import Parts, Sums, fill, like, look
from seq2see.kernels.sums import add_up

LONGEST = 128
SIZES = (16, 32, 64)
"""Numbers a head works on."""
MOST = 2048
"""Rows whose sums are added up at once."""


def fits(queries: Tensor, keys: Tensor) -> bool:
    """Whether these can be looked at here: 16-bit numbers, few of them, and a gradient that is wanted."""
    few = max(queries.size(2), keys.size(2)) <= LONGEST and queries.size(3) in SIZES
    return few and queries.dtype == keys.dtype == torch.bfloat16 and queries.requires_grad


# Operators, which torch.compile leaves as they are; it is told the shapes of what they give. The shorter way to say so,
# `torch.library.custom_op`, imports the compiler at the first call, even where nothing is compiled: seconds.
ATTEND, SLOPES = "seq2see::short_attention", "seq2see::short_attention_slopes"
AT_ITSELF, ITS_SLOPES = "seq2see::short_self_attention", "seq2see::short_self_attention_slopes"
torch.library.define(
    ATTEND,
    "(Tensor queries, Tensor keys, Tensor values, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    SLOPES,
    "(Tensor slope, Tensor queries, Tensor keys, Tensor values, Tensor? table, bool causal)"
    " -> (Tensor, Tensor, Tensor)",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    AT_ITSELF,
    "(Tensor together, int heads, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
torch.library.define(
    ITS_SLOPES,
    "(Tensor slope, Tensor together, int heads, Tensor? table, bool causal) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)


torch.library.impl(ATTEND, "default", look)


@torch.library.impl(SLOPES, "default")
def _slopes(
    slope: Tensor, queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    found = (like(queries), like(keys), like(values))
    fill(found, slope, (queries, keys, values), table, causal)
    return found


def _cut(together: Tensor, heads: int) -> Parts:
    """Queries, keys and values out of one product."""
    queries, keys, values = together.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return queries, keys, values


@torch.library.impl(AT_ITSELF, "default")
def _attend_itself(together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    return look(*_cut(together, heads), table, causal).transpose(1, 2).flatten(2)


@torch.library.impl(ITS_SLOPES, "default")
def _its_slopes(slope: Tensor, together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    found = together.new_empty(together.shape)
    _fill_together(found, slope, (together, heads, table, causal))
    return found


def _fill_together(found: Tensor, slope: Tensor, given: tuple[Any, ...], sums: Sums | None = None) -> None:
    """The slopes by queries, keys and values that lie side by side."""
    together, heads, table, causal = given
    slope = slope.unflatten(-1, (heads, -1)).transpose(1, 2)
    fill(_cut(found, heads), slope, _cut(together, heads), table, causal, sums)


@torch.library.register_fake(ATTEND)
def _(queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool) -> Tensor:
    return like(queries)


@torch.library.register_fake(SLOPES)
def _(
    slope: Tensor, queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return like(queries), like(keys), like(values)


@torch.library.register_fake(AT_ITSELF)
def _(together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    rows, times, width = together.shape
    return together.new_empty(rows, times, width // 3)


@torch.library.register_fake(ITS_SLOPES)
def _(slope: Tensor, together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    return together.new_empty(together.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.causal = inputs
    ctx.save_for_backward(*tensors)


def _back(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    beside, rows = at_hand(), len(slope)
    if beside is None or rows > MOST:
        return *torch.ops.seq2see.short_attention_slopes(slope, *ctx.saved_tensors, ctx.causal), None, None
    *parts, table = ctx.saved_tensors
    _, heads, times, size = parts[1].shape
    # Slopes by keys and values lie side by side, as those do if they come out of one product (`Pieces`).
    both = parts[1].new_empty(rows, times, 2, heads, size)
    found = (like(parts[0]), *both.permute(2, 0, 3, 1, 4).unbind())
    by_queries, by_both = (slope.new_empty(rows, each, heads * size, dtype=torch.float32) for each in (1, 2))
    fill(found, slope, parts, table, ctx.causal, (by_queries[:, 0], by_both.transpose(0, 1)))
    beside.know_sum(found[0], by_queries.flatten(1), add_up)
    beside.know_sum(both, by_both.flatten(1), add_up)
    return *found, None, None


def _keep_together(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    together, ctx.heads, table, ctx.causal = inputs
    ctx.save_for_backward(together, table)


def _back_together(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    together, table = ctx.saved_tensors
    beside = at_hand()
    if beside is None or len(slope) > MOST:
        found = torch.ops.seq2see.short_self_attention_slopes(slope, together, ctx.heads, table, ctx.causal)
        return found, None, None, None
    found = together.new_empty(together.shape)
    by_all = slope.new_empty(len(slope), 3, slope.size(-1), dtype=torch.float32)
    sums = by_all[:, 0], by_all[:, 1:].transpose(0, 1)
    _fill_together(found, slope, (together, ctx.heads, table, ctx.causal), sums)
    beside.know_sum(found, by_all.flatten(1), add_up)
    return found, None, None, None


torch.library.register_autograd(ATTEND, _back, setup_context=_keep)
torch.library.register_autograd(AT_ITSELF, _back_together, setup_context=_keep_together)


def short_attention(queries: Tensor, keys: Tensor, values: Tensor, table: Tensor | None, causal: bool) -> Tensor:
    """The weighted sum of the values; `table` says who may look where, True: may."""
    return torch.ops.seq2see.short_attention(queries, keys, values, table, causal)


def short_self_attention(together: Tensor, heads: int, table: Tensor | None, causal: bool) -> Tensor:
    """The same for queries, keys and values that lie side by side: so do their slopes, and nobody has to join them."""
    return torch.ops.seq2see.short_self_attention(together, heads, table, causal)
