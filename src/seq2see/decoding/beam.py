"""Beam search: extend the `width` most probable partial hypotheses of each input.

At every step each of the `width` live hypotheses is extended by every token of the vocabulary. Of all these
continuations of an input the `2 * width` most probable ones are considered:

* Those among the first `width` that end in <eos> are finished. The best `width` finished hypotheses are stored.
* The best `width` that do not end in <eos> are the live hypotheses of the next step.

Each live hypothesis has one continuation that ends in <eos>. So at most `width` of the `2 * width` continuations end,
and at least `width` remain live. Hypotheses that are still live at the maximum length are stored as unfinished, with
their score at that length.

The search of an input ends by its stopping rule: by default, when no live hypothesis can become better than the stored
ones. Compare `greedy.py`, which extends a single hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.samplers import (
    DecodingStep,
    History,
    Hypothesis,
    LengthPenalty,
    NoPenalty,
    Search,
    TopK,
    make_hypothesis,
    stable_topk,
)

StoppingRule = Callable[[Tensor, Tensor], Tensor]
"""(score of the worst required hypothesis, best attainable score) of each input -> whether its search stops."""


def stop_when_unbeatable(
    worst_score: Float[Tensor, "input"], best_attainable_score: Float[Tensor, "input"]
) -> Bool[Tensor, "input"]:
    """Stop when no live hypothesis can reach a higher score than the worst required hypothesis.

    A longer search would return the same hypotheses. If the length penalty favors long hypotheses, the best attainable
    score is that at the maximum length, so the search continues until the live hypotheses are very improbable.
    """
    return worst_score >= best_attainable_score


def stop_when_full(
    worst_score: Float[Tensor, "input"], best_attainable_score: Float[Tensor, "input"]
) -> Bool[Tensor, "input"]:
    """Stop as soon as `width` hypotheses are finished: faster, and the rule of most published results."""
    return (worst_score > -torch.inf) | (best_attainable_score == -torch.inf)


@dataclass(frozen=True)
class BeamSampler:
    """Extend `width` hypotheses of each input and return the best `num_return_sequences` of them (None: all).

    With width 1 this is greedy decoding, if there is no length penalty or the rule is `stop_when_full`. If `width` is
    the number of all possible continuations, it is an exhaustive search.
    """

    width: int
    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    stopping_rule: StoppingRule = stop_when_unbeatable
    num_return_sequences: int | None = None

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
    """One beam search over a batch of inputs; input i has the rows i * width, ..., i * width + width - 1."""

    topk = staticmethod(stable_topk)

    def __init__(self, sampler: BeamSampler, history: History, max_lengths: Int[Tensor, "input"]):
        self.sampler, self.history, self.max_lengths = sampler, history, max_lengths
        rows = torch.arange(max_lengths.size(0) * sampler.width, device=max_lengths.device)
        self.rows = rows.view(-1, sampler.width)
        # At the start all rows of an input are equal, so only the first one is live.
        self.sums = history.log_probabilities.sum(dim=1).view(self.rows.shape).clone()
        self.sums[:, 1:] = -torch.inf
        self.done = torch.zeros_like(max_lengths, dtype=torch.bool)
        self.stored = BeamHypotheses.of(torch.full_like(self.sums, -torch.inf), history)

    @property
    def finished(self) -> bool:
        """Whether all inputs are done."""
        return bool(self.done.all())

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Extend the live hypotheses by one token, store the finished ones, and end the searches that should stop."""
        step = self.advance(scores)
        self.stop_at_max_length()
        return step

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Do one step of the search, without the check of maximum lengths."""
        width = self.sampler.width
        sums, parents, tokens = top_continuations(scores, self.sums, 2 * width, self.topk)
        is_eos = tokens == EOS
        self.store_finished(scores, sums[:, :width], parents[:, :width], is_eos[:, :width])
        # A stable sort moves the finished ones to the end of the list and does not change the order of the others.
        order = is_eos.byte().argsort(dim=1, stable=True)[:, :width]
        self.sums = sums.gather(1, order)
        step = self.extend(scores, parents.gather(1, order), tokens.gather(1, order))
        self.done = self.done | self.should_stop()
        return step

    def extend(
        self,
        scores: Float[Tensor, "row vocab"],
        parents: Int[Tensor, "input width"],
        tokens: Int[Tensor, "input width"],
    ) -> DecodingStep:
        """Append the tokens to their parents; if an input is done, each of its rows is its own parent and gets PAD."""
        done = self.done[:, None].expand(self.rows.shape)
        rows = torch.where(done, self.rows, parents).flatten()
        new_tokens = tokens.masked_fill(done, PAD).flatten()
        log_probabilities = scores[rows, new_tokens].masked_fill(done.flatten(), 0)
        self.history = self.history.reorder_and_append(rows, new_tokens, log_probabilities)
        return DecodingStep(new_tokens, log_probabilities, rows)

    def store_finished(
        self,
        scores: Float[Tensor, "row vocab"],
        sums: Float[Tensor, "input width"],
        parents: Int[Tensor, "input width"],
        is_eos: Bool[Tensor, "input width"],
    ) -> None:
        """Append <eos> to the parents of the continuations that end, and store them."""
        mask, rows = is_eos & ~self.done[:, None], parents.flatten()
        finished_scores = self.penalized_scores(sums, self.history.time + 1, mask)
        ended = self.history.reorder_and_append(rows, torch.full_like(rows, EOS), scores[rows, EOS])
        self.stored = self.stored.merge(BeamHypotheses.of(finished_scores, ended), self.topk)

    def should_stop(self) -> Bool[Tensor, "input"]:
        """Apply the stopping rule to each input."""
        best_sums = self.sums[:, 0]  # live hypotheses are sorted, best first
        # A length penalty is monotonic in the length, so the best attainable score is at one end of the range.
        shortest_score = self.sampler.length_penalty(best_sums, self.history.time + 1)
        longest_score = self.sampler.length_penalty(best_sums, self.max_lengths)
        worst_required_score = self.stored.scores[:, self.sampler.required_hypotheses - 1]
        return self.sampler.stopping_rule(worst_required_score, torch.maximum(shortest_score, longest_score))

    def stop_at_max_length(self) -> None:
        """Store the live hypotheses of inputs at their maximum length, and mark these inputs as done."""
        self.store_unfinished(~self.done & (self.max_lengths <= self.history.time))

    def store_unfinished(self, inputs: Bool[Tensor, "input"]) -> None:
        """Store the live hypotheses of some inputs, which are then done."""
        live_scores = self.penalized_scores(self.sums, self.history.time, inputs[:, None])
        self.stored = self.stored.merge(BeamHypotheses.of(live_scores, self.history), self.topk)
        self.done = self.done | inputs

    def penalized_scores(
        self, sums: Float[Tensor, "input width"], length: Any, mask: Bool[Tensor, "input #width"]
    ) -> Float[Tensor, "input width"]:
        """The scores of hypotheses of this length; minus infinity where `mask` is False."""
        lengths = torch.zeros_like(sums, dtype=torch.long) + length
        return self.sampler.length_penalty(sums, lengths).masked_fill(~mask, -torch.inf)

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first; if decoding was stopped early, also the live ones."""
        self.store_unfinished(~self.done)
        return self.hypotheses()

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The stored hypotheses of each input that are returned."""
        best = slice(self.sampler.num_return_sequences)
        tensors = (self.stored.tokens, self.stored.log_probabilities, self.stored.lengths, self.stored.scores)
        inputs = zip(*(tensor[:, best].tolist() for tensor in tensors), strict=True)
        # An input with fewer possible outputs than `width` has empty places, with the score minus infinity.
        return [[make_hypothesis(*row) for row in zip(*rows, strict=True) if row[3] > -torch.inf] for rows in inputs]


def top_continuations(
    scores: Float[Tensor, "row vocab"], sums: Float[Tensor, "input width"], count: int, topk: TopK = stable_topk
) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` best continuations of each input: their sums, parent rows and tokens."""
    inputs, width = sums.shape
    # Only the `count` best of each row can be among the `count` best of the input.
    best, tokens = topk(scores, count)
    count_per_row = tokens.size(1)
    totals, indices = topk((sums[:, :, None] + best.view(inputs, width, count_per_row)).view(inputs, -1), count)
    first_rows = torch.arange(0, inputs * width, width, device=scores.device)[:, None]
    parents = first_rows + indices.div(count_per_row, rounding_mode="floor")
    return totals, parents, tokens.reshape(inputs, -1).gather(1, indices)


