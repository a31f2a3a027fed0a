"""The records that recurrent layers pass to their hooks (`inspection/trace.py`); see `AttentionRecord` as well."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class CellRecord:
    """The gates and states of a recurrent cell at each time step."""

    gates: dict[str, Tensor]
    """The gates by name (row, time, width), computed again by the equations, since a fused kernel returns none."""
    hidden: Float[Tensor, "row time width"]
    """The hidden states that the cell returned."""
    cell: Float[Tensor, "row time width"] | None
    """The memory cells of an LSTM, computed again with the gates."""


@dataclass(frozen=True)
class MemoryAttentionRecord:
    """The weights and inputs of attention over one memory, with a head axis of size 1, as in multi-head attention."""

    weights: Float[Tensor, "row 1 query key"]
    queries: Float[Tensor, "row 1 query size"]
    keys: Float[Tensor, "row 1 key size"]
    values: Float[Tensor, "row 1 key width"]
    mask: Bool[Tensor, "row 1 query key"]
