"""BLEU written out to be read: the form in the course notes, and the standard one beside it.

Both start from the same n-gram precisions with clipped counts; they differ in how these are combined.
What is reported in results is `bleu.corpus_bleu`; the standard form here is its readable twin and is
tested equal to it. The notes' form is only for following the notes: its numbers are not comparable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from seq2see.metrics.checks import check_same_length

Tokens = Sequence[str]


def ngram_counts(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    """How often each run of `order` tokens occurs.

    >>> ngram_counts("a b a b".split(), 2)[("a", "b")]
    2
    """
    starts = range(len(tokens) - order + 1)
    return Counter(tuple(tokens[start : start + order]) for start in starts)


def clipped_matches(prediction: Tokens, label: Tokens, order: int) -> tuple[int, int]:
    """N-grams of the prediction that the label has too, and all n-grams of the prediction.

    Counts are clipped (Papineni et al. 2002, section 2.1): an n-gram that the label has once matches
    once, however often it is predicted. The notes' formula for P_n leaves this out; without it
    "the the the" would have a perfect precision against "the cat".

    >>> matches("the the the".split(), "the cat".split(), 1)
    (1, 3)
    """
    predicted, wanted = ngram_counts(prediction, order), ngram_counts(label, order)
    return (predicted & wanted).total(), predicted.total()  # & keeps the smaller count: that is the clipping


def brevity_penalty(label_length: int, prediction_length: int) -> float:
    """The notes' penalty for short predictions: exp(min(0, 1 - len_label / len_pred)).

    The same as the piecewise form: 1 if the prediction is longer, else exp(1 - r / c).
    """
    return math.exp(min(0.0, 1.0 - label_length / prediction_length)) if prediction_length else 0.0


def d2l_bleu(prediction: Tokens, label: Tokens, orders: int = 2) -> float:
    """The BLEU of d2l of one sentence, between 0 and 1: brevity · Π_{n=1..k} p_n^(1/2ⁿ).

    Differs from the standard: one sentence instead of a corpus, and weights 1/2, 1/4, ... that give
    longer n-grams less say and do not sum to 1. A prediction of two words has no 3-grams (0 / 0), so
    the product stops at its length.

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

    BP · exp(Σ_n log p_n / 4): matches and lengths are summed over the whole corpus first, then the
    four precisions are averaged geometrically. No smoothing: one order without a match makes it 0.
    """
    check_same_length(predictions, labels)
    logarithms = 0.0
    for order in range(1, orders + 1):
        counts = [clipped_matches(*pair, order) for pair in zip(predictions, labels, strict=True)]
        matched, predicted = (sum(column) for column in zip(*counts, strict=True))
        if matched == 0:
            return 0.0
        logarithms += math.log(matched / predicted) / orders
    brevity = brevity_penalty(sum(map(len, labels)), sum(map(len, predictions)))
    return brevity * math.exp(logarithms)
