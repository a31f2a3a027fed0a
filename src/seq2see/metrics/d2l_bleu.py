"""Readable implementations of BLEU: the variant of d2l (Dive into Deep Learning), and the standard form.

Both use n-gram precisions with clipped counts and combine them differently. Results report `bleu.corpus_bleu`; a test
checks that the standard form here is equal to it. The variant of d2l is for readers of the book: its values cannot be
compared with published scores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from seq2see.metrics.accuracy import check_same_length

Tokens = Sequence[str]


def ngram_counts(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    """How often each n-gram of `order` tokens occurs.

    >>> ngram_counts("a b a b".split(), 2)[("a", "b")]
    2
    """
    starts = range(len(tokens) - order + 1)
    return Counter(tuple(tokens[start : start + order]) for start in starts)


def clipped_matches(prediction: Tokens, label: Tokens, order: int) -> tuple[int, int]:
    """The number of n-grams of the prediction that are in the label, and the number of all n-grams of the prediction.

    Counts are clipped (Papineni et al. 2002, section 2.1): an n-gram that occurs once in the label matches at most
    once. The formula of d2l for p_n does not mention this; without it "the the the" would have a perfect precision
    against "the cat".

    >>> clipped_matches("the the the".split(), "the cat".split(), 1)
    (1, 3)
    """
    predicted, expected = ngram_counts(prediction, order), ngram_counts(label, order)
    return (predicted & expected).total(), predicted.total()  # & is the minimum of the counts: the clipping


def brevity_penalty(label_length: int, prediction_length: int) -> float:
    """The brevity penalty as d2l writes it: exp(min(0, 1 - len_label / len_pred)).

    It equals the piecewise form: 1 if the prediction is longer, else exp(1 - r / c).
    """
    return math.exp(min(0.0, 1.0 - label_length / prediction_length)) if prediction_length else 0.0


def d2l_bleu(prediction: Tokens, label: Tokens, orders: int = 2) -> float:
    """BLEU of one sentence as in d2l, between 0 and 1: brevity · Π_{n=1..k} p_n^(1/2ⁿ).

    It differs from the standard: one sentence instead of a corpus, and exponents 1/2, 1/4, ... that are smaller for
    longer n-grams and do not sum to 1. A prediction of two words has no 3-grams (0 / 0), so the product stops at its
    length.

    >>> d2l_bleu("a b c".split(), "a b c".split())
    1.0
    """
    score = brevity_penalty(len(label), len(prediction))
    for order in range(1, min(orders, len(prediction)) + 1):
        matched, predicted = clipped_matches(prediction, label, order)
        score *= (matched / predicted) ** (1 / 2**order)
    return score


def standard_bleu(predictions: Sequence[Tokens], labels: Sequence[Tokens], orders: int = 4) -> float:
    """The standard BLEU of a corpus of tokens, between 0 and 1 (Papineni et al. 2002, section 2.3).

    BP · exp(Σ_n log p_n / 4): matches and lengths are summed over the whole corpus; then the geometric mean of the four
    precisions is computed. There is no smoothing: an order without matches makes the result 0.
    """
    check_same_length(predictions, labels)
    log_precision = 0.0
    for order in range(1, orders + 1):
        counts = [clipped_matches(*pair, order) for pair in zip(predictions, labels, strict=True)]
        matched, predicted = (sum(column) for column in zip(*counts, strict=True))
        if matched == 0:
            return 0.0
        log_precision += math.log(matched / predicted) / orders
    brevity = brevity_penalty(sum(map(len, labels)), sum(map(len, predictions)))
    return brevity * math.exp(log_precision)
