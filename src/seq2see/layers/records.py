"""What recurrent parts show to whoever watches them (`inspection/trace.py`); attention shows `Looked`."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class CellRecord:
    """What a cell did at each of some times."""

    gates: dict[str, Tensor]
    """By name (row, time, width), computed again as the equations say; a fused kernel shows none."""
    hidden: Float[Tensor, "row time width"]
    """The states that the cell gave."""
    cell: Float[Tensor, "row time width"] | None
    """What an LSTM also keeps to itself, computed again with the gates."""


@dataclass(frozen=True)
class MemoryAttentionRecord:
    """All that goes into looks at one memory; as if there were many heads, with one (axis 1)."""

    weights: Float[Tensor, "row 1 query key"]
    queries: Float[Tensor, "row 1 query size"]
    keys: Float[Tensor, "row 1 key size"]
    values: Float[Tensor, "row 1 key width"]
    mask: Bool[Tensor, "row 1 query key"]
