"""Watching a search: beside what it chose, all that it looked at and left.

The search is the one of `engine.py`. A rule that changes nothing is put behind all others: it sees the scores that the
search chooses from. What the search took is told by `stream`; what it might have taken is read off the scores, by the
same function that beam search finds its continuations with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from seq2see.core.batch import Images, Sequences
from seq2see.decoding.beam_step import LiveBeams, top_continuations
from seq2see.decoding.engine import GenerativeModel, Limits, stream
from seq2see.decoding.hypotheses import History, Hypothesis
from seq2see.decoding.logits_processors import LogitsProcessor
from seq2see.decoding.samplers import DecodingStep
from seq2see.sequences.tokenizers import EOS

SHOWN_CANDIDATES = 6
"""Continuations that are told of a row that walks alone, which looks at its whole vocabulary."""
ROOT = -1
"""What the first branches continue."""

Outcome = Literal["expanded", "finished", "pruned"]


@dataclass(frozen=True)
class SearchNode:
    """One continuation that a search looked at."""

    parent: int
    """The number of the branch that it continues, counted from 0 in the order of the tree."""
    time: int
    """Which turn of the search it belongs to, counted from 0."""
    token: int
    log_probability: float
    total: float
    """The log-probability of all that was said up to here, a forced beginning included."""
    score: float
    """What it would be ranked by if it ended here: the total after the length penalty."""
    outcome: Outcome
    """Whether it was followed, or ended and was set aside, or was left."""


@dataclass(frozen=True)
class SearchTree:
    """All that a search looked at for one input, and its answers, best first."""

    nodes: list[SearchNode]
    hypotheses: list[Hypothesis]

    def path(self, answer: Hypothesis, prompt_length: int) -> list[int]:
        """The numbers of the branches that an answer is made of, its end among them; `prompt_length` tokens have none."""
        found, at = [], ROOT
        ended = (EOS,) if answer.finished else ()
        by_place = {(branch.parent, branch.token): number for number, branch in enumerate(self.nodes)}
        for token in (*answer.tokens[prompt_length:], *ended):
            at = by_place[at, token]
            found.append(at)
        return found


@dataclass
class _ScoreRecorder:
    """A rule that forbids nothing and remembers what it saw."""

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
    """Decode one input, and tell the whole search; the parameters are those of `engine.decode`."""
    recorder, builder = _ScoreRecorder(), _TreeBuilder(sampler)
    steps = stream(model, source, sampler, limits, [*logits_processors, recorder], prefix)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            (answers,) = end.value
            return SearchTree(builder.nodes, answers)
        assert recorder.recorded is not None, "a rule is asked before every choice"
        builder.add_step(step, *recorder.recorded)


class _TreeBuilder:
    """A tree while its search goes on; it keeps the books as the search itself does."""

    def __init__(self, sampler: Any):
        self.sampler = sampler
        self.nodes: list[SearchNode] = []
        self.leaves: list[int] = [ROOT] * sampler.width
        self.sums: Tensor | None = None
        self.time = 0

    def add_step(self, step: DecodingStep, history: History, scores: Float[Tensor, "row vocab"]) -> None:
        """Take in one turn: `scores` are what was chosen from, `history` what had been said before."""
        if self.sums is None:
            # What lies beyond is what this very turn has said.
            self.sums = history.log_probabilities[:, : history.time].sum(dim=1)
            self.sums[1:] = -torch.inf  # all rows of an input begin equal, so only the first is live
        rows = list(range(len(self.leaves))) if step.parents is None else step.parents.tolist()
        totals = self.sums[rows] + step.log_probabilities
        chosen = [
            (row, token)
            for row, token, total in zip(rows, step.tokens.tolist(), totals.tolist(), strict=True)
            if total > -torch.inf
        ]
        numbers = self._add_nodes(chosen, history, scores)
        self.leaves = [numbers.get(each, ROOT) for each in zip(rows, step.tokens.tolist(), strict=True)]
        self.sums = totals
        self.time += 1

    def _add_nodes(self, chosen: list[tuple[int, int]], history: History, scores: Tensor) -> dict[tuple[int, int], int]:
        """Write down what was looked at, the best first; tells which number each (row, token) got."""
        assert self.sums is not None
        width, numbers = len(self.leaves), {}
        beams = LiveBeams(self.sums[None], torch.zeros(1, dtype=torch.bool), history, torch.arange(width)[None])
        best = top_continuations(scores, beams, 2 * width if width > 1 else SHOWN_CANDIDATES)
        looked_at = [
            (row, token)
            for total, row, token in zip(*(part[0].tolist() for part in best), strict=True)
            if total > -torch.inf
        ]
        for place, (row, token) in enumerate(dict.fromkeys([*looked_at, *chosen])):
            numbers[row, token] = len(self.nodes)
            total = self.sums[row] + scores[row, token]
            score = float(self.sampler.length_penalty(total, history.time + 1))
            known = float(scores[row, token]), float(total), score
            outcome = _outcome(token, is_taken=(row, token) in chosen, is_eos=width > 1 and place < width)
            self.nodes.append(SearchNode(self.leaves[row], self.time, token, *known, outcome))
        return numbers


def _outcome(token: int, *, is_taken: bool, is_eos: bool) -> Outcome:
    """Of a beam's continuations those among its `width` best that end are set aside; a row that walks alone ends."""
    if token == EOS:
        return "finished" if is_taken or is_eos else "pruned"
    return "expanded" if is_taken else "pruned"
