"""n-grams counted by sorting are those counted one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seq2see.data.ngrams import NgramCounts, count_ngrams
from seq2see.data.tokenizers.tokenizer import BOS

VOCABULARY = 7
TEXTS = st.lists(st.integers(2, VOCABULARY - 1), min_size=1, max_size=60)


def as_tuples(orders: list[NgramCounts]) -> list[list[tuple[int, ...]]]:
    """The n-grams of each order as tuples of tokens, by their numbers."""
    tuples = [[(token,) for token in range(VOCABULARY)]]
    for each in orders[1:]:
        below = tuples[-1]
        tuples.append([(*below[key // VOCABULARY], int(key % VOCABULARY)) for key in each.keys.tolist()])
    return tuples


@given(TEXTS, st.integers(1, 5))
def test_every_ngram_has_its_count(ids, order):
    orders = list(count_ngrams(np.array(ids), VOCABULARY, order))
    assert [each.order for each in orders] == list(range(1, order + 1))
    text = (BOS, *ids)
    for each, ngrams in zip(orders, as_tuples(orders), strict=True):
        starts = range(1 if each.order == 1 else 0, len(text) - each.order + 1)
        expected = Counter(text[start : start + each.order] for start in starts)
        assert {ngram: count for ngram, count in zip(ngrams, each.counts.tolist(), strict=True) if count} == expected


@given(TEXTS)
def test_prefixes_and_suffixes_are_the_ngrams_they_should_be(ids):
    orders = list(count_ngrams(np.array(ids), VOCABULARY, 4))
    tuples = as_tuples(orders)
    for each, ngrams, below in zip(orders[1:], tuples[1:], tuples, strict=False):
        assert [below[number] for number in each.prefixes] == [ngram[:-1] for ngram in ngrams]
        assert [below[number] for number in each.suffixes] == [ngram[1:] for ngram in ngrams]
        assert (np.diff(each.keys) > 0).all()


def test_a_text_of_one_token_has_no_long_ngrams():
    orders = list(count_ngrams(np.array([5]), VOCABULARY, 4))
    assert [len(each.keys) for each in orders] == [VOCABULARY, 1, 0, 0]
