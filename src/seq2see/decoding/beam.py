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
from seq2see.decoding.beam_hypotheses import BeamHypotheses, FinishedCandidates, add_finished
from seq2see.decoding.beam_step import EndedCandidates, LiveBeams, take_turn
from seq2see.decoding.hypotheses import History, Hypothesis, make_hypothesis
from seq2see.decoding.length_penalties import LengthPenalty, NoPenalty
from seq2see.decoding.samplers import DecodingStep, Search, SearchState
from seq2see.decoding.topk import maybe_any

StoppingRule = Callable[[Tensor, Tensor], Tensor]
"""(worst score that counts, highest score in reach) of each input -> may its search stop?"""


def stop_when_unbeatable(
    worst_score: Float[Tensor, "input"], best_attainable_score: Float[Tensor, "input"]
) -> Bool[Tensor, "input"]:
    """Stop when as many answers are kept as are asked for, and nothing live can still beat the worst of them.

    This loses nothing. But where a penalty favors length the hope reaches to the longest answer allowed,
    and the search goes on until the live hypotheses have become very improbable.
    """
    return worst_score >= best_attainable_score


def stop_when_full(
    worst_score: Float[Tensor, "input"], best_attainable_score: Float[Tensor, "input"]
) -> Bool[Tensor, "input"]:
    """Stop as soon as `width` answers are kept: faster, and what most published results used."""
    return (worst_score > -torch.inf) | (best_attainable_score == -torch.inf)


@dataclass(frozen=True)
class BeamSampler:
    """Follow `width` hypotheses for each input and hand back the best `answers` (all of them if None).

    With width 1 and without a penalty, or with `stop_when_full`, this is greedy decoding. It is exact when
    `width` is as large as the number of all continuations.
    """

    width: int
    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    stopping_rule: StoppingRule = stop_when_unbeatable
    hypotheses: int | None = None
    capturable: ClassVar[bool] = True

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return BeamSearch(self, history, max_lengths)

    @property
    def required_hypotheses(self) -> int:
        """How many of the best kept answers the stop rule waits for."""
        return (
            self.width
            if self.stopping_rule is stop_when_full or self.hypotheses is None
            else min(self.hypotheses, self.width)
        )


