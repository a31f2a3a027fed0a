"""Beam search: follow the few most probable beginnings of each input side by side.

At every step each of the `width` live hypotheses is continued by every token, and of all these
continuations the `2 * width` best are looked at. Those among the first `width` that end in <eos> are
finished and are kept aside, the best `width` ever seen; the best `width` that do not end stay live. No more
than `width` continuations can end in <eos> (one for each live hypothesis), so enough are always left.

What is still live at the deadline is kept too, unfinished, with the score it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.rows import pick_rows
from seq2see.decoding.choosers import Search, Standing, Step
from seq2see.decoding.hypotheses import History, Hypothesis, hypothesis
from seq2see.decoding.kept import Kept, Newcomers, keep
from seq2see.decoding.penalties import NoPenalty, Penalty
from seq2see.decoding.ranking import perhaps
from seq2see.decoding.turns import Ended, Live, take_turn

Stop = Callable[[Tensor, Tensor], Tensor]
"""(worst score that counts, highest score in reach) of each input -> may its search stop?"""


def when_beaten(worst: Float[Tensor, "input"], hope: Float[Tensor, "input"]) -> Bool[Tensor, "input"]:
    """Stop when as many answers are kept as are asked for, and nothing live can still beat the worst of them.

    This loses nothing. But where a penalty favours length the hope reaches to the longest answer allowed,
    and the search goes on until the live hypotheses have become very improbable.
    """
    return worst >= hope


def when_full(worst: Float[Tensor, "input"], hope: Float[Tensor, "input"]) -> Bool[Tensor, "input"]:
    """Stop as soon as `width` answers are kept: faster, and what most published results used."""
    return (worst > -torch.inf) | (hope == -torch.inf)


@dataclass(frozen=True)
class Beam:
    """Follow `width` hypotheses for each input and hand back the best `answers` (all of them if None).

    With width 1 and without a penalty, or with `when_full`, this is greedy decoding. It is exact when
    `width` is as large as the number of all continuations.
    """

    width: int
    penalty: Penalty = field(default_factory=NoPenalty)
    stop: Stop = when_beaten
    answers: int | None = None
    steady: ClassVar[bool] = True

    def begin(self, history: History, deadlines: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return BeamSearch(self, history, deadlines)

    @property
    def counted(self) -> int:
        """How many of the best kept answers the stop rule waits for."""
        return self.width if self.stop is when_full or self.answers is None else min(self.answers, self.width)


class BeamSearch:
    """One beam search over a batch: rows are inputs x width, and inputs never look at each other."""

    def __init__(self, beam: Beam, history: History, deadlines: Int[Tensor, "input"]):
        self.chooser, self.history, self.deadlines = beam, history, deadlines
        self.earliest_deadline = int(deadlines.min())  # as a plain number: asking a GPU at every step is slow
        self.places = list(range(deadlines.size(0)))  # which input of the batch each input is
        self.answers: dict[int, list[Hypothesis]] = {}
        self._number_rows()
        # All rows of an input begin equal, so only the first is live at the start.
        self.sums = history.log_probabilities.sum(dim=1).view(self.shape).clone()
        self.sums[:, 1:] = -torch.inf
        self.done = torch.zeros_like(deadlines, dtype=torch.bool)
        self.kept = Kept.of(torch.full_like(self.sums, -torch.inf), history)
        self.enough = False  # whether any input has as many answers as the stop rule waits for

    @property
    def standing(self) -> Standing:
        """What is live, what is kept, and which inputs are done."""
        return self.history, self.sums, self.done, self.kept, self.deadlines

    @standing.setter
    def standing(self, standing: Standing) -> None:
        self.history, self.sums, self.done, self.kept, self.deadlines = standing

    def choose(self, scores: Float[Tensor, "row vocab"]) -> Step:
        """Continue the live hypotheses, keep those that end, and see which inputs are done."""
        step = self.take_turn(scores)
        self.meet_deadlines()
        return step

    def meet_deadlines(self) -> None:
        """At its deadline an input is done, and keeps what is live."""
        if self.history.time >= self.earliest_deadline:
            self._keep_live(~self.done & (self.deadlines <= self.history.time))

    def take_turn(self, scores: Float[Tensor, "row vocab"]) -> Step:
        """The same before any deadline."""
        turn = take_turn(scores, Live(self.sums, self.done, self.history, self.rows))
        if turn.ended is not None:
            self._keep_finished(scores, turn.ended)
        self.sums, self.history = turn.sums, turn.history
        if self.enough or turn.perhaps_lost:
            self.done = self.done | self._asked_to_stop(self.sums[:, 0])  # they stand in order
        return turn.step

    def drop_done(self) -> Int[Tensor, "left"]:
        """Note down the answers of inputs that are done and go on without them."""
        self._note_down(pick_rows(self.kept, self.done.nonzero().squeeze(1)), self.done.tolist())
        inputs = (~self.done).nonzero().squeeze(1)
        left = self.rows[inputs].flatten()
        self.places = [self.places[row] for row in inputs.tolist()]
        self.history = pick_rows(self.history, left)
        by_input = (self.kept, self.sums, self.deadlines, self.done)
        self.kept, self.sums, self.deadlines, self.done = pick_rows(by_input, inputs)
        self._number_rows()
        return left

    def results(self) -> list[list[Hypothesis]]:
        """Each input's answers, best first; what is live still when the loop was stopped is among them."""
        if not all(self.done.tolist()):
            self._keep_live(~self.done)
        self._note_down(self.kept, [True] * len(self.places))
        return [self.answers[place] for place in range(len(self.answers))]

    def _note_down(self, kept: Kept, which: list[bool]) -> None:
        asked = slice(self.chooser.answers)
        columns = [part[:, asked].tolist() for part in (kept.tokens, kept.log_probabilities, kept.lengths, kept.scores)]
        for place, rows in zip(compress(self.places, which), zip(*columns, strict=True), strict=True):
            self.answers[place] = [hypothesis(*row) for row in zip(*rows, strict=True) if row[3] > -torch.inf]

    def _number_rows(self) -> None:
        self.shape = (len(self.places), self.chooser.width)
        self.rows = torch.arange(len(self.places) * self.chooser.width, device=self.deadlines.device).view(self.shape)

    def _keep_finished(self, scores: Tensor, ended: Ended) -> None:
        worth = self._worth(ended.sums, self.history.time + 1, ended.ends & ~self.done[:, None])
        self.kept = keep(self.kept, Newcomers(worth, ended.parents, self.history), scores)
        self.enough = perhaps(self.kept.scores[:, self.chooser.counted - 1] > -torch.inf)

    def _keep_live(self, inputs: Bool[Tensor, "input"]) -> None:
        welcome = inputs[:, None].expand(self.shape)
        self.kept = self.kept.merge(Kept.of(self._worth(self.sums, self.history.time, welcome), self.history))
        self.done = self.done | inputs

    def _worth(self, sums: Tensor, length: Any, welcome: Tensor) -> Float[Tensor, "input width"]:
        """What answers of this length are ranked by; minus infinity for those that are not wanted."""
        lengths = torch.zeros_like(sums, dtype=torch.long) + length
        return self.chooser.penalty(sums, lengths).masked_fill(~welcome, -torch.inf)

    def _asked_to_stop(self, best: Float[Tensor, "input"]) -> Bool[Tensor, "input"]:
        # A penalty is steady in the length, so the most a live hypothesis can reach lies at one of the ends.
        soonest = self.chooser.penalty(best, self.history.time + 1)
        hope = torch.maximum(soonest, self.chooser.penalty(best, self.deadlines))
        return self.chooser.stop(self.kept.scores[:, self.chooser.counted - 1], hope)
