"""How a recurrent decoder reads the encoder output: its initial state, a context vector, or attention.

A bridge computes the initial state of the decoder from the encoder's pooled vector. The other modules are all that
differs between the recurrent models from Sutskever et al. 2014 to Luong et al. 2015. Each defines what the decoder
state stores of the encoder output (the memory), and how the decoder is unrolled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import INPUT_ONLY
from seq2see.layers.masks import zero_padding
from seq2see.layers.recurrent_attention import MemoryAttention
from seq2see.layers.recurrent_cells import CellState, StackedRNN
from seq2see.models.encoder_model import EncoderOutput


@dataclass(frozen=True)
class RecurrentState:
    """The state of a recurrent decoder; rows are the first dimension.

    A Transformer's state grows with every token; this one does not. Only an LSTM has `cell`, only attention has `keys`,
    and `memory` (the encoder output) is stored only if it is read at every step.
    """

    hidden: Float[Tensor, "row layer width"]
    cell: Float[Tensor, "row layer width"] | None = None
    keys: Float[Tensor, "row key size"] | None = field(default=None, metadata=INPUT_ONLY)
    memory: EncoderOutput | None = field(default=None, metadata=INPUT_ONLY)

    @property
    def cell_state(self) -> CellState:
        """The state of the recurrent cells."""
        return CellState(self.hidden, self.cell)

    def with_cells(self, cells: CellState) -> RecurrentState:
        """The state with new states of the cells."""
        return replace(self, hidden=cells.hidden, cell=cells.cell)


class CopyBridge(nn.Module):
    """The encoder's pooled vector is the initial hidden state of every layer; an LSTM's cell state is zero."""

    def forward(self, pooled: Float[Tensor, "row memory"], zero_state: CellState) -> CellState:
        """The initial state; `zero_state` is the stack's state of zeros."""
        return CellState(pooled[:, None].expand_as(zero_state.hidden), zero_state.cell)


class DenseBridge(nn.Module):
    """A dense layer computes the initial state, tanh(W pooled + b); Bahdanau et al. 2015, appendix A.2.2.

    So encoder and decoder may use their states differently and differ in width. `parts` is the number of vectors in
    each layer's state: 2 for an LSTM, else 1.
    """

    def __init__(self, memory_width: int, width: int, depth: int, parts: int):
        super().__init__()
        self.shape = (parts, depth, width)
        self.project = nn.Linear(memory_width, parts * depth * width)

    def forward(self, pooled: Float[Tensor, "row memory"], zero_state: CellState) -> CellState:
        """The initial state; `zero_state` is the stack's state of zeros."""
        states = torch.tanh(self.project(pooled)).unflatten(-1, self.shape).unbind(dim=1)
        return CellState(*states)


Bridge = CopyBridge | DenseBridge


class DecoderAttention(nn.Module):
    """Base class; `context_width` is the width of the context that is concatenated to the cells' input."""

    context_width = 0

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """The keys and the memory that the state stores for later steps."""
        raise NotImplementedError

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """The hidden states for new input vectors, and the state after the last."""
        raise NotImplementedError


class NoAttention(DecoderAttention):
    """The source determines the initial state only (Sutskever et al. 2014).

    All information about the source must be carried by the decoder's state.
    """

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """Nothing: the initial state is the only access to the source."""
        return None, None

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Unroll the cells without attention."""
        hidden, cells = stack.unroll(vectors, state.cell_state)
        return hidden, state.with_cells(cells)


class ContextVectorAttention(DecoderAttention):
    """The encoder's pooled vector is an input of every step (Cho et al. 2014, section 2.2).

    The state need not carry it, but it is still a single vector for the whole source.
    """

    def __init__(self, memory_width: int):
        super().__init__()
        self.context_width = memory_width

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """The memory, for its pooled vector."""
        return None, memory

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Unroll the cells, with the context vector concatenated to every input."""
        assert state.memory is not None
        context = state.memory.pooled[:, None].expand(-1, vectors.size(1), -1)
        hidden, cells = stack.unroll(torch.cat([vectors, context], dim=-1), state.cell_state)
        return hidden, state.with_cells(cells)


class BahdanauAttention(DecoderAttention):
    """Attention before the recurrent step (Bahdanau, Cho & Bengio 2015).

    The previous state is the query, and the context is concatenated to the input of the step. Each query depends on
    the state before it, so the time steps of a sequence are computed one after the other.
    """

    def __init__(self, attention: MemoryAttention, memory_width: int):
        super().__init__()
        self.attention, self.context_width = attention, memory_width

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """The keys and the memory."""
        return self.attention.project_keys(memory), zero_padding(memory)

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Attend and step, one input vector at a time."""
        assert state.keys is not None
        assert state.memory is not None
        hidden, queries, all_weights, cells = [], [], [], state.cell_state
        for vector in vectors.split(1, dim=1):
            query = cells.hidden[:, -1:]  # the top layer's state
            context, weights = self.attention.attend(query, state.keys, state.memory)
            new, cells = stack.unroll(torch.cat([vector, context], dim=-1), cells)
            hidden.append(new)
            queries.append(query)
            all_weights.append(weights)
        if (hook := self.attention.hook) is not None:
            self.attention.call_hook(
                hook, torch.cat(queries, dim=1), state.keys, state.memory, torch.cat(all_weights, dim=1)
            )
        return torch.cat(hidden, dim=1), state.with_cells(cells)


class LuongAttention(DecoderAttention):
    """Attention after the recurrent step; Luong, Pham & Manning 2015, eq. 5: tanh(W [context; state]).

    The new state is the query, and the context is combined with it to the output. The context does not affect the next
    state (no input feeding), so the cells are unrolled over all time steps before attention is computed for all.
    """

    def __init__(self, attention: MemoryAttention, width: int, memory_width: int):
        super().__init__()
        self.attention = attention
        self.combine = nn.Linear(memory_width + width, width, bias=False)

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """The keys and the memory."""
        return self.attention.project_keys(memory), zero_padding(memory)

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Unroll the cells over all inputs, then attend for all time steps."""
        assert state.keys is not None
        assert state.memory is not None
        hidden, cells = stack.unroll(vectors, state.cell_state)
        context, _ = self.attention(hidden, state.keys, state.memory)
        combined = torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))
        return combined, state.with_cells(cells)
