"""Counts of the n-grams of a text: each sequence of n tokens, its number of occurrences, and its parts.

Every n-gram has an index. Its key combines the index of its first n-1 tokens and its last token; sorting the keys of a
whole text finds equal n-grams, without a loop over tokens. N-grams that share their first n-1 tokens are then adjacent.
The index of a unigram is its token id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2see.data.tokenizers.tokenizer import BOS

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class NgramCounts:
    """The n-grams of one order in a text, by index."""

    order: int
    vocab_size: int
    """The size of the vocabulary."""
    keys: IntArray
    """(index of the first n-1 tokens) · vocab_size + last token; ascending."""
    counts: IntArray
    """The number of occurrences of each n-gram."""
    suffixes: IntArray
    """The index of each n-gram's last n-1 tokens among the n-grams of the order below; for unigrams their own."""

    @property
    def prefixes(self) -> IntArray:
        """The index of each n-gram's first n-1 tokens among the n-grams of the order below."""
        return self.keys // self.vocab_size


def count_ngrams(ids: NDArray[np.integer], vocab_size: int, order: int) -> Iterator[NgramCounts]:
    """The n-grams of a text, for n = 1 up to `order`; the text starts with an additional <bos>.

    This <bos> is only ever the first token of an n-gram: it is never predicted.

    >>> one, two = count_ngrams(np.array([4, 5, 4, 5]), 6, 2)
    >>> one.counts.tolist(), two.counts.tolist()
    ([0, 0, 0, 0, 2, 2], [1, 2, 1])
    >>> [divmod(int(key), 6) for key in two.keys]
    [(1, 4), (4, 5), (5, 4)]
    """
    text = np.concatenate([[BOS], ids]).astype(np.int64)
    indices = text  # the index of the n-gram that ends at each position
    counts = np.bincount(text[1:], minlength=vocab_size)
    yield NgramCounts(1, vocab_size, np.arange(vocab_size), counts, np.arange(vocab_size))
    for length in range(2, order + 1):
        keys = indices[:-1] * vocab_size + text[length - 1 :]
        unique, first, longer_indices, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        yield NgramCounts(length, vocab_size, unique, counts, indices[1:][first])
        indices = longer_indices
