"""Samplers: they select the next token from the scores of all tokens.

A sampler is a plain value (`GreedySampler()`, `RandomSampler(seed=7)`, `BeamSampler(4)`). For each call of the decoding
loop it starts a `Search`, which holds the tokens so far. This file contains greedy decoding and sampling: they differ
only in how a row selects its token, and their rows are independent of each other. Beam search is in `beam.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.rows import pick_rows
from seq2see.core.seeds import uniform
from seq2see.data.tokenizers.tokenizer import EOS, PAD
from seq2see.decoding.hypotheses import History, Hypothesis, make_hypothesis
from seq2see.decoding.length_penalties import LengthPenalty, NoPenalty
from seq2see.decoding.topk import maybe_any, stable_argmax, stable_topk_indices


@dataclass(frozen=True)
class DecodingStep:
    """The tokens that one step of the loop selects; a row that is done gets PAD."""

    tokens: Int[Tensor, "row"]
    log_probabilities: Float[Tensor, "row"]
    parents: Int[Tensor, "row"] | None = None
    """The row that each row continues; None if every row continues itself."""


SearchState = tuple[History, *tuple[Any, ...]]
"""The state of a search: its history, and all other tensors that change from step to step."""


@runtime_checkable
class Search(Protocol):
    """One run of a sampler over one batch."""

    history: History
    done: Bool[Tensor, "any"]
    """True for rows or inputs that are complete; the loop ends when all of them are."""
    smallest_max_length: int
    """Before this time no row has reached its maximum length."""
    search_state: SearchState
    """All tensors that a step reads or changes."""

    @property
    def sampler(self) -> Sampler:
        """The sampler that started this search."""

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select the next token of every row, and stop rows at their maximum length."""

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select the next token of every row, without the check of maximum lengths."""

    def stop_at_max_length(self) -> None:
        """Mark rows at their maximum length as done."""

    def drop_done(self) -> Int[Tensor, "remaining"]:
        """Store the hypotheses of everything that is done and drop its rows; return the remaining rows."""

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first."""


