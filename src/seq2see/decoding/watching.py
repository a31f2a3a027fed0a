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

from seq2see.core.batch import Pictures, Sequences
from seq2see.decoding.choosers import Step
from seq2see.decoding.engine import Decodes, Limits, stream
from seq2see.decoding.hypotheses import History, Hypothesis
from seq2see.decoding.rules import Rule
from seq2see.decoding.turns import Live, candidates
from seq2see.sequences.tokenisers import EOS

ALONE = 6
"""Continuations that are told of a row that walks alone, which looks at its whole vocabulary."""
ROOT = -1
"""What the first branches continue."""

Fate = Literal["taken", "ended", "left"]


@dataclass(frozen=True)
class Branch:
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
    fate: Fate
    """Whether it was followed, or ended and was set aside, or was left."""


@dataclass(frozen=True)
class Tree:
    """All that a search looked at for one input, and its answers, best first."""

    branches: list[Branch]
    answers: list[Hypothesis]

    def path(self, answer: Hypothesis, forced: int) -> list[int]:
        """The numbers of the branches that an answer is made of, its end among them; `forced` tokens have none."""
        found, at = [], ROOT
        ended = (EOS,) if answer.finished else ()
        by_place = {(branch.parent, branch.token): number for number, branch in enumerate(self.branches)}
        for token in (*answer.tokens[forced:], *ended):
            at = by_place[at, token]
            found.append(at)
        return found


@dataclass
class _Spy:
    """A rule that forbids nothing and remembers what it saw."""

    seen: tuple[History, Tensor] | None = None

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        self.seen = history, scores
        return scores


def watch(
    model: Decodes,
    source: Sequences | Pictures | None,
    chooser: Any,
    limits: Limits,
    rules: Sequence[Rule] = (),
    prefix: Sequences | None = None,
) -> Tree:
    """Decode one input, and tell the whole search; the parameters are those of `engine.decode`."""
    spy, growing = _Spy(), _Growing(chooser)
    steps = stream(model, source, chooser, limits, [*rules, spy], prefix)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            (answers,) = end.value
            return Tree(growing.branches, answers)
        assert spy.seen is not None, "a rule is asked before every choice"
        growing.grow(step, *spy.seen)


class _Growing:
    """A tree while its search goes on; it keeps the books as the search itself does."""

    def __init__(self, chooser: Any):
        self.chooser = chooser
        self.branches: list[Branch] = []
        self.tips: list[int] = [ROOT] * chooser.width
        self.sums: Tensor | None = None
        self.time = 0

    def grow(self, step: Step, history: History, scores: Float[Tensor, "row vocab"]) -> None:
        """Take in one turn: `scores` are what was chosen from, `history` what had been said before."""
        if self.sums is None:
            # What lies beyond is what this very turn has said.
            self.sums = history.log_probabilities[:, : history.time].sum(dim=1)
            self.sums[1:] = -torch.inf  # all rows of an input begin equal, so only the first is live
        rows = list(range(len(self.tips))) if step.parents is None else step.parents.tolist()
        totals = self.sums[rows] + step.log_probabilities
        chosen = [
            (row, token)
            for row, token, total in zip(rows, step.tokens.tolist(), totals.tolist(), strict=True)
            if total > -torch.inf
        ]
        numbers = self._look(chosen, history, scores)
        self.tips = [numbers.get(each, ROOT) for each in zip(rows, step.tokens.tolist(), strict=True)]
        self.sums = totals
        self.time += 1

    def _look(self, chosen: list[tuple[int, int]], history: History, scores: Tensor) -> dict[tuple[int, int], int]:
        """Write down what was looked at, the best first; tells which number each (row, token) got."""
        assert self.sums is not None
        width, numbers = len(self.tips), {}
        live = Live(self.sums[None], torch.zeros(1, dtype=torch.bool), history, torch.arange(width)[None])
        best = candidates(scores, live, 2 * width if width > 1 else ALONE)
        looked_at = [
            (row, token)
            for total, row, token in zip(*(part[0].tolist() for part in best), strict=True)
            if total > -torch.inf
        ]
        for place, (row, token) in enumerate(dict.fromkeys([*looked_at, *chosen])):
            numbers[row, token] = len(self.branches)
            total = self.sums[row] + scores[row, token]
            score = float(self.chooser.penalty(total, history.time + 1))
            known = float(scores[row, token]), float(total), score
            fate = _fate(token, taken=(row, token) in chosen, ends=width > 1 and place < width)
            self.branches.append(Branch(self.tips[row], self.time, token, *known, fate))
        return numbers


def _fate(token: int, *, taken: bool, ends: bool) -> Fate:
    """Of a beam's continuations those among its `width` best that end are set aside; a row that walks alone ends."""
    if token == EOS:
        return "ended" if taken or ends else "left"
    return "taken" if taken else "left"
