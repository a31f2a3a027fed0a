"""Choosers: given the scores of all next tokens, which one is taken?

A chooser is a plain value (`GreedySampler()`, `RandomSampler(seed=7)`, `BeamSampler(4)`). For each call of the decoding loop
it begins a `Search`, which remembers what was said. Greedy decoding and sampling are here: they differ
only in how a row picks its token, and their rows walk alone. Beam search has a page of its own.
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
from seq2see.decoding.hypotheses import History, Hypothesis, make_hypothesis
from seq2see.decoding.length_penalties import LengthPenalty, NoPenalty
from seq2see.decoding.topk import maybe_any, stable_argmax, stable_topk_indices
from seq2see.sequences.tokenizers import EOS, PAD


@dataclass(frozen=True)
class DecodingStep:
    """What one turn of the loop chose for every row; a row that has ended gets PAD."""

    tokens: Int[Tensor, "row"]
    log_probabilities: Float[Tensor, "row"]
    parents: Int[Tensor, "row"] | None = None
    """The row whose story each row continues; None if every row continues its own."""


SearchState = tuple[History, *tuple[Any, ...]]
"""Where a search stands: what was said, and whatever else it carries from turn to turn."""


@runtime_checkable
class Search(Protocol):
    """One run of a chooser over one batch."""

    history: History
    done: Bool[Tensor, "any"]
    """True where nothing more is to be said; the loop ends when all is."""
    smallest_max_length: int
    """Before this time no row has said all it may."""
    search_state: SearchState
    """All that a turn changes, and all tensors that it reads."""

    @property
    def sampler(self) -> Sampler:
        """Whose search this is."""

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Choose the next token of every row, and see who is at its deadline."""

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """The same before any deadline."""

    def stop_at_max_length(self) -> None:
        """Note who has said all it may."""

    def drop_done(self) -> Int[Tensor, "left"]:
        """Note down the answers of what is done and forget its rows; tells which rows are left."""

    def results(self) -> list[list[Hypothesis]]:
        """For each input its answers, best first."""


