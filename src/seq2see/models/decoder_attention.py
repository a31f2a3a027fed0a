"""How a recurrent decoder looks at the source: once, at every step, or with attention.

These small parts are all that differs between the recurrent models in the line from Sutskever et al.
2014 to Luong et al. 2015. Each says what it needs to remember of the memory, and how it reads on.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.layers.padding import zero_padding
from seq2see.layers.recurrent_attention import MemoryAttention
from seq2see.layers.recurrent_stack import StackedRNN
from seq2see.models.encoder_output import EncoderOutput
from seq2see.models.recurrent_state import RecurrentState


class DecoderAttention(nn.Module):
    """One way of looking at the source; `context_width` numbers join the cells' input at every step."""

    context_width = 0

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """The keys and the memory that the state must hold for later looks."""
        raise NotImplementedError

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Read new vectors: a hidden vector for each, and the state after the last."""
        raise NotImplementedError


class NoAttention(DecoderAttention):
    """The source is seen in the first state only; Sutskever et al. 2014.

    Whatever the decoder needs of the source later, its state has to carry until then.
    """

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """Nothing: the first state has it all."""
        return None, None

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Read on."""
        hidden, cells = stack.unroll(vectors, state.cell_state)
        return hidden, state.with_cells(cells)


class ContextVectorAttention(DecoderAttention):
    """The source's summary is part of the input at every step; Cho et al. 2014, section 2.2.

    It need not be carried in the state, but it is still one vector for the whole source.
    """

    def __init__(self, memory_width: int):
        super().__init__()
        self.context_width = memory_width

    def prepare_memory(self, memory: EncoderOutput) -> tuple[Tensor | None, EncoderOutput | None]:
        """The memory, for its summary."""
        return None, memory

    def unroll(
        self, stack: StackedRNN, vectors: Float[Tensor, "row new input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "row new width"], RecurrentState]:
        """Read on, with the same summary beside every vector."""
        assert state.memory is not None
        context = state.memory.pooled[:, None].expand(-1, vectors.size(1), -1)
        hidden, cells = stack.unroll(torch.cat([vectors, context], dim=-1), state.cell_state)
        return hidden, state.with_cells(cells)


class BahdanauAttention(DecoderAttention):
    """Look first, then read; Bahdanau, Cho & Bengio 2015.

    The state before a step is the query, and the context found joins the step's input. Each look waits
    for the state before it, so the times of a sentence must be read one after the other.
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
        """Look and read, one vector at a time."""
        assert state.keys is not None
        assert state.memory is not None
        hidden, asked, seen, cells = [], [], [], state.cell_state
        for vector in vectors.split(1, dim=1):
            query = cells.hidden[:, -1:]  # the top layer's state
            context, weights = self.attention.attend(query, state.keys, state.memory)
            new, cells = stack.unroll(torch.cat([vector, context], dim=-1), cells)
            hidden.append(new)
            asked.append(query)
            seen.append(weights)
        if (hook := self.attention.hook) is not None:
            self.attention.call_hook(hook, torch.cat(asked, dim=1), state.keys, state.memory, torch.cat(seen, dim=1))
        return torch.cat(hidden, dim=1), state.with_cells(cells)


class LuongAttention(DecoderAttention):
    """Read first, then look; Luong, Pham & Manning 2015, eq. 5: tanh(W [context; state]).

    The state after a step is the query, and the context joins the output. Looking does not act on the
    next state (no input feeding), so all times are read, and then look, at once.
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
        """Read all vectors, then look from all of them."""
        assert state.keys is not None
        assert state.memory is not None
        hidden, cells = stack.unroll(vectors, state.cell_state)
        context, _ = self.attention(hidden, state.keys, state.memory)
        joined = torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))
        return joined, state.with_cells(cells)
