"""Smoothing: by hand, against a slow and obvious implementation, and always a proper distribution."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2see.data.ngrams import count_ngrams
from seq2see.data.tokenizers.tokenizer import BOS
from seq2see.training.ngram_smoothing import (
    DEFAULT_DISCOUNTS,
    NEVER_PREDICTED,
    SMOOTHINGS,
    Level,
    one_discount,
    three_discounts,
)

VOCABULARY = 7
PREDICTED = [token for token in range(VOCABULARY) if token not in NEVER_PREDICTED]
TEXTS = st.lists(st.integers(2, VOCABULARY - 1), min_size=2, max_size=80)


def levels_of(ids: list[int], order: int, smoothing: str, vocab_size: int = VOCABULARY) -> list[Level]:
    return SMOOTHINGS[smoothing]().levels(list(count_ngrams(np.array(ids), vocab_size, order)))


def probability(levels: list[Level], context: tuple[int, ...], token: int, vocab_size: int = VOCABULARY) -> float:
    """p(token | context) by eq. 1, by plain recursion over the tables."""
    if not context:
        return float(levels[0].probabilities[token])
    number = context[0]  # the number of a unigram is its token
    for length, next_token in enumerate(context[1:], 1):
        number = index_of(levels[length], number * vocab_size + next_token)
        if number is None:
            return probability(levels, context[1:], token, vocab_size)
    level = levels[len(context)]
    index = index_of(level, number * vocab_size + token)
    if index is not None:
        return float(level.probabilities[index])
    return float(level.backoff_weights[number]) * probability(levels, context[1:], token, vocab_size)


def index_of(level: Level, key: int) -> int | None:
    indices = np.flatnonzero(level.keys == key)
    return int(indices[0]) if len(indices) else None


class Slow:
    """The models as dictionaries of tuples, straight from the papers' formulas."""

    def __init__(self, ids: list[int], order: int, smoothing: str):
        self.smoothing, self.order = smoothing, order
        text = (BOS, *ids)
        raw = [Counter(text[at : at + n] for at in range(len(text) - n + 1)) for n in range(order + 2)]
        raw[1].pop((BOS,))
        self.counts: list[Counter[tuple[int, ...]]] = [Counter()]
        for n in range(1, order + 1):
            counts = Counter(raw[n])
            if n < order and smoothing != "back-off":
                preceding = defaultdict(set)
                for ngram in raw[n + 1]:
                    preceding[ngram[1:]].add(ngram[0])
                counts = Counter({each: len(preceding[each]) if each[0] != BOS else counts[each] for each in counts})
            self.counts.append(counts)
        self.discounts = [self.estimate(counts) for counts in self.counts]

    def estimate(self, counts: Counter[tuple[int, ...]]) -> tuple[float, ...]:
        n1, n2, n3, n4 = (sum(value == k for value in counts.values()) for k in (1, 2, 3, 4))
        if self.smoothing == "modified-kneser-ney":
            if not n1 * n2 * n3 * n4:
                return DEFAULT_DISCOUNTS
            y = n1 / (n1 + 2 * n2)
            discounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
            return discounts if all(0 < d < k for k, d in enumerate(discounts, 1)) else DEFAULT_DISCOUNTS
        return (n1 / (n1 + 2 * n2) if n1 * n2 else 0.5,) * 3

    def probability(self, context: tuple[int, ...], token: int) -> float:
        n = len(context) + 1
        counts = {ngram[-1]: count for ngram, count in self.counts[n].items() if ngram[:-1] == context}
        total = sum(counts.values())
        if not total:
            return self.shorter(context, token)
        discounts = {word: self.discounts[n][min(count, 3) - 1] for word, count in counts.items()}
        if self.smoothing != "back-off":
            direct = (counts[token] - discounts[token]) / total if token in counts else 0.0
            return direct + sum(discounts.values()) / total * self.shorter(context, token)
        unseen_mass = sum(self.shorter(context, word) for word in PREDICTED if word not in counts)
        if unseen_mass <= 1e-9:
            return counts.get(token, 0) / total
        if token in counts:
            return (counts[token] - discounts[token]) / total
        return sum(discounts.values()) / total * self.shorter(context, token) / unseen_mass

    def shorter(self, context: tuple[int, ...], token: int) -> float:
        return self.probability(context[1:], token) if context else 1 / len(PREDICTED)


ALL = pytest.mark.parametrize("smoothing", SMOOTHINGS)


