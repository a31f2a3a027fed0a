"""Decoding as CUDA graphs: a step of the model, or a whole round of the loop, is launched once, not kernel by kernel.

A step of decoding is a few hundred tiny kernels, and launching one takes longer than running it. A graph records the
launches once for each shape of state and repeats them with a single call. It reads and writes fixed places in memory,
so the state of whoever is decoding lives in the graph's own tensors, and what the search holds is a list of rows:
picking rows of it moves nothing until the next step, which does it inside. Where every round is like the others, what
the search remembers lives there too, and choosing is recorded with reading (`RecordedRound`).
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

from seq2see.core.batch import Pictures, Sequences
from seq2see.core.devices import REHEARSALS, TRITON, aside
from seq2see.core.rows import fork, pick_rows, tensors_of
from seq2see.decoding.choosers import Greedy, Search, Standing, Step, Walks
from seq2see.decoding.engine import Decodes, log_probabilities, sayable
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
    """Decodes what its model decodes; starts, steps of one token a row and rounds are recorded, the rest runs as it is.

    One search at a time: a state that was left behind when another search began is refused. Logits are valid until
    the next step.
    """

    def __init__(self, model: Decodes):
        self.model = model
        self.latest: Held | None = None  # what was started last
        self.starts: dict[tuple[int, ...], RecordedStart] = {}
        self.recorded: dict[tuple[tuple[int, ...], ...], RecordedStep] = {}
        self.pool = torch.cuda.graph_pool_handle()  # no two graphs run at once, so all share their memory

    def start(self, source: Sequences | Pictures | None, rows: int, room: int) -> Rows:
        """Read the source, padded to one of few widths."""
        room = -room // ROOM_STEP * -ROOM_STEP
        if source is None or isinstance(source, Pictures):
            return self._hold(self.model.start(source, rows, room), rows)
        width = -source.values.size(1) // WIDTH_STEP * -WIDTH_STEP
        padded = functional.pad(source.values, (0, width - source.values.size(1)), value=PAD)
        shape = (rows, width, room)
        if shape not in self.starts:
            self.starts[shape] = RecordedStart(self.model, Sequences(padded, source.lengths), shape[2], self.pool)
        return self._hold(self.starts[shape](Sequences(padded, source.lengths)), rows)

    def step(self, tokens: Int[Tensor, "row new"], state: Rows) -> tuple[Float[Tensor, "row new vocab"], Rows]:
        """Take in one token a row by the graph of this shape."""
        self._check(state)
        if tokens.size(1) != 1:
            logits, after = self.model.step(tokens, state.held.picked(state.rows))
            return logits, self._hold(after, len(tokens))
        return self._recorded(tokens, state)(tokens, state)

    def go_round(self, search: Search, step: Step, state: Rows) -> tuple[Step, Rows]:
        """One round of the decoding loop: read what a search has just chosen, and let it choose again.

        The step that comes back is valid until the next one, and so are the tensors in which the search remembers.
        """
        self._check(state)
        return self._recorded(step.tokens[:, None], state).go_round(search, step, state)

    def _check(self, state: Rows) -> None:
        if state.held not in (self.latest, *(step.held for step in self.recorded.values())):
            raise RuntimeError("this state was overwritten by another search; give each a model of its own")

    def _recorded(self, tokens: Tensor, state: Rows) -> RecordedStep:
        """The graphs for a state of this shape."""
        shape = (tuple(tokens.shape), *(tuple(tensor.shape[1:]) for tensor in tensors_of(state.held.state)))
        if shape not in self.recorded:
            self.recorded[shape] = RecordedStep(self.model, tokens, state, self.pool)
        return self.recorded[shape]

    def _hold(self, state: Any, rows: int) -> Rows:
        self.latest = Held(state, torch.arange(rows, device=tensors_of(state)[0].device))
        for step in self.recorded.values():  # whoever was there before is told so by its absence
            step.held = self.latest if step.state is state else None
        return Rows(self.latest.rows, self.latest)


class RecordedStart:
    """The graph that reads sources of one shape."""

    def __init__(self, model: Decodes, source: Sequences, room: int, pool: Any):
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

    def __init__(self, model: Decodes, tokens: Tensor, state: Rows, pool: Any):
        self.model, self.pool, self.tokens = model, pool, tokens.clone()
        # A recorded start writes where it wrote before: from there its step reads, and writes on.
        in_place = state.rows is state.held.rows
        self.state = state.held.state if in_place else fork(state.held.picked(state.rows))
        self.held = state.held if in_place else None
        self.numbers = torch.arange(len(tokens), device=tokens.device)
        self.parents = self.numbers.clone()
        self.rounds: dict[Hashable, RecordedRound] = {}
        with aside():
            for _ in range(REHEARSALS):
                model.step(self.tokens, fork(self.state))
        self.stay, self.move = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.stay, pool=pool):
            self.logits = self.step()
        with torch.cuda.graph(self.move, pool=pool):
            for mine in tensors_of(self.state):
                mine.copy_(mine.index_select(0, self.parents))
            self.moved_logits = self.step()

    def step(self) -> Tensor:
        """What the graphs do: from the tokens and the state that lie here to logits and the state after."""
        logits, after = self.model.step(self.tokens, self.state)
        bring_back(after, self.state)
        return logits

    def __call__(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        """One step from this state."""
        self.tokens.copy_(tokens)
        if state.held is self.held and state.rows is not state.held.rows:
            self.parents.copy_(state.rows)
            self.move.replay()
            return self.moved_logits, Rows(state.held.rows, state.held)
        here = self.take_in(state)
        self.stay.replay()
        return self.logits, here

    def take_in(self, state: Rows) -> Rows:
        """Bring a state here that lies somewhere else."""
        if state.held is self.held and state.rows is state.held.rows:
            return state
        bring_back(state.held.picked(state.rows), self.state)
        self.held = Held(self.state, self.numbers)  # whoever was here before is told so
        return Rows(self.held.rows, self.held)

    def go_round(self, search: Search, step: Step, state: Rows) -> tuple[Step, Rows]:
        """Read what was chosen, and choose again."""
        here = self.take_in(state)
        key = (search.chooser, search.history.tokens.size(1))
        if key not in self.rounds:
            self.rounds[key] = RecordedRound(self, search)
        return self.rounds[key](search, step), here


class RecordedRound:
    """One round of the decoding loop as one graph: move the rows, read a token, choose the next.

    The graph writes what the search remembers too, so nobody has to wait for its tokens: they are read from the
    search when all is over. The time of the round is a tensor, because a number would be recorded as it is.
    """

    def __init__(self, recorded: RecordedStep, search: Search):
        self.recorded, self.search = recorded, copy.copy(search)
        self.owner: Search | None = None
        history, *others = fork(search.standing)
        self.moment = torch.tensor([search.history.time], device=history.tokens.device)
        self.standing: Standing = (replace(history, time=self.moment), *others)
        with aside():
            for _ in range(REHEARSALS):
                self._choose(recorded.model.step(recorded.tokens, fork(recorded.state))[0], fork(self.standing))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=recorded.pool):
            self.step = self._round()

    def _choose(self, logits: Tensor, standing: Standing) -> Step:
        self.search.standing = standing
        return turn_of(self.search)(logits.select(1, -1))

    def _round(self) -> Step:
        recorded = self.recorded
        if self.search.chooser.width > 1:
            # Rows move within their inputs only.
            for mine in tensors_of(recorded.state, but_of_input=True):
                mine.copy_(mine.index_select(0, recorded.parents))
        step = self._choose(recorded.step(), self.standing)
        bring_back(self.search.standing, self.standing)
        recorded.tokens.copy_(step.tokens[:, None])
        if step.parents is not None:
            recorded.parents.copy_(step.parents)
        return step

    def __call__(self, search: Search, step: Step) -> Step:
        """One round; what the search has said and kept until now lies here from its first round on."""
        time = search.history.time
        if step is not self.step or search is not self.owner:
            self.recorded.tokens.copy_(step.tokens[:, None])
            if step.parents is not None:
                self.recorded.parents.copy_(step.parents)
            history, *others = search.standing
            bring_back((replace(history, time=self.moment), *others), self.standing)
            self.moment.fill_(time)
            self.owner = search
        self.graph.replay()
        history, *others = self.standing
        search.standing = (replace(history, time=time + 1), *others)
        search.meet_deadlines()
        return self.step


def turn_of(search: Search) -> Callable[[Tensor], Step]:
    """How a search whose time is a tensor takes its turn, given logits: greedy ones by a kernel of our own."""
    if TRITON and isinstance(search, Walks) and isinstance(search.chooser, Greedy):
        from seq2see.decoding.greedy_turn import take_turn

        return partial(take_turn, search)
    return lambda logits: search.take_turn(sayable(log_probabilities(logits)))


def bring_back(new: Any, mine: Any) -> None:
    """Copy a state to where the graphs read it, all of it that lies elsewhere."""
    for place, tensor in zip(tensors_of(mine), tensors_of(new), strict=True):
        if tensor.data_ptr() != place.data_ptr():
            place.copy_(tensor)
