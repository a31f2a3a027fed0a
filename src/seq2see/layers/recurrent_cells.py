"""Remembering: plain recurrent cells, their equations written out, and the fused kernels that run them.

A cell reads one vector at a time and carries a state along. Each cell here says its mathematics in
two small methods: `gates` (what is let through) and `next_state` (the new state). That is the definition. Where
a fused kernel computes the same thing, `read` uses it for whole sequences, on the very same parameters.
Cells with gates are next door, in `gated.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.layers.dropout import Dropout
from seq2see.layers.records import CellRecord

Hook = Callable[[CellRecord], None]


@dataclass(frozen=True)
class CellState:
    """What a cell carries from one time to the next, for one layer or for a stack of layers.

    `hidden` is what the cell shows to others; `cell` is what an LSTM also keeps to itself.
    """

    hidden: Float[Tensor, "row *layer width"]
    cell: Float[Tensor, "row *layer width"] | None = None

    def layer(self, place: int, width: int) -> CellState:
        """The state of one layer of a stack, which is so wide."""
        cell = None if self.cell is None else self.cell[:, place, :width]
        return CellState(self.hidden[:, place, :width], cell)

    @staticmethod
    def stack(layers: Sequence[CellState]) -> CellState:
        """The state of a stack, (row, layer, width), from those of its layers; zeros fill up what is narrower."""
        widest = max(layer.hidden.size(-1) for layer in layers)
        hidden = [_pad_width(layer.hidden, widest) for layer in layers]
        cells = [_pad_width(layer.cell, widest) for layer in layers if layer.cell is not None]
        return CellState(torch.stack(hidden, dim=1), torch.stack(cells, dim=1) if cells else None)


def _pad_width(vectors: Float[Tensor, "row own"], width: int) -> Float[Tensor, "row width"]:
    missing = width - vectors.size(-1)
    return functional.pad(vectors, (0, missing)) if missing else vectors


class RecurrentCell(nn.Module):
    """One recurrent cell: `state = cell(inputs, state)`, and `read` for many times in a row.

    Set `hook` to a function to watch: it is called with the gates and the states at all times. Watching computes
    gates a second time and changes no output.
    """

    parts = 1
    """How many vectors a state consists of."""
    hook: Hook | None = None

    def __init__(self, input_width: int, width: int):
        super().__init__()
        self.input_width, self.width = input_width, width

    def project_inputs(self, inputs: Float[Tensor, "... input"]) -> Float[Tensor, "... gates"]:
        """The inputs' share of every gate. It needs no state, so all times can be done at once."""
        raise NotImplementedError

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """The gates and the candidate, by name, from the projected inputs and the old state."""
        raise NotImplementedError

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """The new state from the old one and the gates."""
        raise NotImplementedError

    def forward(self, inputs: Float[Tensor, "row input"], state: CellState) -> CellState:
        """One step of time, as the equations say it."""
        new = self.next_state(self.gates(self.project_inputs(inputs), state), state)
        if self.hook is not None:
            self.call_hook(self.hook, inputs[:, None], state, new.hidden[:, None])
        return new

    def unroll(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """All times in order: the hidden state after each, and the state after the last."""
        hidden, last = self.unroll_eagerly(inputs, state)
        if self.hook is not None:
            self.call_hook(self.hook, inputs, state, hidden)
        return hidden, last

    def unroll_eagerly(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """Reading as a loop over time: what every `read` must agree with."""
        hidden = []
        for projected in self.project_inputs(inputs).unbind(dim=1):
            state = self.next_state(self.gates(projected, state), state)
            hidden.append(state.hidden)
        return torch.stack(hidden, dim=1), state

    @torch.no_grad()
    def call_hook(
        self,
        hook: Hook,
        inputs: Float[Tensor, "row time input"],
        state: CellState,
        hidden: Float[Tensor, "row time width"],
    ) -> None:
        """Let a probe see the gates at all times, and the states that were given."""
        seen, kept = [], []
        for projected in self.project_inputs(inputs).unbind(dim=1):
            seen.append(self.gates(projected, state))
            state = self.next_state(seen[-1], state)
            kept += [] if state.cell is None else [state.cell]
        gates = {name: torch.stack([each[name] for each in seen], dim=1) for name in seen[0]}
        hook(CellRecord(gates, hidden, torch.stack(kept, dim=1) if kept else None))

    def initial_state(self, rows: int, like: Tensor) -> CellState:
        """The state before anything was read: zeros."""
        zeros = like.new_zeros(rows, self.width)
        return CellState(zeros, zeros if self.state_count == 2 else None)


class FusedCell(RecurrentCell):
    """A cell whose parameters live in one of torch's recurrent modules, whose kernel reads sequences.

    With `weight_dropout` a share of the numbers in W_h falls out while training, drawn once for each sequence that is
    read (DropConnect, Wan et al. 2013; on W_h Merity et al. 2018, section 2): what a state hands on to the next is
    thinned out, yet the same at all times, and the kernel runs as it would.
    """

    rnn_class: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]
    rnn_options: ClassVar[dict[str, str]] = {}
    """What that class is told besides the widths."""
    rnn_function: Callable[..., tuple[Tensor, ...]]
    """What that class calls: input, first state, weights, whether there are biases, layers, dropout between them,
    whether gradients are wanted, whether both directions, whether rows come first.
    """

    def __init__(self, input_width: int, width: int, weight_dropout: float = 0.0):
        super().__init__(input_width, width)
        self.rnn = self.rnn_class(input_width, width, batch_first=True, **self.rnn_options)
        self.weight_dropout = Dropout(weight_dropout)

    def project_inputs(self, inputs: Float[Tensor, "... input"]) -> Float[Tensor, "... gates"]:
        """W_x x + b_x for every gate, one below the other in a single matrix."""
        weight, _, bias, _ = self.rnn.all_weights[0]
        return functional.linear(inputs, weight, bias)

    def project_hidden(self, hidden: Float[Tensor, "row width"]) -> Float[Tensor, "row gates"]:
        """W_h h + b_h for every gate."""
        _, weight, _, bias = self.rnn.all_weights[0]
        return functional.linear(hidden, weight, bias)

    def unroll(
        self, inputs: Float[Tensor, "row time input"], state: CellState
    ) -> tuple[Float[Tensor, "row time width"], CellState]:
        """All times by the fused kernel, which computes what `unroll_eagerly` says."""
        first = tuple(part[None].contiguous() for part in (state.hidden, state.cell) if part is not None)
        hidden, *last = (
            self.run_with_weight_dropout(inputs, first)
            if self.training and self.weight_dropout.p
            else self.run_fused(inputs, first)
        )
        if self.hook is not None:
            self.call_hook(self.hook, inputs, state, hidden)
        return hidden, CellState(*(part[0] for part in last))

    def run_fused(self, inputs: Tensor, first: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The kernel with all its weights. It puts layers before rows; ours is a layer of its own, so there is one."""
        hidden, last = self.rnn(inputs, first if self.state_count == 2 else first[0])
        return hidden, *(last if self.state_count == 2 else (last,))

    def run_with_weight_dropout(self, inputs: Tensor, first: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The same kernel with W_h thinned out.

        A GPU wants all weights in one piece of memory, in this order; so they are put there, once for all times.
        """
        weight, back, bias, bias_back = self.rnn.all_weights[0]
        parts = (weight, self.weight_dropout(back), bias, bias_back)
        flat = torch.cat([part.flatten() for part in parts]).split([part.numel() for part in parts])
        weights = [some.view_as(part) for some, part in zip(flat, parts, strict=True)]
        return self.rnn_function(
            inputs, first if self.state_count == 2 else first[0], weights, True, 1, 0.0, True, False, True
        )


class RNNCell(FusedCell):
    """The simple recurrent network: the new state is a squashed sum of input and old state.

    h' = tanh(W_x x + b_x + W_h h + b_h); Elman 1990. (The notes have one bias where torch's kernel has two.) Every
    step passes through W_h and tanh, so what happened long ago fades or explodes: that is why others have gates.
    """

    rnn_class = nn.RNN
    rnn_function = staticmethod(torch.rnn_tanh)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """No gate at all: only the candidate."""
        return {"candidate": torch.tanh(projected + self.project_hidden(state.hidden))}

    def next_state(self, gates: dict[str, Tensor], state: CellState) -> CellState:
        """The candidate replaces the old state."""
        return CellState(gates["candidate"])


class ReluRNNCell(RNNCell):
    """The same with a ReLU instead of tanh: h' = max(0, W_x x + b_x + W_h h + b_h); Le, Jaitly & Hinton 2015.

    A slope passes a ReLU unchanged or not at all, so it no longer fades there; nor does anything hold a state back that
    grows from step to step.
    """

    rnn_options: ClassVar[dict[str, str]] = {"nonlinearity": "relu"}
    rnn_function = staticmethod(torch.rnn_relu)

    def gates(self, projected: Float[Tensor, "row gates"], state: CellState) -> dict[str, Tensor]:
        """No gate here either."""
        return {"candidate": torch.relu(projected + self.project_hidden(state.hidden))}
