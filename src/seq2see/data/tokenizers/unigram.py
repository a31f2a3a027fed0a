"""Training of a unigram vocabulary: the tokens and their probabilities (Kudo 2018, section 3.2).

A unigram model generates a text as a sequence of independent tokens. Starting with too many candidates, expectation-
maximization finds the probabilities with the highest likelihood of the words; then the tokens with the smallest loss of
likelihood are pruned, and so on until the vocabulary has its size. The library can train this too, but it sums over
hash maps in random order, so trainings are not reproducible; here they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

MAX_TOKEN_LENGTH = 10
MAX_WORD_LENGTH = 32  # longer words are split for training, so that products of probabilities stay above 1e-300
MIN_PROBABILITY = 1e-9  # of a character, so that every word can always be segmented
SEED_FACTOR = 10  # candidates per token of the final vocabulary
SHRINKING_FACTOR = 0.75  # the share of tokens that remain after a round of pruning


def train_unigram(words: Mapping[str, int], alphabet: Sequence[str], vocab_size: int) -> list[tuple[str, float]]:
    """At most `vocab_size` tokens with their log-probabilities, the most probable first.

    `words` has the count of each word; every character of `alphabet` becomes a token, and other characters are left
    out.
    """
    texts = _split_words(words, frozenset(alphabet))
    tokens = [*alphabet, *_candidates(texts, SEED_FACTOR * vocab_size)]
    lattice = Lattice(list(texts), tokens)
    counts = np.array(list(texts.values()), dtype=np.float64)
    # The best alternative to each token: segmentations of the token's text without the token itself.
    without_itself = Lattice(tokens, tokens, skip_whole=True)
    in_alphabet = np.arange(len(tokens)) < len(alphabet)
    alive = np.ones(len(tokens), dtype=bool)
    probabilities = np.full(len(tokens), 1 / len(tokens))
    while True:
        for _ in range(2):
            expected = lattice.expected_counts(probabilities, counts)
            probabilities = _maximize(expected, alive, in_alphabet)
        if alive.sum() <= vocab_size:
            break
        target_size = max(vocab_size, int(SHRINKING_FACTOR * alive.sum()))
        alive = _prune(expected * _pruning_loss(without_itself, probabilities), alive, in_alphabet, target_size)
        probabilities = np.where(alive, probabilities, 0.0)
    alive &= in_alphabet | (expected >= 0.5)
    scored = [
        (tokens[token_id], round(float(np.log(probabilities[token_id])), 4)) for token_id in np.flatnonzero(alive)
    ]
    return sorted(scored, key=lambda entry: (-entry[1], entry[0]))


def _split_words(words: Mapping[str, int], alphabet: frozenset[str]) -> Counter[str]:
    """The words, split at characters outside the alphabet and at the maximum length."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in ("".join(run) for in_alphabet, run in groupby(word, alphabet.__contains__) if in_alphabet):
            for start in range(0, len(part), MAX_WORD_LENGTH):
                parts[part[start : start + MAX_WORD_LENGTH]] += count
    return parts


def _candidates(texts: Mapping[str, int], max_candidates: int) -> list[str]:
    """The substrings of two or more characters that cover the most text, among those that occur at least twice."""
    coverage: Counter[str] = Counter()
    frequent: Counter[str] | None = None
    for size in range(2, MAX_TOKEN_LENGTH + 1):
        counts: Counter[str] = Counter()
        for text, count in texts.items():
            for start in range(len(text) - size + 1):
                # A substring that occurs twice has a prefix that occurs twice, so few substrings are counted.
                if frequent is None or text[start : start + size - 1] in frequent:
                    counts[text[start : start + size]] += count
        frequent = Counter({token: count for token, count in counts.items() if count > 1})
        coverage.update(frequent)
    return sorted(coverage, key=lambda token: (-coverage[token] * len(token), token))[:max_candidates]


class Lattice:
    """All segmentations of each text: an edge from `start` to `end` for each token that matches there."""

    def __init__(self, texts: Sequence[str], tokens: Sequence[str], *, skip_whole: bool = False):
        token_ids = {token: number for number, token in enumerate(tokens)}
        edges = [
            (row, start, end, token_ids[text[start:end]])
            for row, text in enumerate(texts)
            for start in range(len(text))
            for end in range(start + 1, min(start + MAX_TOKEN_LENGTH, len(text)) + 1)
            if text[start:end] in token_ids and not (skip_whole and end - start == len(text))
        ]
        self.edges = np.array(edges, dtype=np.int64).reshape(-1, 4)
        self.lengths = np.array([len(text) for text in texts], dtype=np.int64)
        self.max_length = int(self.lengths.max(initial=0))
        self.by_end = [self.edges[self.edges[:, 2] == end] for end in range(self.max_length + 1)]
        self.by_start = [self.edges[self.edges[:, 1] == start] for start in range(self.max_length + 1)]

    def forward(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """(text, position): the probability of the text before a position, summed over all segmentations."""
        forward = np.zeros((len(self.lengths), self.max_length + 1))
        forward[:, 0] = 1
        for end in range(1, self.max_length + 1):
            row, start, _, token = self.by_end[end].T
            weights = forward[row, start] * probabilities[token]
            forward[:, end] = np.bincount(row, weights, minlength=len(forward))
        return forward

    def backward(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """(text, position): the probability of the text after a position, summed over all segmentations."""
        backward = np.zeros((len(self.lengths), self.max_length + 1))
        backward[np.arange(len(backward)), self.lengths] = 1
        for start in range(self.max_length - 1, -1, -1):
            row, _, end, token = self.by_start[start].T
            weights = probabilities[token] * backward[row, end]
            backward[:, start] += np.bincount(row, weights, minlength=len(backward))
        return backward

    def likelihoods(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of each text."""
        return self.forward(probabilities)[np.arange(len(self.lengths)), self.lengths]

    def expected_counts(self, probabilities: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The expected number of uses of each token, over all segmentations of all texts (the E step)."""
        row, start, end, token = self.edges.T
        likelihoods = self.likelihoods(probabilities)
        joint = self.forward(probabilities)[row, start] * probabilities[token] * self.backward(probabilities)[row, end]
        uses = counts[row] * joint / likelihoods[row]
        return np.bincount(token, uses, minlength=len(probabilities)).astype(np.float64)


def _maximize(
    expected: NDArray[np.float64], alive: NDArray[np.bool_], in_alphabet: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Probabilities in proportion to expected counts (the M step); a character keeps a minimum probability."""
    probabilities = np.where(alive, expected, 0.0) / max(expected.sum(), 1.0)
    return np.where(in_alphabet, np.maximum(probabilities, MIN_PROBABILITY), probabilities)


def _pruning_loss(without_itself: Lattice, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """The loss of log-likelihood for each use of a token if it must be segmented into other tokens."""
    replaced = without_itself.likelihoods(probabilities)
    usable = (probabilities > 0) & (replaced > 0)
    ratio = np.divide(probabilities, replaced, out=np.ones_like(probabilities), where=usable)
    return np.log(ratio)


def _prune(
    value: NDArray[np.float64], alive: NDArray[np.bool_], in_alphabet: NDArray[np.bool_], target_size: int
) -> NDArray[np.bool_]:
    """The alphabet, and the other tokens of highest value; ties are broken by the order of the candidates."""
    # Rounded, because the last bits of logarithms differ between processors.
    ranked = np.where(in_alphabet, np.inf, np.where(alive, np.round(value, 6), -np.inf))
    kept = np.zeros_like(alive)
    kept[np.argsort(-ranked, kind="stable")[:target_size]] = True
    return kept & alive
