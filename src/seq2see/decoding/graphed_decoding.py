"""Decoding as CUDA graphs: a step of the model, or a whole round of the loop, is launched once, not kernel by kernel.

A step of decoding is a few hundred tiny kernels, and launching one takes longer than running it. A graph records the
launches once for each shape of state and repeats them with a single call. It reads and writes fixed places in memory,
so the state of whoever is decoding lives in the graph's own tensors, and what the search holds is a list of rows:
picking rows of it moves nothing until the next step, which does it inside. Where every round is like the others, what
the search remembers lives there too, and choosing is recorded with reading (`GraphedFusedStep`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from seq2see.core.batch import Images, Sequences
from seq2see.core.devices import TRITON, WARMUP_RUNS, side_stream
from seq2see.core.rows import clone_state, pick_rows, tensors_of
from seq2see.decoding.engine import GenerativeModel, log_probabilities, suppress_special_tokens
from seq2see.decoding.samplers import DecodingStep, GreedySampler, IndependentSearch, Search, SearchState
from seq2see.sequences.tokenizers import PAD

WIDTH_MULTIPLE, LENGTH_MULTIPLE = 16, 32
"""Sources are as wide as a multiple of the first, caches have room for a multiple of the second: few shapes occur."""


class StateBuffer:
    """A model's own state, which nobody but the graphs looks into, and the numbers of its rows."""

    def __init__(self, state: Any, rows: Int[Tensor, "row"]):
        self.state, self.rows = state, rows

    def pick(self, rows: Int[Tensor, "row"]) -> Any:
        """These rows of it; all of them in their order cost nothing."""
        return self.state if rows is self.rows else pick_rows(self.state, rows)


@dataclass(frozen=True)
class StateRows:
    """The state of a search: these rows of what is held."""

    rows: Int[Tensor, "row"]
    buffer: StateBuffer


class GraphedModel:
    """Decodes what its model decodes; starts, steps of one token a row and rounds are recorded, the rest runs as it is.

    One search at a time: a state that was left behind when another search began is refused. Logits are valid until
    the next step.
    """

    def __init__(self, model: GenerativeModel):
        self.model = model
        self.latest_buffer: StateBuffer | None = None  # what was started last
        self.graphed_starts: dict[tuple[int, ...], GraphedStart] = {}
        self.graphed_step: dict[tuple[tuple[int, ...], ...], GraphedStep] = {}
        self.pool = torch.cuda.graph_pool_handle()  # no two graphs run at once, so all share their memory

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> StateRows:
        """Read the source, padded to one of few widths."""
        max_length = -max_length // LENGTH_MULTIPLE * -LENGTH_MULTIPLE
        if source is None or isinstance(source, Images):
            return self._hold(self.model.start(source, rows, max_length), rows)
        width = -source.values.size(1) // WIDTH_MULTIPLE * -WIDTH_MULTIPLE
        padded = functional.pad(source.values, (0, width - source.values.size(1)), value=PAD)
        shape = (rows, width, max_length)
        if shape not in self.graphed_starts:
            self.graphed_starts[shape] = GraphedStart(
                self.model, Sequences(padded, source.lengths), shape[2], self.pool
            )
        return self._hold(self.graphed_starts[shape](Sequences(padded, source.lengths)), rows)

    def step(
        self, tokens: Int[Tensor, "row new"], state: StateRows
    ) -> tuple[Float[Tensor, "row new vocab"], StateRows]:
        """Take in one token a row by the graph of this shape."""
        self._check(state)
        if tokens.size(1) != 1:
            logits, after = self.model.step(tokens, state.buffer.pick(state.rows))
            return logits, self._hold(after, len(tokens))
        return self._graphed_step(tokens, state)(tokens, state)

    def fused_step(self, search: Search, step: DecodingStep, state: StateRows) -> tuple[DecodingStep, StateRows]:
        """One round of the decoding loop: read what a search has just chosen, and let it choose again.

        The step that comes back is valid until the next one, and so are the tensors in which the search remembers.
        """
        self._check(state)
        return self._graphed_step(step.tokens[:, None], state).fused_step(search, step, state)

    def _check(self, state: StateRows) -> None:
        if state.buffer not in (self.latest_buffer, *(step.buffer for step in self.graphed_step.values())):
            raise RuntimeError("this state was overwritten by another search; give each a model of its own")

    def _graphed_step(self, tokens: Tensor, state: StateRows) -> GraphedStep:
        """The graphs for a state of this shape."""
        shape = (tuple(tokens.shape), *(tuple(tensor.shape[1:]) for tensor in tensors_of(state.buffer.state)))
        if shape not in self.graphed_step:
            self.graphed_step[shape] = GraphedStep(self.model, tokens, state, self.pool)
        return self.graphed_step[shape]

    def _hold(self, state: Any, rows: int) -> StateRows:
        self.latest_buffer = StateBuffer(state, torch.arange(rows, device=tensors_of(state)[0].device))
        for step in self.graphed_step.values():  # whoever was there before is told so by its absence
            step.buffer = self.latest_buffer if step.state is state else None
        return StateRows(self.latest_buffer.rows, self.latest_buffer)