@runtime_checkable
class Sampler(Protocol):
    """A decoding strategy; `width` is its number of hypotheses (rows) for each input."""

    @property
    def width(self) -> int: ...

    @property
    def capturable(self) -> bool:
        """Whether every step runs the same operations on the same tensors, so that a CUDA graph can capture it."""

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch with `width` rows for each input; a row is done at the maximum length of its input."""


@dataclass(frozen=True)
class GreedySampler:
    """Select the most probable token; among equals the one with the lowest id."""

    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    width: int = field(default=1, init=False)
    capturable: ClassVar[bool] = True

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return IndependentSearch(self, _argmax_token, history, max_lengths)


TokenSelector = Callable[[Tensor, int, list[int]], Tensor]
"""(scores (row, vocab), time, index of each row in the batch) -> one token for each row."""


def _argmax_token(scores: Float[Tensor, "row vocab"], time: Any, batch_indices: list[int]) -> Int[Tensor, "row"]:
    return stable_argmax(scores)


@dataclass(frozen=True)
class RandomSampler:
    """Draw each token by its probability, after temperature, top-k and top-p in this order.

    Each draw uses one random number that depends only on the seed, the example, the number of the sample and the
    position: the samples do not depend on how examples are grouped into batches.
    """

    seed: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    width: int = 1
    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    capturable: ClassVar[bool] = False  # each draw needs another random number

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch; `indices` are the indices of its examples in the dataset."""
        return IndependentSearch(self, partial(self.sample_tokens, indices), history, max_lengths)

    def sample_tokens(
        self, indices: list[int], scores: Float[Tensor, "row vocab"], time: int, batch_indices: list[int]
    ) -> Int[Tensor, "row"]:
        """Draw one token for each row."""
        owners = [divmod(index, self.width) for index in batch_indices]  # (example, number of the sample)
        draws = [uniform(self.seed, "sample", indices[example], sample, time) for example, sample in owners]
        uniforms = torch.tensor(draws, dtype=torch.float64).to(scores.device, non_blocking=True)
        return sample_inverse_cdf(self.probabilities(scores), uniforms)

    def probabilities(self, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        """The probability of drawing each token."""
        # float64 is exact enough for a tiny temperature and for sums over large vocabularies. The best score is
        # shifted to 0 first, so that the division by a tiny temperature does not overflow.
        scores = scores.double()
        scores = (scores - scores.amax(dim=1, keepdim=True)) / self.temperature
        if self.top_k:
            scores = keep_top_k(scores, self.top_k)
        if self.top_p < 1:
            scores = keep_top_p(scores, self.top_p)
        return scores.softmax(dim=1)


def keep_top_k(scores: Float[Tensor, "row vocab"], count: int) -> Float[Tensor, "row vocab"]:
    """Keep only the `count` most probable tokens (Fan, Lewis & Dauphin 2018)."""
    indices = stable_topk_indices(scores, count)
    return torch.full_like(scores, -torch.inf).scatter(1, indices, scores.gather(1, indices))


def keep_top_p(scores: Float[Tensor, "row vocab"], top_p: float) -> Float[Tensor, "row vocab"]:
    """Keep only the smallest set of most probable tokens that reaches `top_p` (Holtzman et al. 2020, eq. 2)."""
    ordered, indices = scores.sort(dim=1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=1)
    preceding = probabilities.cumsum(dim=1) - probabilities  # 0 for the first token, which is always kept
    filtered = ordered.masked_fill(preceding >= top_p, -torch.inf)
    return torch.empty_like(scores).scatter(1, indices, filtered)


def sample_inverse_cdf(probabilities: Float[Tensor, "row vocab"], uniforms: Float[Tensor, "row"]) -> Int[Tensor, "row"]:
    """Inverse transform sampling: the token whose interval of the cumulative distribution contains the number.

    >>> sample_inverse_cdf(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([0.5])).tolist()
    [2]
    """
    cumulative = probabilities.cumsum(dim=1)
    # The largest number below 1, times any total, rounds to less than the total, so a token is always found.
    thresholds = uniforms[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, thresholds, right=True).squeeze(1)


class IndependentSearch:
    """A search whose rows are independent: each row selects its own next token."""

    def __init__(
        self,
        sampler: GreedySampler | RandomSampler,
        select_token: TokenSelector,
        history: History,
        max_lengths: Int[Tensor, "input"],
    ):
        self.sampler, self.select_token, self.history = sampler, select_token, history
        self.max_lengths = max_lengths.repeat_interleave(sampler.width)
        self.smallest_max_length = int(max_lengths.min())  # an int: reading a tensor from a GPU at every step is slow
        self.done = torch.zeros_like(self.max_lengths, dtype=torch.bool)
        self.batch_indices = list(range(self.done.size(0)))  # the index of each row in the batch
        self.stored_results: dict[int, Hypothesis] = {}

    @property
    def search_state(self) -> SearchState:
        """The history, and which rows are done."""
        return self.history, self.done

    @search_state.setter
    def search_state(self, search_state: SearchState) -> None:
        self.history, self.done = search_state

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select a token for every row that is not done."""
        step = self.advance(scores)
        self.stop_at_max_length()
        return step

    def stop_at_max_length(self) -> None:
        """Mark rows at their maximum length as done."""
        if self.history.time >= self.smallest_max_length:
            self.done = self.done | (self.history.time >= self.max_lengths)

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select a token for every row that is not done, without the check of maximum lengths."""
        tokens = self.select_token(scores, self.history.time, self.batch_indices)
        log_probabilities = scores.gather(1, tokens[:, None]).squeeze(1)
        if maybe_any(self.done):
            tokens = tokens.masked_fill(self.done, PAD)
            log_probabilities = log_probabilities.masked_fill(self.done, 0)
        self.history = self.history.append(tokens, log_probabilities)
        self.done = self.done | (tokens == EOS)
        return DecodingStep(tokens, log_probabilities)

    def drop_done(self) -> Int[Tensor, "remaining"]:
        """Store the hypotheses of rows that are done, and drop these rows."""
        self._store_results(pick_rows(self.history, self.done.nonzero().squeeze(1)), self.done.tolist())
        remaining = (~self.done).nonzero().squeeze(1)
        self.batch_indices = [self.batch_indices[row] for row in remaining.tolist()]
        self.history, self.max_lengths, self.done = pick_rows((self.history, self.max_lengths, self.done), remaining)
        return remaining

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first."""
        self._store_results(self.history, [True] * len(self.batch_indices))
        hypotheses = [self.stored_results[index] for index in range(len(self.stored_results))]
        width = self.sampler.width
        groups = [hypotheses[first : first + width] for first in range(0, len(hypotheses), width)]
        return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]

    def _store_results(self, history: History, selected: list[bool]) -> None:
        lengths = (history.tokens != PAD).sum(dim=1)  # PAD is never generated
        scores = self.sampler.length_penalty(history.log_probabilities.sum(dim=1), lengths)
        columns = (history.tokens, history.log_probabilities, lengths, scores)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.stored_results |= zip(
            compress(self.batch_indices, selected), (make_hypothesis(*row) for row in rows), strict=True
        )
