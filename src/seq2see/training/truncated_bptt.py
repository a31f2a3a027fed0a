"""What a model remembers from one step of training to the next: the state of its decoder at the end of each stream.

The state is kept, its gradient is not: a step sends nothing back beyond the beginning of its stretch (truncated
back-propagation through time). It lies in tensors that stay where they are, so that a CUDA graph finds it; and it is
part of a checkpoint, so that a resumed run remembers what the uninterrupted one would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seq2see.core.batch import Batch, ContiguousBatch, Sequences
from seq2see.core.rows import clone_state, tensors_of


class CarriedState:
    """The state between two steps; it is there from the first stretch on, and never for other batches."""

    def __init__(self, model: Any):
        self.model, self.state = model, None
        self.new_states: list[Any] = []  # the states after each piece of a step

    def allocate(self, batch: Batch) -> None:
        """Make room for the state of these rows, if there is none yet."""
        if isinstance(batch, ContiguousBatch) and self.state is None:
            self.state = clone_state(self.model.start(None, len(batch.indices), 0))

    def attach_state(self, batch: Batch) -> Batch:
        """The batch, if it is a stretch with the state to read on from: zeros where a stream begins."""
        if not isinstance(batch, ContiguousBatch):
            return batch
        state = clone_state(self.state)
        for tensor in tensors_of(state):
            tensor.masked_fill_(batch.reset.view(-1, *[1] * (tensor.dim() - 1)), 0)
        return replace(batch, state=state)

    def hidden(self, micro_batch: Batch) -> Sequences:
        """The hidden states of a piece of a batch; of a stretch, the state after it is noted."""
        if not isinstance(micro_batch, ContiguousBatch):
            return self.model.hidden(micro_batch)
        assert micro_batch.target is not None
        hidden, after = self.model.step_hidden(micro_batch.target.values, micro_batch.state)
        self.new_states.append(after)
        return Sequences(hidden, micro_batch.target.lengths)

    @torch.no_grad()
    def commit(self) -> None:
        """Carry on the states that were noted: those of the pieces of one step, in their order."""
        parts = zip(*map(tensors_of, self.new_states), strict=True)
        for mine, found in zip(tensors_of(self.state), parts, strict=False):  # nothing noted, nothing to keep
            mine.copy_(torch.cat(found))
        self.new_states = []

    @contextmanager
    def preserve(self) -> Iterator[None]:
        """Whatever is read in here is forgotten again."""
        before = clone_state(self.state)
        try:
            yield
        finally:
            for mine, kept in zip(tensors_of(self.state), tensors_of(before), strict=True):
                mine.copy_(kept)

    def state_dict(self) -> dict[str, Tensor]:
        """The state as named tensors; none if there is no state."""
        return {str(number): tensor for number, tensor in enumerate(tensors_of(self.state))}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember what was packed."""
        rows = len(tensors["0"])
        self.state = clone_state(self.model.start(None, rows, 0))
        for number, mine in enumerate(tensors_of(self.state)):
            mine.copy_(tensors[str(number)])
