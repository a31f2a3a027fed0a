"""Samplers select the next token from the scores of all tokens; logits processors forbid tokens before.

A sampler is a plain value (`GreedySampler()`, `RandomSampler(seed=7)`, `BeamSampler(4)`). For each call of the decoding
loop it starts a `Search`, which holds the tokens so far. This file contains greedy decoding and sampling: they differ
only in how a row selects its token, and their rows are independent of each other. Beam search is in `beam.py`.

A search stores the tokens generated so far (`History`), and returns a `Hypothesis` for each output. A length penalty
converts a sum of log-probabilities to a score that can be compared across lengths. Every token makes the sum smaller,
so a plain sum prefers short outputs. A penalty is a small class that is its own setting. `lengths` is the number of
summed log-probabilities, including that of <eos>, so it is never 0. Every penalty is monotonic in the length: beam
search needs this property for the best attainable score of a hypothesis.

A logits processor gets the history of every row and the log-probabilities of the next tokens, and sets those of
forbidden tokens to minus infinity. The other log-probabilities stay those of the model; only `RepetitionPenalty`, which
forbids no token, changes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.seeds import uniform
from seq2see.core.settings import Settings
from seq2see.data.tokenizers.tokenizer import EOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """One output sequence for one input, with its log-probability."""

    tokens: tuple[int, ...]
    """The tokens, including a forced prefix, without <bos> and <eos>."""
    score: float
    """The log-probability after the length penalty; hypotheses are ranked by it."""
    log_probability: float
    """The sum of `token_log_probabilities`."""
    token_log_probabilities: tuple[float, ...]
    """One number for each token; a finished hypothesis has one more, for its <eos>."""
    finished: bool
    """False if decoding stopped before <eos>."""


@dataclass(frozen=True)
class History:
    """The tokens of every row so far. `append` writes in place, so a history, like a model's state, has one owner."""

    tokens: Int[Tensor, "row max_length"]
    log_probabilities: Float[Tensor, "row max_length"]
    prompt_lengths: Int[Tensor, "row"]
    """The number of forced tokens at the start of each row."""
    time: int
    """The number of tokens so far, the same for every row."""

    @staticmethod
    def empty(prompt_lengths: Int[Tensor, "row"], max_length: int) -> History:
        """A history without tokens, with a capacity of `max_length` tokens per row."""
        shape = (prompt_lengths.size(0), max_length)
        tokens = torch.full(shape, PAD, dtype=torch.long, device=prompt_lengths.device)
        return History(tokens, torch.zeros(shape, device=prompt_lengths.device), prompt_lengths, 0)

    @property
    def past_tokens(self) -> Int[Tensor, "row time"]:
        """The tokens so far."""
        return self.tokens[:, : self.time]

    def append(self, tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]) -> History:
        """Append one token to every row."""
        self.tokens[:, self.time] = tokens
        self.log_probabilities[:, self.time] = log_probabilities
        return type(self)(self.tokens, self.log_probabilities, self.prompt_lengths, self.time + 1)

    def reorder_and_append(
        self, rows: Int[Tensor, "row"], tokens: Int[Tensor, "row"], log_probabilities: Float[Tensor, "row"]
    ) -> History:
        """Return a copy in which row i is row `rows[i]` of the same input, with one more token.

        All rows of an input have the same prompt, so `prompt_lengths` does not change.
        """
        reordered = (self.tokens.index_select(0, rows), self.log_probabilities.index_select(0, rows))
        return type(self)(*reordered, self.prompt_lengths, self.time).append(tokens, log_probabilities)


def make_hypothesis(tokens: list[int], log_probabilities: list[float], length: int, score: float) -> Hypothesis:
    """Convert one row of a history; `length` is its number of tokens, including <eos>.

    >>> make_hypothesis([5, 2, 0], [-1.0, -0.5, 0.0], 2, -1.5).tokens
    (5,)
    """
    finished = tokens[length - 1] == EOS
    token_log_probabilities = tuple(log_probabilities[:length])
    return Hypothesis(
        tuple(tokens[: length - finished]),
        score,
        math.fsum(token_log_probabilities),
        token_log_probabilities,
        finished,
    )


Lengths = Int[Tensor, "*#any"] | int


class NoPenalty(Settings):
    """The log-probability of the whole output, without a length penalty."""

    kind: Literal["none"] = "none"

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums


