"""Who may look at whom.

One convention everywhere: True means *may look*. A mask is a sentence made of small words joined by
`&`: `causal() & real(memory)`. The causal word stays a description until it reaches the attention
kernel, because fused kernels have a faster way to be causal than reading a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.batch import Sequences, Strung, Whole


@dataclass(frozen=True)
class MayLook:
    """A table of who may look at whom (None: everyone at everyone), and whether the future is hidden."""

    allowed: Bool[Tensor, "#row 1 #query key"] | None = None
    causal: bool = False
    added: Float[Tensor, "#row 1 #query key"] | None = None
    """The table as numbers to add to scores: nothing, or very much less (see `for_kernel`)."""
    lean: Float[Tensor, "#row head #query key"] | None = None
    """What is added to the scores of each head, where attention is told how far away a key stands."""

    def __and__(self, other: MayLook) -> MayLook:
        tables = [mask.allowed for mask in (self, other) if mask.allowed is not None]
        joined = reduce(torch.logical_and, tables) if tables else None
        return MayLook(joined, self.causal or other.causal)

    @property
    def everywhere(self) -> bool:
        """Whether nothing is hidden from anyone."""
        return self.allowed is None and not self.causal

    def table(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "#row 1 query key"]:
        """The whole table, written out."""
        everyone = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device)
        if self.causal:
            everyone = everyone.tril()
        return everyone if self.allowed is None else everyone & self.allowed


def for_kernel(may_look: MayLook, vectors: Float[Tensor, "..."]) -> MayLook:
    """The same with its table as numbers, which is what a GPU's kernels add: made once for a whole stack of layers."""
    if not vectors.is_cuda or may_look.allowed is None or may_look.causal:
        return may_look
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else vectors.dtype
    # Half of the most negative number, so that adding a score to it cannot make it infinite.
    added = torch.zeros_like(may_look.allowed, dtype=dtype).masked_fill(~may_look.allowed, torch.finfo(dtype).min / 2)
    return replace(may_look, added=added)


def everyone() -> MayLook:
    """All may look at all."""
    return MayLook()


def causal() -> MayLook:
    """A query at time t may look at keys up to time t, itself included.

    The notes forbid time t itself; with inputs shifted right by <bos> that would leave the first row
    with nothing to look at.
    """
    return MayLook(causal=True)


def own_text(asking: Strung, asked: Strung) -> MayLook:
    """Where several texts lie on a line: only at the text with the same number; padding may look anywhere."""
    own, other = asking.texts[:, :, None], asked.texts[:, None, :]
    return MayLook(((own == other) | (own == 0))[:, None])


def own_past(line: Strung) -> MayLook:
    """Where several texts lie on a line: only at one's own text, up to oneself."""
    same = line.texts[:, :, None] == line.texts[:, None, :]
    return MayLook((same & (line.times[:, None, :] <= line.times[:, :, None]))[:, None])


def real(sequences: Sequences) -> MayLook:
    """Only at keys that are data, not padding: at all of them, if the rows are known to be whole."""
    return everyone() if isinstance(sequences, Whole) else MayLook(sequences.real[:, None, None, :])


def times_from(first: Int[Tensor, "row"], count: int) -> Int[Tensor, "row count"]:
    """Each row's next `count` times; the first alone is there already."""
    return first[:, None] if count == 1 else first[:, None] + torch.arange(count, device=first.device)


def so_far(times: Int[Tensor, "row query"], room: int) -> MayLook:
    """Each query stands at its own time in a cache with `room` places and sees what lies up to it."""
    places = torch.arange(room, device=times.device)
    return MayLook((places <= times[:, :, None])[:, None])