class BeamSearch:
    """One beam search over a batch: rows are inputs x width, and inputs never look at each other."""

    def __init__(self, beam: BeamSampler, history: History, max_lengths: Int[Tensor, "input"]):
        self.sampler, self.history, self.max_lengths = beam, history, max_lengths
        self.smallest_max_length = int(max_lengths.min())  # as a plain number: asking a GPU at every step is slow
        self.batch_indices = list(range(max_lengths.size(0)))  # which input of the batch each input is
        self.hypotheses: dict[int, list[Hypothesis]] = {}
        self._update_rows()
        # All rows of an input begin equal, so only the first is live at the start.
        self.sums = history.log_probabilities.sum(dim=1).view(self.shape).clone()
        self.sums[:, 1:] = -torch.inf
        self.done = torch.zeros_like(max_lengths, dtype=torch.bool)
        self.beam_hypotheses = BeamHypotheses.of(torch.full_like(self.sums, -torch.inf), history)
        self.may_stop = False  # whether any input has as many answers as the stop rule waits for

    @property
    def search_state(self) -> SearchState:
        """What is live, what is kept, and which inputs are done."""
        return self.history, self.sums, self.done, self.beam_hypotheses, self.max_lengths

    @search_state.setter
    def search_state(self, search_state: SearchState) -> None:
        self.history, self.sums, self.done, self.beam_hypotheses, self.max_lengths = search_state

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Continue the live hypotheses, keep those that end, and see which inputs are done."""
        step = self.advance(scores)
        self.stop_at_max_length()
        return step

    def stop_at_max_length(self) -> None:
        """At its deadline an input is done, and keeps what is live."""
        if self.history.time >= self.smallest_max_length:
            self._collect_live(~self.done & (self.max_lengths <= self.history.time))

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """The same before any deadline."""
        result = take_turn(scores, LiveBeams(self.sums, self.done, self.history, self.rows))
        if result.ended_candidates is not None:
            self._collect_finished(scores, result.ended_candidates)
        self.sums, self.history = result.sums, result.history
        if self.may_stop or result.maybe_exhausted:
            self.done = self.done | self._stopping(self.sums[:, 0])  # they stand in order
        return result.step

    def drop_done(self) -> Int[Tensor, "left"]:
        """Note down the answers of inputs that are done and go on without them."""
        self._store_results(pick_rows(self.beam_hypotheses, self.done.nonzero().squeeze(1)), self.done.tolist())
        inputs = (~self.done).nonzero().squeeze(1)
        remaining = self.rows[inputs].flatten()
        self.batch_indices = [self.batch_indices[row] for row in inputs.tolist()]
        self.history = pick_rows(self.history, remaining)
        by_input = (self.beam_hypotheses, self.sums, self.max_lengths, self.done)
        self.beam_hypotheses, self.sums, self.max_lengths, self.done = pick_rows(by_input, inputs)
        self._update_rows()
        return remaining

    def results(self) -> list[list[Hypothesis]]:
        """Each input's answers, best first; what is live still when the loop was stopped is among them."""
        if not all(self.done.tolist()):
            self._collect_live(~self.done)
        self._store_results(self.beam_hypotheses, [True] * len(self.batch_indices))
        return [self.hypotheses[place] for place in range(len(self.hypotheses))]

    def _store_results(self, beam_hypotheses: BeamHypotheses, selected: list[bool]) -> None:
        asked = slice(self.sampler.hypotheses)
        columns = [
            part[:, asked].tolist()
            for part in (
                beam_hypotheses.tokens,
                beam_hypotheses.log_probabilities,
                beam_hypotheses.lengths,
                beam_hypotheses.scores,
            )
        ]
        for place, rows in zip(compress(self.batch_indices, selected), zip(*columns, strict=True), strict=True):
            self.hypotheses[place] = [make_hypothesis(*row) for row in zip(*rows, strict=True) if row[3] > -torch.inf]

    def _update_rows(self) -> None:
        self.shape = (len(self.batch_indices), self.sampler.width)
        self.rows = torch.arange(len(self.batch_indices) * self.sampler.width, device=self.max_lengths.device).view(
            self.shape
        )

    def _collect_finished(self, scores: Tensor, ended_candidates: EndedCandidates) -> None:
        scores_to_add = self._penalized_scores(
            ended_candidates.sums, self.history.time + 1, ended_candidates.is_eos & ~self.done[:, None]
        )
        self.beam_hypotheses = add_finished(
            self.beam_hypotheses, FinishedCandidates(scores_to_add, ended_candidates.parents, self.history), scores
        )
        self.may_stop = maybe_any(self.beam_hypotheses.scores[:, self.sampler.required_hypotheses - 1] > -torch.inf)

    def _collect_live(self, inputs: Bool[Tensor, "input"]) -> None:
        mask = inputs[:, None].expand(self.shape)
        self.beam_hypotheses = self.beam_hypotheses.merge(
            BeamHypotheses.of(self._penalized_scores(self.sums, self.history.time, mask), self.history)
        )
        self.done = self.done | inputs

    def _penalized_scores(self, sums: Tensor, length: Any, mask: Tensor) -> Float[Tensor, "input width"]:
        """What answers of this length are ranked by; minus infinity for those that are not wanted."""
        lengths = torch.zeros_like(sums, dtype=torch.long) + length
        return self.sampler.length_penalty(sums, lengths).masked_fill(~mask, -torch.inf)

    def _stopping(self, best: Float[Tensor, "input"]) -> Bool[Tensor, "input"]:
        # A penalty is steady in the length, so the most a live hypothesis can reach lies at one of the ends.
        soonest = self.sampler.length_penalty(best, self.history.time + 1)
        best_attainable_score = torch.maximum(soonest, self.sampler.length_penalty(best, self.max_lengths))
        return self.sampler.stopping_rule(
            self.beam_hypotheses.scores[:, self.sampler.required_hypotheses - 1], best_attainable_score
        )