@ALL
@given(ids=TEXTS, order=st.integers(1, 4))
def test_it_agrees_with_the_slow_one_and_adds_up_to_one_after_every_context(smoothing, ids, order):
    levels, slow = levels_of(ids, order, smoothing), Slow(ids, order, smoothing)
    text = (BOS, *ids)
    seen = {text[at : at + length] for length in range(order) for at in range(len(text) - length + 1)}
    unseen = set(product(PREDICTED[:3], repeat=order - 1))
    for context in seen | unseen:
        found = [probability(levels, context, token) for token in range(VOCABULARY)]
        assert sum(found) == pytest.approx(1, abs=1e-9)
        assert [found[token] for token in NEVER_PREDICTED] == [0, 0]
        assert found == pytest.approx(
            [slow.probability(context, token) if token in PREDICTED else 0 for token in range(VOCABULARY)], abs=1e-9
        )


def test_interpolated_kneser_ney_by_hand():
    """The text a b a c a b, tokens 4, 5, 6; 2 and 3 do not occur, but can be predicted.

    Pairs: (<bos> a) 1, (a b) 2, (b a) 1, (a c) 1, (c a) 1. Four occur once and one twice, so D = 4 / (4 + 2) = 2/3.
    Single tokens count their different neighbors: a has <bos>, b, c: 3; b has a: 1; c has a: 1; together 5.
    Two have one neighbor and none has two, so D cannot be estimated there and is 1/2; of 5 it subtracts 3 · 1/2.
    """
    levels = levels_of([4, 5, 4, 6, 4, 5], 2, "kneser-ney")
    mixed = (3 * 0.5 / 5) / 5  # the discounted mass, distributed evenly over five tokens
    a, b, c, nothing = 2.5 / 5 + mixed, 0.5 / 5 + mixed, 0.5 / 5 + mixed, mixed
    assert levels[0].probabilities.tolist() == pytest.approx([0, 0, nothing, nothing, a, b, c])
    freed = 2 * (2 / 3) / 3  # after a, two tokens were seen, three times together
    assert probability(levels, (4,), 5) == pytest.approx((2 - 2 / 3) / 3 + freed * b)
    assert probability(levels, (4,), 6) == pytest.approx((1 - 2 / 3) / 3 + freed * c)
    assert probability(levels, (4,), 4) == pytest.approx(freed * a)
    assert probability(levels, (5,), 4) == pytest.approx(1 / 3 + 2 / 3 * a)


def test_back_off_by_hand():
    """The same text; D of the pairs is 2/3. Single tokens: a 3, b 2, c 1; one occurs once, one twice: D = 1/3."""
    levels = levels_of([4, 5, 4, 6, 4, 5], 2, "back-off")
    unseen = 3 * (1 / 3) / 6 / 2  # freed, for the two tokens that do not occur
    assert levels[0].probabilities.tolist() == pytest.approx(
        [0, 0, unseen, unseen, (8 / 3) / 6, (5 / 3) / 6, (2 / 3) / 6]
    )
    assert probability(levels, (4,), 5) == pytest.approx((2 - 2 / 3) / 3)
    weight = (4 / 9) / (1 - (5 / 3) / 6 - (2 / 3) / 6)
    assert probability(levels, (4,), 4) == pytest.approx(weight * (8 / 3) / 6)


def test_francisco_is_not_expected_after_an_unknown_context():
    """Token 5 is as frequent as 6, but only follows 4: a shorter context expects 6 more often."""
    ids = [4, 5, 3, 6, 4, 5, 2, 6, 4, 5, 6, 6, 4, 5, 3]
    levels = levels_of(ids, 2, "kneser-ney")
    assert ids.count(5) == ids.count(6) == 4
    assert levels[0].probabilities[6] > 1.5 * levels[0].probabilities[5]
    plain = levels_of(ids, 2, "back-off")
    assert plain[0].probabilities[6] == pytest.approx(plain[0].probabilities[5])


def test_three_discounts_by_the_papers_formula():
    counts = np.array([1] * 10 + [2] * 4 + [3] * 2 + [4] * 1 + [9])
    ratio = 10 / 18
    assert one_discount(counts) == pytest.approx((ratio,) * 3)
    assert three_discounts(counts) == pytest.approx((1 - 2 * ratio * 0.4, 2 - 3 * ratio * 0.5, 3 - 4 * ratio * 0.5))


@pytest.mark.parametrize("counts", [[1, 1, 1], [2, 2], [1, 1, 1, 2, 3, 3, 3, 4], []], ids=str)
def test_discounts_that_cannot_be_estimated_are_the_defaults(counts):
    assert three_discounts(np.array(counts, dtype=np.int64)) == DEFAULT_DISCOUNTS


def test_a_context_after_which_everything_was_seen_is_not_discounted():
    ids = [2, 2, 3, 3, 2, 4, 4, 3, 4, 2]
    levels = levels_of(ids, 2, "back-off", vocab_size=5)
    found = [probability(levels, (2,), token, 5) for token in range(5)]
    assert found == pytest.approx([0, 0, 1 / 3, 1 / 3, 1 / 3])
    assert math.fsum(found) == pytest.approx(1)