@runtime_checkable
class Sampler(Protocol):
    """A way to choose; `width` is how many hypotheses it follows for each input."""

    @property
    def width(self) -> int: ...

    @property
    def capturable(self) -> bool:
        """Whether every turn does the same to the same tensors, so that a GPU can record one and repeat it."""

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch of width rows an input; at its deadline a row has said all it may."""


@dataclass(frozen=True)
class GreedySampler:
    """Always the most probable token; of equals the one with the lower number."""

    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    width: int = field(default=1, init=False)
    capturable: ClassVar[bool] = True

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return IndependentSearch(self, _argmax_token, history, max_lengths)


TokenSelector = Callable[[Tensor, int, list[int]], Tensor]
"""(scores (row, vocab), time, which row of the batch each of these rows is) -> a token a row."""


def _argmax_token(scores: Float[Tensor, "row vocab"], time: Any, places: list[int]) -> Int[Tensor, "row"]:
    return stable_argmax(scores)


@dataclass(frozen=True)
class RandomSampler:
    """Draw each token by its probability, after temperature, top-k and top-p in this order.

    Each draw uses one number that depends on the seed, the example, which of its samples this is, and
    the position, and on nothing else: a batch cut differently gives the same samples.
    """

    seed: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    width: int = 1
    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    capturable: ClassVar[bool] = False  # each draw uses another number

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch; `indices` are the examples' numbers, known to no other batch."""
        return IndependentSearch(self, partial(self.sample_tokens, indices), history, max_lengths)

    def sample_tokens(
        self, indices: list[int], scores: Float[Tensor, "row vocab"], time: int, places: list[int]
    ) -> Int[Tensor, "row"]:
        """One token a row."""
        owners = [divmod(place, self.width) for place in places]
        numbers = [uniform(self.seed, "sample", indices[owner], sample, time) for owner, sample in owners]
        uniforms = torch.tensor(numbers, dtype=torch.float64).to(scores.device, non_blocking=True)
        return sample_inverse_cdf(self.probabilities(scores), uniforms)

    def probabilities(self, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        """How likely each token is to be drawn."""
        # float64, so that neither a tiny temperature nor a long sum of probabilities loses anything;
        # the best score is moved to 0 first, so that dividing by a tiny temperature cannot overflow.
        scores = scores.double()
        scores = (scores - scores.amax(dim=1, keepdim=True)) / self.temperature
        if self.top_k:
            scores = keep_top_k(scores, self.top_k)
        if self.top_p < 1:
            scores = keep_top_p(scores, self.top_p)
        return scores.softmax(dim=1)


def keep_top_k(scores: Float[Tensor, "row vocab"], count: int) -> Float[Tensor, "row vocab"]:
    """Only the `count` most probable tokens stay (Fan, Lewis & Dauphin 2018)."""
    places = stable_topk_indices(scores, count)
    return torch.full_like(scores, -torch.inf).scatter(1, places, scores.gather(1, places))


def keep_top_p(scores: Float[Tensor, "row vocab"], top_p: float) -> Float[Tensor, "row vocab"]:
    """Only the fewest most probable tokens that together reach `top_p` stay (Holtzman et al. 2020, eq. 2)."""
    ordered, places = scores.sort(dim=1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=1)
    before = probabilities.cumsum(dim=1) - probabilities  # 0 for the first token, so that one always stays
    kept = ordered.masked_fill(before >= top_p, -torch.inf)
    return torch.empty_like(scores).scatter(1, places, kept)


def sample_inverse_cdf(probabilities: Float[Tensor, "row vocab"], uniforms: Float[Tensor, "row"]) -> Int[Tensor, "row"]:
    """The token under whose stretch of [0, 1) each chance falls, when all stretches are laid end to end.

    >>> draw_by_chance(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([0.5])).tolist()
    [2]
    """
    ends = probabilities.cumsum(dim=1)
    # The largest number below 1, times any total, is rounded to less than the total: no mark lies behind the last end.
    marks = uniforms[:, None] * ends[:, -1:]
    return torch.searchsorted(ends, marks, right=True).squeeze(1)


class IndependentSearch:
    """Rows that walk alone: each picks its own next token and never looks at another."""

    def __init__(
        self,
        sampler: GreedySampler | RandomSampler,
        select_token: TokenSelector,
        history: History,
        max_lengths: Int[Tensor, "input"],
    ):
        self.sampler, self.select_token, self.history = sampler, select_token, history
        self.max_lengths = max_lengths.repeat_interleave(sampler.width)
        self.smallest_max_length = int(max_lengths.min())  # as a plain number: asking a GPU at every step is slow
        self.done = torch.zeros_like(self.max_lengths, dtype=torch.bool)
        self.batch_indices = list(range(self.done.size(0)))  # which row of the batch each row is
        self.hypotheses: dict[int, Hypothesis] = {}

    @property
    def search_state(self) -> SearchState:
        """What was said, and who is done."""
        return self.history, self.done

    @search_state.setter
    def search_state(self, search_state: SearchState) -> None:
        self.history, self.done = search_state

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Pick a token for every row that has not ended."""
        step = self.advance(scores)
        self.stop_at_max_length()
        return step

    def stop_at_max_length(self) -> None:
        """At its deadline a row is done."""
        if self.history.time >= self.smallest_max_length:
            self.done = self.done | (self.history.time >= self.max_lengths)

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """The same before any deadline."""
        tokens = self.select_token(scores, self.history.time, self.batch_indices)
        log_probabilities = scores.gather(1, tokens[:, None]).squeeze(1)
        if maybe_any(self.done):
            tokens = tokens.masked_fill(self.done, PAD)
            log_probabilities = log_probabilities.masked_fill(self.done, 0)
        self.history = self.history.append(tokens, log_probabilities)
        self.done = self.done | (tokens == EOS)
        return DecodingStep(tokens, log_probabilities)

    def drop_done(self) -> Int[Tensor, "left"]:
        """Note down the answers of rows that are done and walk on without them."""
        self._store_results(pick_rows(self.history, self.done.nonzero().squeeze(1)), self.done.tolist())
        remaining = (~self.done).nonzero().squeeze(1)
        self.batch_indices = [self.batch_indices[row] for row in remaining.tolist()]
        self.history, self.max_lengths, self.done = pick_rows((self.history, self.max_lengths, self.done), remaining)
        return remaining

    def results(self) -> list[list[Hypothesis]]:
        """Each input's answers, best first."""
        self._store_results(self.history, [True] * len(self.batch_indices))
        answers = [self.hypotheses[place] for place in range(len(self.hypotheses))]
        width = self.sampler.width
        groups = [answers[first : first + width] for first in range(0, len(answers), width)]
        return [sorted(group, key=lambda answer: -answer.score) for group in groups]

    def _store_results(self, history: History, selected: list[bool]) -> None:
        lengths = (history.tokens != PAD).sum(dim=1)  # PAD is never said
        scores = self.sampler.length_penalty(history.log_probabilities.sum(dim=1), lengths)
        columns = (history.tokens, history.log_probabilities, lengths, scores)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.hypotheses |= zip(
            compress(self.batch_indices, selected), (make_hypothesis(*row) for row in rows), strict=True
        )
