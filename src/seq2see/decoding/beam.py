"""Beam search: follow the `width` most probable partial hypotheses of each input.

At every step each of the `width` live hypotheses is extended by every token of the vocabulary. Of all these
continuations of an input the `2 * width` most probable ones are considered:

* Those among the first `width` that end in <eos> are finished. The best `width` finished hypotheses are stored.
* The best `width` that do not end in <eos> are the live hypotheses of the next step.

Each live hypothesis has one continuation that ends in <eos>. So at most `width` of the `2 * width` continuations end,
and at least `width` remain live. Hypotheses that are still live at the maximum length are stored as unfinished, with
the score that they have then.

The work of one step is in `beam_step.py`, the stored hypotheses are in `beam_hypotheses.py`.
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
from seq2see.decoding.beam_step import EndedCandidates, LiveBeams, beam_step
from seq2see.decoding.hypotheses import History, Hypothesis, make_hypothesis
from seq2see.decoding.length_penalties import LengthPenalty, NoPenalty
from seq2see.decoding.samplers import DecodingStep, Search, SearchState
from seq2see.decoding.topk import maybe_any

StoppingRule = Callable[[Tensor, Tensor], Tensor]
"""(score of the worst required hypothesis, best attainable score) of each input -> whether its search stops."""


def stop_when_unbeatable(
    worst_score: Float[Tensor, "input"], best_attainable_score: Float[Tensor, "input"]
) -> Bool[Tensor, "input"]:
    """Stop when no live hypothesis can reach a higher score than the worst required hypothesis.

    This does not change the result. If the length penalty favors long hypotheses, the best attainable score is that of
    the maximum length, and the search continues until the live hypotheses are very improbable.
    """
    return worst_score >= best_attainable_score


def stop_when_full(
    worst_score: Float[Tensor, "input"], best_attainable_score: Float[Tensor, "input"]
) -> Bool[Tensor, "input"]:
    """Stop as soon as `width` hypotheses are finished: faster, and the rule behind most published results."""
    return (worst_score > -torch.inf) | (best_attainable_score == -torch.inf)


@dataclass(frozen=True)
class BeamSampler:
    """Follow `width` hypotheses of each input and return the best `num_return_sequences` of them (None: all).

    With width 1 this is greedy decoding, if there is no length penalty or the rule is `stop_when_full`. If `width` is
    the number of all possible continuations, it is an exhaustive search.
    """

    width: int
    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    stopping_rule: StoppingRule = stop_when_unbeatable
    num_return_sequences: int | None = None
    capturable: ClassVar[bool] = True

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return BeamSearch(self, history, max_lengths)

    @property
    def required_hypotheses(self) -> int:
        """The number of stored hypotheses that an input needs before its search may stop."""
        if self.stopping_rule is stop_when_full or self.num_return_sequences is None:
            return self.width
        return min(self.num_return_sequences, self.width)


class BeamSearch:
    """One beam search over a batch of inputs; each input has `width` rows, and inputs are independent."""

    def __init__(self, sampler: BeamSampler, history: History, max_lengths: Int[Tensor, "input"]):
        self.sampler, self.history, self.max_lengths = sampler, history, max_lengths
        self.smallest_max_length = int(max_lengths.min())  # an int: reading a tensor from a GPU at every step is slow
        self.batch_indices = list(range(max_lengths.size(0)))  # the index of each input in the batch
        self.stored_results: dict[int, list[Hypothesis]] = {}
        self._update_rows()
        # At the start all rows of an input are equal, so only the first one is live.
        self.sums = history.log_probabilities.sum(dim=1).view(self.shape).clone()
        self.sums[:, 1:] = -torch.inf
        self.done = torch.zeros_like(max_lengths, dtype=torch.bool)
        self.beam_hypotheses = BeamHypotheses.of(torch.full_like(self.sums, -torch.inf), history)
        self.may_stop = False  # whether any input has the required number of finished hypotheses

    @property
    def search_state(self) -> SearchState:
        """The live hypotheses, the stored hypotheses, and which inputs are done."""
        return self.history, self.sums, self.done, self.beam_hypotheses, self.max_lengths

    @search_state.setter
    def search_state(self, search_state: SearchState) -> None:
        self.history, self.sums, self.done, self.beam_hypotheses, self.max_lengths = search_state

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Extend the live hypotheses by one token, store the finished ones, and stop inputs that are done."""
        step = self.advance(scores)
        self.stop_at_max_length()
        return step

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Do one step of the search, without the check of maximum lengths."""
        result = beam_step(scores, LiveBeams(self.sums, self.done, self.history, self.rows))
        if result.ended_candidates is not None:
            self._add_finished(scores, result.ended_candidates)
        self.sums, self.history = result.sums, result.history
        if self.may_stop or result.maybe_exhausted:
            self.done = self.done | self._should_stop(self.sums[:, 0])  # live hypotheses are sorted, best first
        return result.step

    def _add_finished(self, scores: Tensor, ended: EndedCandidates) -> None:
        """Merge the hypotheses that end at this step into the stored ones."""
        mask = ended.is_eos & ~self.done[:, None]
        finished_scores = self._penalized_scores(ended.sums, self.history.time + 1, mask)
        finished = FinishedCandidates(finished_scores, ended.parents, self.history)
        self.beam_hypotheses = add_finished(self.beam_hypotheses, finished, scores)
        self.may_stop = maybe_any(self._worst_required_score() > -torch.inf)

    def _should_stop(self, best_sums: Float[Tensor, "input"]) -> Bool[Tensor, "input"]:
        """Apply the stopping rule; `best_sums` belong to the best live hypothesis of each input."""
        # A length penalty is monotonic in the length, so the best attainable score is at one end of the range.
        shortest_score = self.sampler.length_penalty(best_sums, self.history.time + 1)
        longest_score = self.sampler.length_penalty(best_sums, self.max_lengths)
        best_attainable_score = torch.maximum(shortest_score, longest_score)
        return self.sampler.stopping_rule(self._worst_required_score(), best_attainable_score)

    def _worst_required_score(self) -> Float[Tensor, "input"]:
        return self.beam_hypotheses.scores[:, self.sampler.required_hypotheses - 1]

    def _penalized_scores(self, sums: Tensor, length: Any, mask: Tensor) -> Float[Tensor, "input width"]:
        """The scores of hypotheses of this length; minus infinity where `mask` is False."""
        lengths = torch.zeros_like(sums, dtype=torch.long) + length
        return self.sampler.length_penalty(sums, lengths).masked_fill(~mask, -torch.inf)

    def stop_at_max_length(self) -> None:
        """Store the live hypotheses of inputs at their maximum length, and mark these inputs as done."""
        if self.history.time >= self.smallest_max_length:
            self._add_unfinished(~self.done & (self.max_lengths <= self.history.time))

    def _add_unfinished(self, inputs: Bool[Tensor, "input"]) -> None:
        """Merge the live hypotheses of some inputs into the stored ones."""
        mask = inputs[:, None].expand(self.shape)
        live_scores = self._penalized_scores(self.sums, self.history.time, mask)
        self.beam_hypotheses = self.beam_hypotheses.merge(BeamHypotheses.of(live_scores, self.history))
        self.done = self.done | inputs

    def drop_done(self) -> Int[Tensor, "remaining"]:
        """Store the results of inputs that are done and drop their rows; return the remaining rows."""
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
        """Return the hypotheses of each input, best first; if decoding was stopped early, also the live ones."""
        if not all(self.done.tolist()):
            self._add_unfinished(~self.done)
        self._store_results(self.beam_hypotheses, [True] * len(self.batch_indices))
        return [self.stored_results[index] for index in range(len(self.stored_results))]

    def _store_results(self, beam_hypotheses: BeamHypotheses, selected: list[bool]) -> None:
        """Convert the stored hypotheses of the selected inputs from tensors to `Hypothesis` objects."""
        best = slice(self.sampler.num_return_sequences)
        tensors = (
            beam_hypotheses.tokens,
            beam_hypotheses.log_probabilities,
            beam_hypotheses.lengths,
            beam_hypotheses.scores,
        )
        columns = [tensor[:, best].tolist() for tensor in tensors]
        for index, rows in zip(compress(self.batch_indices, selected), zip(*columns, strict=True), strict=True):
            hypotheses = [make_hypothesis(*row) for row in zip(*rows, strict=True) if row[3] > -torch.inf]
            self.stored_results[index] = hypotheses

    def _update_rows(self) -> None:
        """Number the rows of the remaining inputs: input i has the rows i * width, ..., i * width + width - 1."""
        self.shape = (len(self.batch_indices), self.sampler.width)
        rows = torch.arange(len(self.batch_indices) * self.sampler.width, device=self.max_lengths.device)
        self.rows = rows.view(self.shape)
