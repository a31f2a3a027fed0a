"""Truncated back-propagation through time: the decoder's state at the end of each row starts the next step.

The state is carried over, its gradient is not: the backward pass ends at the first token of the segment. The state is
in tensors with fixed addresses, as a CUDA graph requires; and it is part of a checkpoint, so that a resumed run
continues with the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seq2see.core.batch import ContiguousBatch, Sequences, clone_state, tensors_of


class CarriedState:
    """The decoder state between two steps; it exists from the first contiguous batch on, and only for those."""

    def __init__(self, model: Any):
        self.model, self.state = model, None
        self.new_states: list[Any] = []  # the final state of each micro-batch of a step

    def allocate(self, batch: ContiguousBatch) -> None:
        """Allocate the state for the rows of this batch, if there is none yet."""
        if self.state is None:
            self.state = clone_state(self.model.start(None, len(batch.indices), 0))

    def attach_state(self, batch: ContiguousBatch) -> ContiguousBatch:
        """The batch with its initial state, which is zero where a row is `reset`."""
        state = clone_state(self.state)
        for tensor in tensors_of(state):
            tensor.masked_fill_(batch.reset.view(-1, *[1] * (tensor.dim() - 1)), 0)
        return replace(batch, state=state)

    def hidden(self, micro_batch: ContiguousBatch) -> Sequences:
        """The hidden states of a micro-batch; its final state is stored in `new_states`."""
        assert micro_batch.target is not None
        hidden, final_state = self.model.step_hidden(micro_batch.target.values, micro_batch.state)
        self.new_states.append(final_state)
        return Sequences(hidden, micro_batch.target.lengths)

    @torch.no_grad()
    def commit(self) -> None:
        """Copy the final states of all micro-batches, in their order, to the carried state."""
        parts = zip(*map(tensors_of, self.new_states), strict=True)
        for target, micro_batch_states in zip(tensors_of(self.state), parts, strict=True):
            target.copy_(torch.cat(micro_batch_states))
        self.new_states = []

    @contextmanager
    def preserve(self) -> Iterator[None]:
        """A context at whose end the state is restored."""
        before = clone_state(self.state)
        try:
            yield
        finally:
            for target, saved in zip(tensors_of(self.state), tensors_of(before), strict=True):
                target.copy_(saved)

    def state_dict(self) -> dict[str, Tensor]:
        """The state as named tensors; none if there is no state."""
        return {str(number): tensor for number, tensor in enumerate(tensors_of(self.state))}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a state from the tensors of `state_dict`."""
        rows = len(tensors["0"])
        self.state = clone_state(self.model.start(None, rows, 0))
        for number, target in enumerate(tensors_of(self.state)):
            target.copy_(tensors[str(number)])
