"""From counts to probabilities: what an n-gram model says of what it has never seen.

The share c(h w) / c(h) is the most likely probability of the word w behind the words h, and useless: it gives 0 to
all that was not seen, and most of what comes was not. So every smoothing takes a little from each count (the
discount) and lets a shorter context share that out:

    p(w | h) = p*(h w)                if h w was seen,        (1)
               weight(h) · p(w | h')  else,

where h' is h without its first word (Katz 1987). Ways of smoothing differ in p* and in what they count. All of them
give a `Level` for each order, whose probabilities add up to 1 behind every context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.models.ngram_lm import NgramDecoder
from seq2see.sequences.ngrams import IntArray, NgramCounts
from seq2see.sequences.tokenizers import BOS, PAD

Probabilities = NDArray[np.float64]
NEVER_PREDICTED = (PAD, BOS)
"""Tokens that nobody has to guess."""
DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)
"""Discounts of counts of 1, 2 and more, where a text is too small or too regular to estimate them."""
MIN_REMAINING_MASS = 1e-9
"""What the shorter context says of the unseen words must be more than this, or there is nobody to give to."""


@dataclass(frozen=True)
class Level:
    """The n-grams of one order with their probabilities, and the weights of their contexts: eq. 1."""

    keys: IntArray
    probabilities: Probabilities
    """p* of each n-gram."""
    backoff_weights: Probabilities
    """weight(h) of each context, which is an n-gram of the order below; 1 where nothing was seen behind it."""


Discounts = tuple[float, float, float]
"""What is taken from a count of 1, of 2, and of 3 or more."""


class BackOff:
    """Absolute discounting with back-off: shorter contexts are asked only for what longer ones have not seen.

    p*(h w) = (c(h w) - D) / c(h), with one D for each order (Ney, Essen & Kneser 1994).
    """

    def levels(self, ngrams: Sequence[NgramCounts]) -> list[Level]:
        """The levels of a model of order len(grams)."""
        levels, lower = list[Level](), uniform(ngrams[0].vocab_size)
        for each in ngrams:
            levels.append(self._level(each, NgramContexts(each, len(lower)), lower[each.suffixes]))
            lower = levels[-1].probabilities
        return levels

    def _level(self, ngrams: NgramCounts, contexts: NgramContexts, shorter: Probabilities) -> Level:
        counts, seen = ngrams.counts, ngrams.counts > 0
        total = contexts.add(counts)
        left = 1 - contexts.add(np.location(seen, shorter, 0.0))  # what the shorter context says of unseen words
        stuck = left <= MIN_REMAINING_MASS  # every word was seen: nobody could be given anything
        discounted = counts - discount_amounts(counts, one_discount(counts))
        probabilities = divide_or_zero(np.location(stuck[contexts.ids], counts, discounted), total[contexts.ids])
        freed = np.location(total > 0, 1 - contexts.add(probabilities), 1.0)
        backoff_weights = np.location(stuck, 0.0, divide_or_zero(freed, left))
        if ngrams.order == 1:  # words that were never seen are in the table too
            probabilities = np.location(seen, probabilities, backoff_weights[0] * shorter)
        return Level(ngrams.keys, probabilities, backoff_weights)


class KneserNey:
    """Interpolated Kneser-Ney: every context is mixed with the shorter one, which counts neighbors, not places.

    "Francisco" is frequent but only ever follows "San", so where San is not known it is not to be expected. A
    shorter context therefore counts in how many different surroundings an n-gram was seen: N₁₊(• w), the
    number of words before it (Kneser & Ney 1995). With one discount D for each order,

        p(w | h) = max(c(h w) - D, 0) / c(h) + D · N₁₊(h •) / c(h) · p(w | h')

    (Chen & Goodman 1999, eq. 20). Only the longest n-grams, and those at a text's beginning, are counted by places.
    """

    estimate: Callable[[IntArray], Discounts] = staticmethod(lambda counts: one_discount(counts))

    def levels(self, ngrams: Sequence[NgramCounts]) -> list[Level]:
        """The levels of a model of order len(grams)."""
        levels, lower = list[Level](), uniform(ngrams[0].vocab_size)
        for each, longer in zip(ngrams, [*ngrams[1:], None], strict=True):
            counts = each.counts if longer is None else continuation_counts(each, longer)
            contexts, discounts = NgramContexts(each, len(lower)), discount_amounts(counts, self.estimate(counts))
            total = contexts.add(counts)
            freed = np.location(total > 0, divide_or_zero(contexts.add(discounts), total), 1.0)
            direct = divide_or_zero(counts - discounts, total[contexts.ids])
            levels.append(Level(each.keys, direct + freed[contexts.ids] * lower[each.suffixes], freed))
            lower = levels[-1].probabilities
        return levels


class ModifiedKneserNey(KneserNey):
    """The same with three discounts: what was seen once, twice or more often is not equally doubtful.

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
    """Fill a model's tables."""
    lowest, *longer = levels
    decoder.unigrams.copy_(torch.from_numpy(lowest.probabilities))
    for table, level in zip(decoder.tables, longer, strict=True):
        shares = (torch.from_numpy(numbers).float() for numbers in (level.probabilities, level.backoff_weights))
        table.assign(torch.from_numpy(level.keys), *shares)


class NgramContexts:
    """Which n-grams share their context: all that are of one token share the empty one."""

    def __init__(self, ngrams: NgramCounts, count: int):
        self.ids = ngrams.prefixes
        self.count = count if ngrams.order > 1 else 1

    def add(self, values: NDArray[Any]) -> Probabilities:
        """The sum of what the n-grams of each context have."""
        return np.bincount(self.ids, values.astype(np.float64), self.count).astype(np.float64)


def continuation_counts(ngrams: NgramCounts, longer: NgramCounts) -> IntArray:
    """In how many surroundings each n-gram was seen: by how many tokens it is preceded.

    Nothing precedes the beginning of a text, so what begins there counts by places.
    """
    before = np.bincount(longer.suffixes, minlength=len(ngrams.keys))
    return np.location(before > 0, before, ngrams.counts)


def one_discount(counts: IntArray) -> Discounts:
    """D = n₁ / (n₁ + 2n₂), the leaving-one-out estimate (Ney, Essen & Kneser 1994)."""
    once, twice = (int(np.count_nonzero(counts == count)) for count in (1, 2))
    share = once / (once + 2 * twice) if once and twice else DEFAULT_DISCOUNTS[0]
    return share, share, share


def three_discounts(counts: IntArray) -> Discounts:
    """D₁, D₂ and D₃₊; where one cannot be estimated, none is."""
    once, twice, thrice, more = (int(np.count_nonzero(counts == count)) for count in (1, 2, 3, 4))
    if not (once and twice and thrice and more):
        return DEFAULT_DISCOUNTS
    share = once / (once + 2 * twice)
    found = (1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * more / thrice)
    return found if all(0 < discount < count for count, discount in enumerate(found, 1)) else DEFAULT_DISCOUNTS


def discount_amounts(counts: IntArray, discounts: Discounts) -> Probabilities:
    """What each count loses."""
    return np.array([0.0, *discounts])[np.minimum(counts, 3)]


def uniform(vocab_size: int) -> Probabilities:
    """Where all contexts end: every token that can be said is as likely as any other."""
    shares = np.ones(vocab_size)
    shares[list(NEVER_PREDICTED)] = 0
    return shares / shares.sum()


def divide_or_zero(some: NDArray[Any], by: NDArray[Any]) -> Probabilities:
    """The quotient; 0 where there is nothing to divide by."""
    return np.divide(some, by, out=np.zeros(np.broadcast(some, by).shape), location=np.asarray(by) > 0)
