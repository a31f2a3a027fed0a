"""Picking rows of anything: one function serves every decoder's state, present and future.

A state is a tensor with rows first, a (data)class or tuple of such, or a value equal for all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import TypeVar

from jaxtyping import Int
from torch import Tensor

State = TypeVar("State")
INPUT_ONLY = {"of input": True}
"""`field(metadata=INPUT_ONLY)`: part of a state that depends on the input alone, not on what was said about it."""


def pick_rows(state: State, rows: Int[Tensor, "picked"]) -> State:
    """The given rows of a state, in the given order; a row may be picked twice."""
    return _map_tensors(state, lambda tensor: tensor.index_select(0, rows))


def reorder_rows(state: State, rows: Int[Tensor, "picked"]) -> State:
    """`pick_rows` where every row goes on from a row of its own input: what is OF_INPUT stays where it is."""
    return _map_tensors(state, lambda tensor: tensor.index_select(0, rows), keep=True)


def repeat_rows(state: State, times: int) -> State:
    """Each row `times` times in succession: rows a, b become a, a, b, b."""
    return state if times == 1 else _map_tensors(state, lambda tensor: tensor.repeat_interleave(times, dim=0))


def clone_state(state: State) -> State:
    """A copy with tensors of its own, for trying another continuation from the same point.

    A state has one owner: `step` may write into it, and the old state must not be used afterwards.
    """
    return _map_tensors(state, lambda tensor: tensor.clone())


def tensors_of(state: object, without_input_only: bool = False) -> list[Tensor]:
    """All tensors of a state or a batch, in a fixed order; if asked, without those that are OF_INPUT."""
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _map_tensors(state, note, without_input_only)
    return found


def _map_tensors(state: State, change: Callable[[Tensor], Tensor], keep: bool = False) -> State:
    """The state with every tensor changed; if asked, what is OF_INPUT is kept as it is."""
    if isinstance(state, Tensor):
        return change(state)  # type: ignore[return-value]
    if is_dataclass(state) and not isinstance(state, type):
        # Not `replace` and `fields`: this is asked at every step of decoding, and they take longer than the work.
        parts = []
        for name, about in state.__dataclass_fields__.items():
            part = getattr(state, name)
            parts.append(
                part if keep and INPUT_ONLY.keys() <= about.metadata.keys() else _map_tensors(part, change, keep)
            )
        return type(state)(*parts)
    if isinstance(state, tuple):
        return tuple(_map_tensors(part, change, keep) for part in state)  # type: ignore[return-value]
    return state  # None, or a number that is equal for all rows
