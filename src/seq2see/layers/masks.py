"""Who may look at whom.

One convention everywhere: True means *may look*. A mask is a sentence made of small words joined by
`&`: `causal() & real(memory)`. The causal word stays a description until it reaches the attention
kernel, because fused kernels have a faster way to be causal than reading a table.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from seq2see.core.batch import Sequences


@dataclass(frozen=True)
class MayLook:
    """A table of who may look at whom (None: everyone at everyone), and whether the future is hidden."""

    allowed: Bool[Tensor, "#row 1 #query key"] | None = None
    causal: bool = False

    def __and__(self, other: MayLook) -> MayLook:
        tables = [mask.allowed for mask in (self, other) if mask.allowed is not None]
        joined = torch.stack(torch.broadcast_tensors(*tables)).all(0) if tables else None
        return MayLook(joined, self.causal or other.causal)

    def table(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "#row 1 query key"]:
        """The whole table, written out."""
        everyone = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=device)
        if self.causal:
            everyone = everyone.tril()
        return everyone if self.allowed is None else everyone & self.allowed


def everyone() -> MayLook:
    """All may look at all."""
    return MayLook()


def causal() -> MayLook:
    """A query at time t may look at keys up to time t, itself included.

    The notes forbid time t itself; with inputs shifted right by <bos> that would leave the first row
    with nothing to look at.
    """
    return MayLook(causal=True)


def real(sequences: Sequences) -> MayLook:
    """Only at keys that are data, not padding."""
    return MayLook(sequences.real[:, None, None, :])


def so_far(times: Int[Tensor, "row query"], room: int) -> MayLook:
    """Each query stands at its own time in a cache with `room` places and sees what lies up to it."""
    places = torch.arange(room, device=times.device)
    return MayLook((places <= times[:, :, None])[:, None])