class GraphedStart:
    """The graph that reads sources of one shape."""

    def __init__(self, model: GenerativeModel, source: Sequences, max_length: int, pool: Any):
        self.source = Sequences(source.values.clone(), source.lengths.clone())
        rows = source.lengths.size(0)
        with side_stream():
            for _ in range(WARMUP_RUNS):
                model.start(self.source, rows, max_length)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.state = model.start(self.source, rows, max_length)

    def __call__(self, source: Sequences) -> Any:
        """The state before the first token; valid until the next start."""
        for mine, given in zip(tensors_of(self.source), tensors_of(source), strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.state


class GraphedStep:
    """The graphs of one shape: a step from where the rows are, and one from where other rows were."""

    def __init__(self, model: GenerativeModel, tokens: Tensor, state: StateRows, pool: Any):
        self.model, self.pool, self.tokens = model, pool, tokens.clone()
        # A recorded start writes where it wrote before: from there its step reads, and writes on.
        in_place = state.rows is state.buffer.rows
        self.state = state.buffer.state if in_place else clone_state(state.buffer.pick(state.rows))
        self.buffer = state.buffer if in_place else None
        self.row_indices = torch.arange(len(tokens), device=tokens.device)
        self.parents = self.row_indices.clone()
        self.fused_steps: dict[Hashable, GraphedFusedStep] = {}
        with side_stream():
            for _ in range(WARMUP_RUNS):
                model.step(self.tokens, clone_state(self.state))
        self.step_graph, self.reorder_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.step_graph, pool=pool):
            self.logits = self.step()
        with torch.cuda.graph(self.reorder_graph, pool=pool):
            for mine in tensors_of(self.state):
                mine.copy_(mine.index_select(0, self.parents))
            self.reordered_logits = self.step()

    def step(self) -> Tensor:
        """What the graphs do: from the tokens and the state that lie here to logits and the state after."""
        logits, after = self.model.step(self.tokens, self.state)
        copy_state(after, self.state)
        return logits

    def __call__(self, tokens: Tensor, state: StateRows) -> tuple[Tensor, StateRows]:
        """One step from this state."""
        self.tokens.copy_(tokens)
        if state.buffer is self.buffer and state.rows is not state.buffer.rows:
            self.parents.copy_(state.rows)
            self.reorder_graph.replay()
            return self.reordered_logits, StateRows(state.buffer.rows, state.buffer)
        here = self.copy_in(state)
        self.step_graph.replay()
        return self.logits, here

    def copy_in(self, state: StateRows) -> StateRows:
        """Bring a state here that lies somewhere else."""
        if state.buffer is self.buffer and state.rows is state.buffer.rows:
            return state
        copy_state(state.buffer.pick(state.rows), self.state)
        self.buffer = StateBuffer(self.state, self.row_indices)  # whoever was here before is told so
        return StateRows(self.buffer.rows, self.buffer)

    def fused_step(self, search: Search, step: DecodingStep, state: StateRows) -> tuple[DecodingStep, StateRows]:
        """Read what was chosen, and choose again."""
        here = self.copy_in(state)
        key = (search.sampler, search.history.tokens.size(1))
        if key not in self.fused_steps:
            self.fused_steps[key] = GraphedFusedStep(self, search)
        return self.fused_steps[key](search, step), here


class GraphedFusedStep:
    """One round of the decoding loop as one graph: move the rows, read a token, choose the next.

    The graph writes what the search remembers too, so nobody has to wait for its tokens: they are read from the
    search when all is over. The time of the round is a tensor, because a number would be recorded as it is.
    """

    def __init__(self, recorded: GraphedStep, search: Search):
        self.graphed_step, self.search = recorded, copy.copy(search)
        self.current_search: Search | None = None
        history, *others = clone_state(search.search_state)
        self.time_tensor = torch.tensor([search.history.time], device=history.tokens.device)
        self.search_state: SearchState = (replace(history, time=self.time_tensor), *others)
        with side_stream():
            for _ in range(WARMUP_RUNS):
                self._select(
                    recorded.model.step(recorded.tokens, clone_state(recorded.state))[0], clone_state(self.search_state)
                )
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=recorded.pool):
            self.step = self._capture_step()

    def _select(self, logits: Tensor, search_state: SearchState) -> DecodingStep:
        self.search.search_state = search_state
        return step_of(self.search)(logits.select(1, -1))

    def _capture_step(self) -> DecodingStep:
        recorded = self.graphed_step
        if self.search.sampler.width > 1:
            # Rows move within their inputs only.
            for mine in tensors_of(recorded.state, without_input_only=True):
                mine.copy_(mine.index_select(0, recorded.parents))
        step = self._select(recorded.step(), self.search_state)
        copy_state(self.search.search_state, self.search_state)
        recorded.tokens.copy_(step.tokens[:, None])
        if step.parents is not None:
            recorded.parents.copy_(step.parents)
        return step

    def __call__(self, search: Search, step: DecodingStep) -> DecodingStep:
        """One round; what the search has said and kept until now lies here from its first round on."""
        time = search.history.time
        if step is not self.step or search is not self.current_search:
            self.graphed_step.tokens.copy_(step.tokens[:, None])
            if step.parents is not None:
                self.graphed_step.parents.copy_(step.parents)
            history, *others = search.search_state
            copy_state((replace(history, time=self.time_tensor), *others), self.search_state)
            self.time_tensor.fill_(time)
            self.current_search = search
        self.graph.replay()
        history, *others = self.search_state
        search.search_state = (replace(history, time=time + 1), *others)
        search.stop_at_max_length()
        return self.step


def step_of(search: Search) -> Callable[[Tensor], DecodingStep]:
    """How a search whose time is a tensor takes its turn, given logits: greedy ones by a kernel of our own."""
    if TRITON and isinstance(search, IndependentSearch) and isinstance(search.sampler, GreedySampler):
        from seq2see.decoding.greedy_step import take_turn

        return partial(take_turn, search)
    return lambda logits: search.advance(suppress_special_tokens(log_probabilities(logits)))


def copy_state(new: Any, mine: Any) -> None:
    """Copy a state to where the graphs read it, all of it that lies elsewhere."""
    for place, tensor in zip(tensors_of(mine), tensors_of(new), strict=True):
        if tensor.data_ptr() != place.data_ptr():
            place.copy_(tensor)