class Average(Settings):
    """Divide by length ** alpha; alpha = 1 is the mean log-probability of a token.

    This is the length penalty of Hugging Face and fairseq.
    """

    kind: Literal["average"] = "average"
    alpha: float = 1.0
    """The exponent of the length: 0 is no penalty, 1 divides by the length."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / lengths**self.alpha


class GNMT(Settings):
    """Divide by ((5 + length) / 6) ** alpha: a penalty with less effect on short outputs.

    Wu et al. 2016 (Google's Neural Machine Translation System), eq. 14, without the coverage term.
    """

    kind: Literal["gnmt"] = "gnmt"
    alpha: float = 0.6
    """The exponent: 0 is no penalty; the paper finds 0.6 to 0.7 best."""

    def __call__(self, sums: Float[Tensor, "*any"], lengths: Lengths) -> Float[Tensor, "*any"]:
        return sums / ((5 + lengths) / 6) ** self.alpha


LengthPenalty = Annotated[NoPenalty | Average | GNMT, Field(discriminator="kind")]


TopK = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""(scores (row, vocab), count) -> the `count` highest scores of each row, best first, and their indices."""


def stable_topk(
    scores: Float[Tensor, "row vocab"], count: int
) -> tuple[Float[Tensor, "row count"], Int[Tensor, "row count"]]:
    """The `count` highest scores of each row and their indices; among equals the lower index comes first.

    `torch.topk` does not define which of several equal scores it returns, nor their order. So one more score than
    requested is computed, and if any two of these are equal, a stable sort decides. A row with fewer than `count`
    scores returns all of them.

    >>> stable_topk(torch.tensor([[0.0, 2.0, 1.0, 2.0]]), 2)[1].tolist()
    [[1, 3]]
    """
    best, indices = scores.topk(min(count + 1, scores.size(1)), dim=1)
    if (best[:, 1:] == best[:, :-1]).any():
        best, indices = scores.sort(dim=1, descending=True, stable=True)
    return best[:, :count], indices[:, :count]


@dataclass(frozen=True)
class DecodingStep:
    """The tokens that one step of the loop selects; a row that is done gets PAD."""

    tokens: Int[Tensor, "row"]
    log_probabilities: Float[Tensor, "row"]
    parents: Int[Tensor, "row"] | None = None
    """The row that each row continues; None if every row continues itself."""


@runtime_checkable
class Search(Protocol):
    """One run of a sampler over one batch."""

    history: History

    @property
    def finished(self) -> bool:
        """Whether all rows are done."""

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select the next token of every row."""

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first."""


@runtime_checkable
class Sampler(Protocol):
    """A decoding strategy; `width` is its number of hypotheses (rows) for each input."""

    @property
    def width(self) -> int: ...

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch with `width` rows for each input; a row is done at the maximum length of its input.

        `indices` are the indices of the inputs in the dataset, on which samples depend.
        """


@dataclass(frozen=True)
class GreedySampler:
    """Select the most probable token; among equals the one with the lowest id."""

    length_penalty: LengthPenalty = field(default_factory=NoPenalty)
    width: int = field(default=1, init=False)

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return IndependentSearch(self, history, max_lengths, indices)

    def choose(
        self, scores: Float[Tensor, "row vocab"], history: History, rows: list[tuple[int, int]]
    ) -> Int[Tensor, "row"]:
        """The most probable token of each row."""
        return scores.argmax(dim=1)


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
    topk = staticmethod(stable_topk)

    def start_search(self, history: History, max_lengths: Int[Tensor, "input"], indices: list[int]) -> Search:
        """Start on a batch."""
        return IndependentSearch(self, history, max_lengths, indices)

    def choose(
        self, scores: Float[Tensor, "row vocab"], history: History, rows: list[tuple[int, int]]
    ) -> Int[Tensor, "row"]:
        """Draw one token for each row; a row is (index of the example, number of the sample)."""
        draws = [uniform(self.seed, "sample", example, sample, history.time) for example, sample in rows]
        uniforms = torch.tensor(draws, dtype=torch.float64).to(scores.device, non_blocking=True)
        return sample_inverse_cdf(self.probabilities(scores), uniforms)

    def probabilities(self, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        """The probability of drawing each token."""
        # float64 is exact enough for a tiny temperature and for sums over large vocabularies. The best score is
        # shifted to 0 first, so that the division by a tiny temperature does not overflow.
        scores = scores.double()
        scores = (scores - scores.amax(dim=1, keepdim=True)) / self.temperature
        if self.top_k:
            scores = keep_top_k(scores, self.top_k, self.topk)
        if self.top_p < 1:
            scores = keep_top_p(scores, self.top_p)
        return scores.softmax(dim=1)


def keep_top_k(scores: Float[Tensor, "row vocab"], count: int, topk: TopK = stable_topk) -> Float[Tensor, "row vocab"]:
    """Keep only the `count` most probable tokens (Fan, Lewis & Dauphin 2018)."""
    best, indices = topk(scores, count)
    return torch.full_like(scores, -torch.inf).scatter(1, indices, best)


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
        history: History,
        max_lengths: Int[Tensor, "input"],
        indices: list[int],
    ):
        self.sampler, self.history = sampler, history
        self.max_lengths = max_lengths.repeat_interleave(sampler.width)
        self.done = torch.zeros_like(self.max_lengths, dtype=torch.bool)
        self.rows = [(example, sample) for example in indices for sample in range(sampler.width)]

    @property
    def finished(self) -> bool:
        """Whether all rows are done."""
        return bool(self.done.all())

    def select(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select a token for every row that is not done; rows that end or have their maximum length are then done."""
        step = self.advance(scores)
        self.stop_at_max_length()
        return step

    def advance(self, scores: Float[Tensor, "row vocab"]) -> DecodingStep:
        """Select a token for every row that is not done."""
        tokens = self.choose(scores)
        log_probabilities = scores.gather(1, tokens.unsqueeze(1)).squeeze(1).masked_fill(self.done, 0)
        tokens = tokens.masked_fill(self.done, PAD)
        self.history = self.history.append(tokens, log_probabilities)
        self.done = self.done | (tokens == EOS)
        return DecodingStep(tokens, log_probabilities)

    def choose(self, scores: Float[Tensor, "row vocab"]) -> Int[Tensor, "row"]:
        """The token of each row."""
        return self.sampler.choose(scores, self.history, self.rows)

    def stop_at_max_length(self) -> None:
        """Mark rows at their maximum length as done."""
        self.done = self.done | (self.max_lengths <= self.history.time)

    def results(self) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first."""
        return self.group_by_input(self.hypotheses())

    def hypotheses(self) -> list[Hypothesis]:
        """The hypothesis of each row."""
        tokens, log_probabilities = self.history.tokens, self.history.log_probabilities
        lengths = (tokens != PAD).sum(dim=1)  # PAD is never generated
        scores = self.sampler.length_penalty(log_probabilities.sum(dim=1), lengths)
        columns = (tokens.tolist(), log_probabilities.tolist(), lengths.tolist(), scores.tolist())
        return [make_hypothesis(*row) for row in zip(*columns, strict=True)]

    def group_by_input(self, hypotheses: list[Hypothesis]) -> list[list[Hypothesis]]:
        """The hypotheses of the rows of each input, best first."""
        width = self.sampler.width
        groups = [hypotheses[first : first + width] for first in range(0, len(hypotheses), width)]
        return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]


LogitsProcessor = Callable[[History, Tensor], Tensor]
"""(history, scores (row, vocab)) -> scores (row, vocab)"""


@dataclass(frozen=True)
class MinNewTokens:
    """Forbid <eos> before `min_new_tokens` tokens; a forced prefix is not counted."""

    min_new_tokens: int

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        is_eos = torch.arange(scores.size(1), device=scores.device) == EOS
        too_short = history.time - history.prompt_lengths < self.min_new_tokens
        return scores.masked_fill(too_short[:, None] & is_eos, -torch.inf)


@dataclass(frozen=True)
class NoRepeatNGram:
    """Forbid tokens that would complete an n-gram of `ngram_size` tokens for the second time."""

    ngram_size: int

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        if history.time < self.ngram_size:
            return scores
        ngrams = history.past_tokens.unfold(1, self.ngram_size, 1)  # (row, ngram, ngram_size)
        last_tokens = history.past_tokens[:, history.time - self.ngram_size + 1 :]
        is_repeated = (ngrams[:, :, :-1] == last_tokens[:, None]).all(-1)
        # PAD stands for "no token is forbidden": it is never generated in any case.
        forbidden = torch.where(is_repeated, ngrams[:, :, -1], PAD)
        return scores.scatter(1, forbidden, -torch.inf)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Multiply the log-probabilities of tokens that occurred before by `penalty` (after Keskar et al. 2019).

    The paper divides logits. They are defined only up to a constant, so the effect of a division depends on their sign.
    Log-probabilities are unique and never positive, so one rule fits all. A token that is nearly certain stays so
    unless the factor is large. The result is normalized: all probabilities sum to 1.
    """

    penalty: float
    """The factor; 1 has no effect."""

    def __call__(self, history: History, scores: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        is_repeated = torch.zeros_like(scores, dtype=torch.bool).scatter(1, history.past_tokens, True)
        return torch.where(is_repeated, scores * self.penalty, scores).log_softmax(dim=1)
