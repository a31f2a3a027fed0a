"""The search tree of decoding: the selected continuations of every step, and the candidates that were pruned.

The search is that of `engine.py`. A logits processor that changes nothing is added after all others and records the
scores that the search selects from. The selected tokens are read from `stream`; the candidates are computed from the
scores by the function with which beam search ranks its continuations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import Images, Sequences
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.decoding.beam import top_continuations
from seq2see.decoding.engine import GenerativeModel, Limits, stream
from seq2see.decoding.samplers import DecodingStep, History, Hypothesis, LogitsProcessor

SHOWN_CANDIDATES = 6
"""The number of candidates of each step in greedy decoding and sampling, which rank the whole vocabulary."""
ROOT = -1
"""The parent of the first nodes."""

Outcome = Literal["expanded", "finished", "pruned"]


@dataclass(frozen=True)
class SearchNode:
    """One candidate of a search: a continuation of a hypothesis by one token."""

    parent: int
    """The index of the parent node, counted from 0 in the order of the tree."""
    time: int
    """The step of the search, counted from 0."""
    token: int
    log_probability: float
    total: float
    """The sum of the log-probabilities up to this token, including a forced prefix."""
    score: float
    """The total after the length penalty: the score of the hypothesis if it ended here."""
    outcome: Outcome
    """Whether the candidate was expanded, finished, or pruned."""


@dataclass(frozen=True)
class SearchTree:
    """All candidates of a search for one input, and its hypotheses, best first."""

    nodes: list[SearchNode]
    hypotheses: list[Hypothesis]

    def path(self, hypothesis: Hypothesis, prompt_length: int) -> list[int]:
        """The indices of the nodes of a hypothesis, including <eos>; the first `prompt_length` tokens have no nodes."""
        path, node = [], ROOT
        end = (EOS,) if hypothesis.finished else ()
        index_of = {(each.parent, each.token): index for index, each in enumerate(self.nodes)}
        for token in (*hypothesis.tokens[prompt_length:], *end):
            node = index_of[node, token]
            path.append(node)
        return path


@dataclass
class _ScoreRecorder:
    """A logits processor that changes nothing and stores its inputs."""

    recorded: tuple[History, Tensor] | None = None

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        self.recorded = history, scores
        return scores


def trace_search(
    model: GenerativeModel,
    source: Sequences | Images | None,
    sampler: Any,
    limits: Limits,
    logits_processors: Sequence[LogitsProcessor] = (),
    prefix: Sequences | None = None,
) -> SearchTree:
    """Decode one input and return its search tree; the parameters are those of `engine.decode`."""
    recorder, builder = _ScoreRecorder(), _TreeBuilder(sampler)
    steps = stream(model, source, sampler, limits, [*logits_processors, recorder], prefix)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            (hypotheses,) = end.value
            return SearchTree(builder.nodes, hypotheses)
        assert recorder.recorded is not None, "logits processors run before every selection"
        builder.add_step(step, *recorder.recorded)


class _TreeBuilder:
    """Builds the tree step by step; it tracks the sums of the live hypotheses as the search does."""

    def __init__(self, sampler: Any):
        self.sampler = sampler
        self.nodes: list[SearchNode] = []
        self.leaves: list[int] = [ROOT] * sampler.width
        self.sums: Tensor | None = None
        self.time = 0

    def add_step(self, step: DecodingStep, history: History, scores: Float[Tensor, "row vocab"]) -> None:
        """Add one step: `scores` are the scores that it selected from, `history` the tokens before the step."""
        if self.sums is None:
            # `history` shares its memory with the search, so later columns already contain the token of this step.
            self.sums = history.log_probabilities[:, : history.time].sum(dim=1)
            self.sums[1:] = -torch.inf  # at the start all rows of an input are equal, so only the first is live
        rows = list(range(len(self.leaves))) if step.parents is None else step.parents.tolist()
        totals = self.sums[rows] + step.log_probabilities
        selected = [
            (row, token)
            for row, token, total in zip(rows, step.tokens.tolist(), totals.tolist(), strict=True)
            if total > -torch.inf
        ]
        indices = self._add_nodes(selected, history, scores)
        self.leaves = [indices.get(each, ROOT) for each in zip(rows, step.tokens.tolist(), strict=True)]
        self.sums = totals
        self.time += 1

    def _add_nodes(
        self, selected: list[tuple[int, int]], history: History, scores: Tensor
    ) -> dict[tuple[int, int], int]:
        """Add the candidates of a step, best first; return the node index of each (row, token)."""
        assert self.sums is not None
        width, indices = len(self.leaves), {}
        best = top_continuations(scores, self.sums[None], 2 * width if width > 1 else SHOWN_CANDIDATES)
        candidates = [
            (row, token)
            for total, row, token in zip(*(column[0].tolist() for column in best), strict=True)
            if total > -torch.inf
        ]
        for rank, (row, token) in enumerate(dict.fromkeys([*candidates, *selected])):
            indices[row, token] = len(self.nodes)
            total = self.sums[row] + scores[row, token]
            score = float(self.sampler.length_penalty(total, history.time + 1))
            values = float(scores[row, token]), float(total), score
            outcome = _outcome(token, is_selected=(row, token) in selected, may_finish=width > 1 and rank < width)
            self.nodes.append(SearchNode(self.leaves[row], self.time, token, *values, outcome))
        return indices


def _outcome(token: int, *, is_selected: bool, may_finish: bool) -> Outcome:
    """<eos> finishes if it is selected, in beam search if it is among the `width` best; other tokens are expanded."""
    if token == EOS:
        return "finished" if is_selected or may_finish else "pruned"
    return "expanded" if is_selected else "pruned"
