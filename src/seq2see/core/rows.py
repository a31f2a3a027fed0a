"""Operations on the rows of decoder states: select, reorder, repeat, clone.

A state is a tensor whose first axis is the row, a dataclass or tuple of such, or a value that is equal for all rows.
The functions work for the state of any decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import TypeVar

from jaxtyping import Int
from torch import Tensor

State = TypeVar("State")
INPUT_ONLY = {"input_only": True}
"""`field(metadata=INPUT_ONLY)`: a part of a state that depends on the source alone, not on the generated tokens."""


def pick_rows(state: State, rows: Int[Tensor, "picked"]) -> State:
    """The rows of a state with these indices, in this order; a row may occur twice."""
    return _map_tensors(state, lambda tensor: tensor.index_select(0, rows))


def reorder_rows(state: State, rows: Int[Tensor, "picked"]) -> State:
    """`pick_rows` where each row is replaced by a row of the same source, so that INPUT_ONLY parts need no copy."""
    return _map_tensors(state, lambda tensor: tensor.index_select(0, rows), skip_input_only=True)


def repeat_rows(state: State, times: int) -> State:
    """Repeat each row `times` times: rows a, b become a, a, b, b."""
    return state if times == 1 else _map_tensors(state, lambda tensor: tensor.repeat_interleave(times, dim=0))


def clone_state(state: State) -> State:
    """A copy with its own tensors, to generate another continuation from the same state.

    A state has one owner: `step` may write to it in place, and the old state must not be used afterwards.
    """
    return _map_tensors(state, lambda tensor: tensor.clone())


def tensors_of(state: object, without_input_only: bool = False) -> list[Tensor]:
    """All tensors of a state or a batch, in a fixed order; optionally without the INPUT_ONLY ones."""
    tensors: list[Tensor] = []

    def append(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    _map_tensors(state, append, without_input_only)
    return tensors


def _map_tensors(state: State, function: Callable[[Tensor], Tensor], skip_input_only: bool = False) -> State:
    """The state with a function applied to every tensor; optionally INPUT_ONLY parts stay unchanged."""
    if isinstance(state, Tensor):
        return function(state)  # type: ignore[return-value]
    if is_dataclass(state) and not isinstance(state, type):
        # Not `replace` and `fields`: this runs at every step of decoding, and they take longer than the work itself.
        parts = []
        for name, field in state.__dataclass_fields__.items():
            part = getattr(state, name)
            is_skipped = skip_input_only and INPUT_ONLY.keys() <= field.metadata.keys()
            parts.append(part if is_skipped else _map_tensors(part, function, skip_input_only))
        return type(state)(*parts)
    if isinstance(state, tuple):
        return tuple(_map_tensors(part, function, skip_input_only) for part in state)  # type: ignore[return-value]
    return state  # None, or a number that is equal for all rows
