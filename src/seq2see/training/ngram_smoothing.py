"""Smoothing of n-gram models: from counts to probabilities, also for unseen n-grams.

The relative frequency c(h w) / c(h) is the maximum-likelihood estimate of the word w after the words h, and useless: it
is 0 for all unseen n-grams, and most n-grams of a new text are unseen. So every smoothing subtracts a discount from
each count and distributes that probability mass by a shorter context:

    p(w | h) = p*(h w)                if h w was seen,        (1)
               weight(h) · p(w | h')  else,

where h' is h without its first word (Katz 1987). Smoothings differ in p* and in what they count. Each returns a `Level`
for each order; the probabilities after every context sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.data.ngrams import IntArray, NgramCounts
from seq2see.data.tokenizers.tokenizer import BOS, PAD
from seq2see.models.ngram_lm import NgramDecoder

Probabilities = NDArray[np.float64]
NEVER_PREDICTED = (PAD, BOS)
"""Tokens that are never predicted."""
DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)
"""Discounts of counts of 1, 2 and more, where a text is too small or too regular to estimate them."""
MIN_REMAINING_MASS = 1e-9
"""If the shorter context gives the unseen words no more probability than this, there is nothing to distribute."""


@dataclass(frozen=True)
class Level:
    """The n-grams of one order with their probabilities, and the back-off weights of their contexts: eq. 1."""

    keys: IntArray
    probabilities: Probabilities
    """p* of each n-gram."""
    backoff_weights: Probabilities
    """weight(h) of each context, which is an n-gram of the order below; 1 for a context without any n-gram."""


Discounts = tuple[float, float, float]
"""The discounts of counts of 1, of 2, and of 3 or more."""


class BackOff:
    """Absolute discounting with back-off: a shorter context is used only for n-grams that were not seen.

    p*(h w) = (c(h w) - D) / c(h), with one D for each order (Ney, Essen & Kneser 1994).
    """

    def levels(self, ngrams: Sequence[NgramCounts]) -> list[Level]:
        """The levels of a model of order len(ngrams)."""
        levels, lower = list[Level](), uniform(ngrams[0].vocab_size)
        for each in ngrams:
            levels.append(self._level(each, NgramContexts(each, len(lower)), lower[each.suffixes]))
            lower = levels[-1].probabilities
        return levels

    def _level(self, ngrams: NgramCounts, contexts: NgramContexts, shorter: Probabilities) -> Level:
        counts, seen = ngrams.counts, ngrams.counts > 0
        total = contexts.add(counts)
        # The probability of the unseen words in the shorter context.
        unseen_mass = 1 - contexts.add(np.where(seen, shorter, 0.0))
        complete = unseen_mass <= MIN_REMAINING_MASS  # all words were seen: there is no word to give the mass to
        discounted = counts - discount_amounts(counts, one_discount(counts))
        probabilities = divide_or_zero(np.where(complete[contexts.ids], counts, discounted), total[contexts.ids])
        free_mass = np.where(total > 0, 1 - contexts.add(probabilities), 1.0)
        backoff_weights = np.where(complete, 0.0, divide_or_zero(free_mass, unseen_mass))
        if ngrams.order == 1:  # the table of unigrams includes unseen words
            probabilities = np.where(seen, probabilities, backoff_weights[0] * shorter)
        return Level(ngrams.keys, probabilities, backoff_weights)


class KneserNey:
    """Interpolated Kneser-Ney: every context is mixed with the shorter one, which counts continuations.

    "Francisco" is frequent but occurs only after "San", so it is improbable after an unknown context. The counts of a
    shorter context are therefore numbers of different preceding words, N₁₊(• w), not numbers of occurrences (Kneser &
    Ney 1995). With one discount D for each order,

        p(w | h) = max(c(h w) - D, 0) / c(h) + D · N₁₊(h •) / c(h) · p(w | h')

    (Chen & Goodman 1999, eq. 20). Only the longest n-grams, and those at the beginning of a text, count occurrences.
    """

    estimate: Callable[[IntArray], Discounts] = staticmethod(lambda counts: one_discount(counts))

    def levels(self, ngrams: Sequence[NgramCounts]) -> list[Level]:
        """The levels of a model of order len(ngrams)."""
        levels, lower = list[Level](), uniform(ngrams[0].vocab_size)
        for each, longer in zip(ngrams, [*ngrams[1:], None], strict=True):
            counts = each.counts if longer is None else continuation_counts(each, longer)
            contexts, discounts = NgramContexts(each, len(lower)), discount_amounts(counts, self.estimate(counts))
            total = contexts.add(counts)
            free_mass = np.where(total > 0, divide_or_zero(contexts.add(discounts), total), 1.0)
            direct = divide_or_zero(counts - discounts, total[contexts.ids])
            levels.append(Level(each.keys, direct + free_mass[contexts.ids] * lower[each.suffixes], free_mass))
            lower = levels[-1].probabilities
        return levels


class ModifiedKneserNey(KneserNey):
    """Modified Kneser-Ney: three discounts, for n-grams that were seen once, twice, and more often.

    Y = n₁ / (n₁ + 2n₂), D₁ = 1 - 2Y·n₂/n₁, D₂ = 2 - 3Y·n₃/n₂, D₃₊ = 3 - 4Y·n₄/n₃, where nₖ n-grams have the count k
    (Chen & Goodman 1999, eq. 26).
    """

    estimate = staticmethod(lambda counts: three_discounts(counts))


SMOOTHINGS: dict[str, Callable[[], BackOff | KneserNey]] = {
    "back-off": BackOff,
    "kneser-ney": KneserNey,
    "modified-kneser-ney": ModifiedKneserNey,
}


def load_levels(decoder: NgramDecoder, levels: Sequence[Level]) -> None:
    """Copy the levels to the tables of a model."""
    lowest, *longer = levels
    decoder.unigrams.copy_(torch.from_numpy(lowest.probabilities))
    for table, level in zip(decoder.tables, longer, strict=True):
        values = (torch.from_numpy(each).float() for each in (level.probabilities, level.backoff_weights))
        table.assign(torch.from_numpy(level.keys), *values)


class NgramContexts:
    """The context of each n-gram; all unigrams share the empty context."""

    def __init__(self, ngrams: NgramCounts, count: int):
        self.ids = ngrams.prefixes
        self.count = count if ngrams.order > 1 else 1

    def add(self, values: NDArray[Any]) -> Probabilities:
        """The sum of the values of each context's n-grams."""
        return np.bincount(self.ids, values.astype(np.float64), self.count).astype(np.float64)


def continuation_counts(ngrams: NgramCounts, longer: NgramCounts) -> IntArray:
    """The number of different tokens that precede each n-gram.

    No token precedes the beginning of a text, so n-grams that start there count occurrences.
    """
    preceding = np.bincount(longer.suffixes, minlength=len(ngrams.keys))
    return np.where(preceding > 0, preceding, ngrams.counts)


def one_discount(counts: IntArray) -> Discounts:
    """D = n₁ / (n₁ + 2n₂), the leaving-one-out estimate (Ney, Essen & Kneser 1994)."""
    once, twice = (int(np.count_nonzero(counts == count)) for count in (1, 2))
    ratio = once / (once + 2 * twice) if once and twice else DEFAULT_DISCOUNTS[0]
    return ratio, ratio, ratio


def three_discounts(counts: IntArray) -> Discounts:
    """D₁, D₂ and D₃₊; all three default if one of them cannot be estimated."""
    once, twice, thrice, more = (int(np.count_nonzero(counts == count)) for count in (1, 2, 3, 4))
    if not (once and twice and thrice and more):
        return DEFAULT_DISCOUNTS
    ratio = once / (once + 2 * twice)
    discounts = (1 - 2 * ratio * twice / once, 2 - 3 * ratio * thrice / twice, 3 - 4 * ratio * more / thrice)
    return discounts if all(0 < discount < count for count, discount in enumerate(discounts, 1)) else DEFAULT_DISCOUNTS


def discount_amounts(counts: IntArray, discounts: Discounts) -> Probabilities:
    """The discount of each count."""
    return np.array([0.0, *discounts])[np.minimum(counts, 3)]


def uniform(vocab_size: int) -> Probabilities:
    """The distribution after the shortest context: equal probabilities for all tokens that can be predicted."""
    probabilities = np.ones(vocab_size)
    probabilities[list(NEVER_PREDICTED)] = 0
    return probabilities / probabilities.sum()


def divide_or_zero(dividend: NDArray[Any], divisor: NDArray[Any]) -> Probabilities:
    """The quotient; 0 where the divisor is 0."""
    shape = np.broadcast(dividend, divisor).shape
    return np.divide(dividend, divisor, out=np.zeros(shape), where=np.asarray(divisor) > 0)
