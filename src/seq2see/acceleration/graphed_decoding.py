"""Decoding with CUDA graphs: a step of the model, or a whole step of the loop, is one launch instead of many.

A decoding step consists of a few hundred tiny kernels, and launching one takes longer than running it. A CUDA graph
captures the launches once for each shape of the state and replays them with a single call. It reads and writes fixed
memory addresses, so the model state is in the tensors of the graph, and the state that the loop holds is only a list
of rows: reordering rows copies nothing until the next step, in which the graph does it. If every step runs the same
operations, the state of the search is in tensors of the graph, too, and the selection of tokens is captured together
with the model (`GraphedFusedStep`).

The definitions are the model itself and `DecodingLoop` (decoding/engine.py). They are compared on a GPU by
tests/acceleration/test_graphed_decoding.py, and with recorded operators in place of CUDA graphs by test_graph_logic.py.
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

from seq2see.acceleration.fast_search import GPUBeamSearch, GPUIndependentSearch, GPULoop
from seq2see.acceleration.support import TRITON, WARMUP_RUNS, captured_in, side_stream
from seq2see.core.batch import Images, Sequences, clone_state, pick_rows, repeat_rows, tensors_of
from seq2see.data.tokenizers.tokenizer import BOS, PAD
from seq2see.decoding.beam import BeamSampler
from seq2see.decoding.engine import GenerativeModel, log_probabilities, suppress_special_tokens
from seq2see.decoding.samplers import DecodingStep, GreedySampler, History, Search

WIDTH_MULTIPLE, LENGTH_MULTIPLE = 16, 32
"""Sources are padded to a multiple of the first, caches to a multiple of the second, so that few shapes occur."""


class StateBuffer:
    """The state of a model, which only the graphs read, and the indices of its rows."""

    def __init__(self, state: Any, rows: Int[Tensor, "row"]):
        self.state, self.rows = state, rows

    def pick(self, rows: Int[Tensor, "row"]) -> Any:
        """Return these rows of the state; all rows in their order are not copied."""
        return self.state if rows is self.rows else pick_rows(self.state, rows)


@dataclass(frozen=True)
class StateRows:
    """The state that the decoding loop holds: some rows of a buffer."""

    rows: Int[Tensor, "row"]
    buffer: StateBuffer


FusibleSearch = GPUIndependentSearch | GPUBeamSearch
"""The searches whose step can be captured, unless it draws random numbers."""


@dataclass(frozen=True)
class GraphedHistory(History):
    """A history whose time is a tensor of one number, because a graph stores an int as a constant."""

    time: Any

    def append(self, tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]) -> History:
        """Append one token to every row."""
        self.tokens.index_copy_(1, self.time, tokens[:, None])
        self.log_probabilities.index_copy_(1, self.time, log_probabilities[:, None])
        return replace(self, time=self.time + 1)

    @staticmethod
    def of(history: History, time: Tensor) -> GraphedHistory:
        """A history with this time."""
        return GraphedHistory(history.tokens, history.log_probabilities, history.prompt_lengths, time)

    def at(self, time: int) -> History:
        """This history as a `History` whose `time` is an int."""
        return History(self.tokens, self.log_probabilities, self.prompt_lengths, time)


class GraphedLoop(GPULoop):
    """The loop of a model with `fused_step`: model and selection of the next tokens are one call."""

    model: Any

    def begin(self) -> tuple[Search, DecodingStep, Any]:
        """Without a prompt, the first step is fused, too: it reads <bos>, which then stands in every row."""
        task, width = self.task, self.task.sampler.width
        if not self.can_fuse or task.prompt.values.size(1) > 0:
            return super().begin()
        search = self.start_search(repeat_rows(History.empty(task.prompt.lengths, task.max_length), width))
        state = repeat_rows(self.model.start(task.source, task.rows, task.max_length), width)
        rows = torch.arange(task.rows * width, device=task.prompt.lengths.device)
        begin = DecodingStep(torch.full_like(rows, BOS), torch.zeros_like(rows).float(), rows)
        return search, *self.model.fused_step(search, begin, state)

    def next(self, search: Search, step: DecodingStep, state: Any) -> tuple[DecodingStep, Any]:
        """After the prompt, and before any row has its maximum length, every step runs the same operations."""
        if not self.can_fuse or not isinstance(search, FusibleSearch):
            return super().next(search, step, state)
        if self.prompt.values.size(1) <= search.history.time < search.smallest_max_length:
            return self.model.fused_step(search, step, state)
        return super().next(search, step, state)

    @property
    def can_fuse(self) -> bool:
        """Whether steps can be captured: logits processors, and samplers that draw numbers, run outside of graphs."""
        return isinstance(self.task.sampler, GreedySampler | BeamSampler) and not self.task.logits_processors

    def whole_batch(self, step: DecodingStep) -> DecodingStep:
        """A copy, because a graph writes the next tokens to the same memory."""
        return clone_state(step)


class GraphedModel:
    """A model whose starts, steps of one token and fused steps are CUDA graphs; all else runs without graphs.

    It supports one search at a time: after the start of another search, an old state raises an error. Logits are valid
    until the next step.
    """

    decoding_loop = GraphedLoop

    def __init__(self, model: GenerativeModel):
        self.model = model
        self.latest_buffer: StateBuffer | None = None  # the state of the latest start
        self.graphed_starts: dict[tuple[int, ...], GraphedStart] = {}
        self.graphed_steps: dict[tuple[tuple[int, ...], ...], GraphedStep] = {}
        self.pool = torch.cuda.graph_pool_handle()  # graphs run one after another, so all share one memory pool

    def start(self, source: Sequences | Images | None, rows: int, max_length: int) -> StateRows:
        """Encode the source, padded to one of a few widths."""
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
        """Read one token of each row with the graph of this shape."""
        self._check(state)
        if tokens.size(1) != 1:
            logits, after = self.model.step(tokens, state.buffer.pick(state.rows))
            return logits, self._hold(after, len(tokens))
        return self._graphed_step(tokens, state)(tokens, state)

    def fused_step(self, search: FusibleSearch, step: DecodingStep, state: StateRows) -> tuple[DecodingStep, StateRows]:
        """One step of the decoding loop: read the tokens of the last step and select the next ones.

        The returned step and the state tensors of the search are valid until the next step.
        """
        self._check(state)
        return self._graphed_step(step.tokens[:, None], state).fused_step(search, step, state)

    def _check(self, state: StateRows) -> None:
        if state.buffer not in (self.latest_buffer, *(step.buffer for step in self.graphed_steps.values())):
            raise RuntimeError("This state was overwritten by another search. Use one GraphedModel for each search.")

    def _graphed_step(self, tokens: Tensor, state: StateRows) -> GraphedStep:
        """Return the graphs for a state of this shape; capture them if there are none."""
        shape = (tuple(tokens.shape), *(tuple(tensor.shape[1:]) for tensor in tensors_of(state.buffer.state)))
        if shape not in self.graphed_steps:
            self.graphed_steps[shape] = GraphedStep(self.model, tokens, state, self.pool)
        return self.graphed_steps[shape]

    def _hold(self, state: Any, rows: int) -> StateRows:
        self.latest_buffer = StateBuffer(state, torch.arange(rows, device=tensors_of(state)[0].device))
        for step in self.graphed_steps.values():  # the states of earlier searches become invalid
            step.buffer = self.latest_buffer if step.state is state else None
        return StateRows(self.latest_buffer.rows, self.latest_buffer)


class GraphedStart:
    """The graph that encodes sources of one shape."""

    def __init__(self, model: GenerativeModel, source: Sequences, max_length: int, pool: Any):
        self.source = Sequences(source.values.clone(), source.lengths.clone())
        rows = source.lengths.size(0)
        with side_stream():
            for _ in range(WARMUP_RUNS):
                model.start(self.source, rows, max_length)
        self.graph = torch.cuda.CUDAGraph()
        with captured_in(self.graph, pool=pool):
            self.state = model.start(self.source, rows, max_length)

    def __call__(self, source: Sequences) -> Any:
        """Return the state before the first token; it is valid until the next start."""
        for buffer, tensor in zip(tensors_of(self.source), tensors_of(source), strict=True):
            buffer.copy_(tensor)
        self.graph.replay()
        return self.state


class GraphedStep:
    """The graphs of one shape: one that steps, and one that first reorders the rows and then steps."""

    def __init__(self, model: GenerativeModel, tokens: Tensor, state: StateRows, pool: Any):
        self.model, self.pool, self.tokens = model, pool, tokens.clone()
        # A captured start always writes to the same tensors; this step uses them as its state.
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
        with captured_in(self.step_graph, pool=pool):
            self.logits = self.step()
        with captured_in(self.reorder_graph, pool=pool):
            for tensor in tensors_of(self.state):
                tensor.copy_(tensor.index_select(0, self.parents))
            self.reordered_logits = self.step()

    def step(self) -> Tensor:
        """The captured operations: compute the logits of the buffered tokens and update the buffered state."""
        logits, after = self.model.step(self.tokens, self.state)
        copy_state(after, self.state)
        return logits

    def __call__(self, tokens: Tensor, state: StateRows) -> tuple[Tensor, StateRows]:
        """Replay one step from this state."""
        self.tokens.copy_(tokens)
        if state.buffer is self.buffer and state.rows is not state.buffer.rows:
            self.parents.copy_(state.rows)
            self.reorder_graph.replay()
            return self.reordered_logits, StateRows(state.buffer.rows, state.buffer)
        state = self.copy_in(state)
        self.step_graph.replay()
        return self.logits, state

    def copy_in(self, state: StateRows) -> StateRows:
        """Copy a state into the tensors of the graph unless it is there already."""
        if state.buffer is self.buffer and state.rows is state.buffer.rows:
            return state
        copy_state(state.buffer.pick(state.rows), self.state)
        self.buffer = StateBuffer(self.state, self.row_indices)  # the previous state becomes invalid
        return StateRows(self.buffer.rows, self.buffer)

    def fused_step(self, search: FusibleSearch, step: DecodingStep, state: StateRows) -> tuple[DecodingStep, StateRows]:
        """Replay one step of the decoding loop."""
        state = self.copy_in(state)
        key = (search.sampler, search.history.tokens.size(1))
        if key not in self.fused_steps:
            self.fused_steps[key] = GraphedFusedStep(self, search)
        return self.fused_steps[key](search, step), state


class GraphedFusedStep:
    """One step of the decoding loop as one graph: reorder the rows, read a token, select the next one.

    The graph also updates the state of the search, so the CPU need not wait for the tokens: they are read from the
    search at the end. The time is a tensor, because a graph would store a Python number as a constant.
    """

    def __init__(self, graphed_step: GraphedStep, search: FusibleSearch):
        self.graphed_step, self.search = graphed_step, copy.copy(search)
        self.current_search: FusibleSearch | None = None
        history, *others = clone_state(search.search_state)
        self.time_tensor = torch.tensor([search.history.time], device=history.tokens.device)
        self.search_state: tuple[Any, ...] = (GraphedHistory.of(history, self.time_tensor), *others)
        with side_stream():
            for _ in range(WARMUP_RUNS):
                logits, _ = graphed_step.model.step(graphed_step.tokens, clone_state(graphed_step.state))
                self._select(logits, clone_state(self.search_state))
        self.graph = torch.cuda.CUDAGraph()
        with captured_in(self.graph, pool=graphed_step.pool):
            self.step = self._capture_step()

    def _select(self, logits: Tensor, search_state: tuple[Any, ...]) -> DecodingStep:
        self.search.search_state = search_state
        return step_of(self.search)(logits.select(1, -1))

    def _capture_step(self) -> DecodingStep:
        graphed_step = self.graphed_step
        if self.search.sampler.width > 1:
            # A row continues a row of the same input, so tensors that depend only on the input are not reordered.
            for tensor in tensors_of(graphed_step.state, without_input_only=True):
                reorder(tensor, graphed_step.parents, self.search.sampler.width)
        step = self._select(graphed_step.step(), self.search_state)
        copy_state(self.search.search_state, self.search_state)
        graphed_step.tokens.copy_(step.tokens[:, None])
        if step.parents is not None:
            graphed_step.parents.copy_(step.parents)
        return step

    def __call__(self, search: FusibleSearch, step: DecodingStep) -> DecodingStep:
        """Replay one step; the first step of a search copies its state into the tensors of the graph."""
        time = search.history.time
        if step is not self.step or search is not self.current_search:
            self.graphed_step.tokens.copy_(step.tokens[:, None])
            if step.parents is not None:
                self.graphed_step.parents.copy_(step.parents)
            history, *others = search.search_state
            copy_state((GraphedHistory.of(history, self.time_tensor), *others), self.search_state)
            self.time_tensor.fill_(time)
            self.current_search = search
        self.graph.replay()
        history, *others = self.search_state
        search.search_state = (history.at(time + 1), *others)
        search.stop_at_max_length()
        return self.step


def reorder(tensor: Tensor, parents: Int[Tensor, "row"], width: int) -> None:
    """Replace each row by its parent, which is a row of the same input."""
    if TRITON and tensor.is_contiguous():
        from seq2see.acceleration.search_kernels import reorder_in_place

        reorder_in_place(tensor, parents, width)
    else:
        tensor.copy_(tensor.index_select(0, parents))


def step_of(search: FusibleSearch) -> Callable[[Tensor], DecodingStep]:
    """Return the function from logits to the step of a search whose time is a tensor; greedy search has a kernel."""
    if TRITON and isinstance(search, GPUIndependentSearch) and isinstance(search.sampler, GreedySampler):
        from seq2see.acceleration.search_kernels import greedy_step

        return partial(greedy_step, search)
    return lambda logits: search.advance(suppress_special_tokens(log_probabilities(logits)))


def copy_state(state: Any, buffers: Any) -> None:
    """Copy a state into the tensors of a graph; tensors that share their memory are skipped."""
    for buffer, tensor in zip(tensors_of(buffers), tensors_of(state), strict=True):
        if tensor.data_ptr() != buffer.data_ptr():
            buffer.copy_(tensor)