@dataclass(frozen=True)
class BeamHypotheses:
    """The best hypotheses of each input so far, best first; an empty place has the score minus infinity."""

    scores: Float[Tensor, "input width"]
    lengths: Int[Tensor, "input width"]
    tokens: Int[Tensor, "input width max_length"]
    log_probabilities: Float[Tensor, "input width max_length"]

    @staticmethod
    def of(scores: Float[Tensor, "input width"], history: History) -> BeamHypotheses:
        """The rows of a history as hypotheses with these scores."""
        lengths = torch.zeros_like(scores, dtype=torch.long) + history.time
        tables = (history.tokens, history.log_probabilities)
        return BeamHypotheses(scores, lengths, *(table.view(*scores.shape, -1) for table in tables))

    def merge(self, others: BeamHypotheses, topk: TopK = stable_topk) -> BeamHypotheses:
        """The best `width` hypotheses of both; among equal scores those of `self` come first."""
        scores, indices = topk(torch.cat([self.scores, others.scores], dim=1), self.scores.size(1))
        inputs = torch.arange(indices.size(0), device=indices.device)[:, None]
        return BeamHypotheses(
            scores,
            torch.cat([self.lengths, others.lengths], dim=1)[inputs, indices],
            torch.cat([self.tokens, others.tokens], dim=1)[inputs, indices],
            torch.cat([self.log_probabilities, others.log_probabilities], dim=1)[inputs, indices],
        )
