"""n-grams of a text, counted: every run of n tokens, how often it stands there, and what it is made of.

An n-gram is a number. It is known by two others: the number of its first n-1 tokens and its last token, which together
make one key; sorting the keys of a whole text finds equal ones, so nothing is done token by token. The n-grams that
share their first n-1 tokens then stand side by side. Tokens are their own numbers, so an n-gram of one token is known
by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.sequences.tokenizers import BOS

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class NgramCounts:
    """The n-grams of one order that a text has, by number."""

    order: int
    vocab_size: int
    """How many kinds of tokens there are."""
    keys: IntArray
    """(number of the first n-1 tokens) · vocabulary + last token; ascending."""
    counts: IntArray
    """How often each stands in the text."""
    suffixes: IntArray
    """The number of each n-gram's last n-1 tokens, among those of the order below; a single token's is its own."""

    @property
    def prefixes(self) -> IntArray:
        """The number of each n-gram's first n-1 tokens, among the n-grams of the order below."""
        return self.keys // self.vocab_size


def count_ngrams(ids: NDArray[np.integer], vocab_size: int, order: int) -> Iterator[NgramCounts]:
    """The n-grams of a text, for n = 1 up to `order`; its beginning counts as a token before the first.

    That token, <bos>, is only ever the first of an n-gram: nobody has to guess it.

    >>> one, two = count_ngrams(np.array([4, 5, 4, 5]), 6, 2)
    >>> one.counts.tolist(), two.counts.tolist()
    ([0, 0, 0, 0, 2, 2], [1, 2, 1])
    >>> [divmod(int(key), 6) for key in two.keys]
    [(1, 4), (4, 5), (5, 4)]
    """
    text = np.concatenate([[BOS], ids]).astype(np.int64)
    numbers = text  # of the n-gram that ends at each place
    counts = np.bincount(text[1:], minlength=vocab_size)
    yield NgramCounts(1, vocab_size, np.arange(vocab_size), counts, np.arange(vocab_size))
    for length in range(2, order + 1):
        keys = numbers[:-1] * vocab_size + text[length - 1 :]
        unique, first, longer, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        yield NgramCounts(length, vocab_size, unique, counts, numbers[1:][first])
        numbers = longer
