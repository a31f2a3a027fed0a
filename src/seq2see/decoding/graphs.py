"""A decoder's step as one CUDA graph: launched once, not kernel by kernel.

A step of decoding is a few hundred tiny kernels, and launching one takes longer than running it. A graph
records the launches once for each shape of state and repeats them with a single call. It reads and
writes fixed places in memory, so the state of whoever is decoding lives in the graph's own tensors, and what
the search holds is a list of rows: picking rows of it moves nothing until the next step, which does it inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from seq2see.core.batch import Sequences
from seq2see.core.devices import REHEARSALS, aside
from seq2see.core.rows import fork, pick_rows, tensors_of
from seq2see.models.seq2seq import Seq2Seq
from seq2see.sequences.tokenisers import PAD

WIDTH_STEP, ROOM_STEP = 16, 32
"""Sources are as wide as a multiple of the first, caches have room for a multiple of the second: few shapes occur."""


class Held:
    """A model's own state, which nobody but the graphs looks into, and the numbers of its rows."""

    def __init__(self, state: Any, rows: Int[Tensor, "row"]):
        self.state, self.rows = state, rows

    def picked(self, rows: Int[Tensor, "row"]) -> Any:
        """These rows of it; all of them in their order cost nothing."""
        return self.state if rows is self.rows else pick_rows(self.state, rows)


@dataclass(frozen=True)
class Rows:
    """The state of a search: these rows of what is held."""

    rows: Int[Tensor, "row"]
    held: Held


class GraphedModel:
    """Decodes what its model decodes; steps of one token a row are recorded, everything else runs as it is.

    One search at a time: a state that was left behind while another one was stepped is refused. Logits
    are valid until the next step.
    """

    def __init__(self, model: Seq2Seq):
        self.model = model
        self.latest: Held | None = None  # what was started last
        self.starts: dict[tuple[int, ...], RecordedStart] = {}
        self.recorded: dict[tuple[tuple[int, ...], ...], RecordedStep] = {}
        self.pool = torch.cuda.graph_pool_handle()  # no two graphs run at once, so all share their memory

    def start(self, source: Sequences, rows: int, room: int) -> Rows:
        """Read the source, padded to one of few widths."""
        width = -source.values.size(1) // WIDTH_STEP * -WIDTH_STEP
        padded = functional.pad(source.values, (0, width - source.values.size(1)), value=PAD)
        shape = (rows, width, -room // ROOM_STEP * -ROOM_STEP)
        if shape not in self.starts:
            self.starts[shape] = RecordedStart(self.model, Sequences(padded, source.lengths), shape[2], self.pool)
        return self._hold(self.starts[shape](Sequences(padded, source.lengths)), rows, source.lengths.device)

    def step(self, tokens: Int[Tensor, "row new"], state: Rows) -> tuple[Float[Tensor, "row new vocab"], Rows]:
        """Take in one token a row by the graph of this shape."""
        if state.held not in (self.latest, *(step.held for step in self.recorded.values())):
            raise RuntimeError("this state was overwritten by another search; give each a model of its own")
        if tokens.size(1) != 1:
            logits, after = self.model.step(tokens, state.held.picked(state.rows))
            return logits, self._hold(after, len(tokens), tokens.device)
        shape = (tuple(tokens.shape), *(tuple(tensor.shape[1:]) for tensor in tensors_of(state.held.state)))
        if shape not in self.recorded:
            self.recorded[shape] = RecordedStep(self.model, tokens, state, self.pool)
        return self.recorded[shape](tokens, state)

    def _hold(self, state: Any, rows: int, device: torch.device) -> Rows:
        self.latest = Held(state, torch.arange(rows, device=device))
        return Rows(self.latest.rows, self.latest)


class RecordedStart:
    """The graph that reads sources of one shape."""

    def __init__(self, model: Seq2Seq, source: Sequences, room: int, pool: Any):
        self.source = Sequences(source.values.clone(), source.lengths.clone())
        rows = source.lengths.size(0)
        with aside():
            for _ in range(REHEARSALS):
                model.start(self.source, rows, room)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.state = model.start(self.source, rows, room)

    def __call__(self, source: Sequences) -> Any:
        """The state before the first token; valid until the next start."""
        for mine, given in zip(tensors_of(self.source), tensors_of(source), strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.state


class RecordedStep:
    """The graphs of one shape: a step from where the rows are, and one from where other rows were."""

    def __init__(self, model: Seq2Seq, tokens: Tensor, state: Rows, pool: Any):
        self.model, self.tokens = model, tokens.clone()
        self.state = fork(state.held.picked(state.rows))
        self.held = Held(self.state, torch.arange(len(tokens), device=tokens.device))
        with aside():
            for _ in range(REHEARSALS):
                model.step(self.tokens, fork(self.state))
        self.stay, self.move = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        self.parents = self.held.rows.clone()
        with torch.cuda.graph(self.stay, pool=pool):
            self.logits = self._step()
        with torch.cuda.graph(self.move, pool=pool):
            for mine in tensors_of(self.state):
                mine.copy_(mine.index_select(0, self.parents))
            self.moved_logits = self._step()

    def _step(self) -> Tensor:
        logits, after = self.model.step(self.tokens, self.state)
        # What a step gives anew (how far each row is) goes back to where the next step reads it.
        for mine, new in zip(tensors_of(self.state), tensors_of(after), strict=True):
            if new.data_ptr() != mine.data_ptr():
                mine.copy_(new)
        return logits

    def __call__(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        """One step from this state."""
        self.tokens.copy_(tokens)
        if state.held is self.held and state.rows is not self.held.rows:
            self.parents.copy_(state.rows)
            self.move.replay()
            return self.moved_logits, Rows(self.held.rows, self.held)
        if state.held is not self.held:
            for mine, given in zip(tensors_of(self.state), tensors_of(state.held.picked(state.rows)), strict=True):
                mine.copy_(given)
            self.held = Held(self.state, self.held.rows)  # whoever was here before is told so
        self.stay.replay()
        return self.logits, Rows(self.held.rows, self.held)
