"""Learning a unigram vocabulary: which pieces, and how likely each is (Kudo 2018, section 3.2).

A text is thought of as pieces drawn one after the other, each by its own chance. From too many
candidates, expectation-maximization finds the chances under which the words are most likely; then
the pieces that would be missed least are dropped, and so on until the vocabulary has its size. The
library can train this too, but its sums run over hash maps, so no two trainings agree; here they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

MAX_TOKEN_LENGTH = 10
MAX_WORD_LENGTH = 32  # longer words are cut for training: products of chances stay above 1e-300
MIN_PROBABILITY = 1e-9  # what a letter keeps, so that every word can always be spelt
SEED_FACTOR = 10  # pieces tried for each piece wanted
SHRINKING_FACTOR = 0.75  # of the pieces, in each round of dropping


def train_unigram(words: Mapping[str, int], alphabet: Sequence[str], vocab_size: int) -> list[tuple[str, float]]:
    """At most `vocab_size` pieces with the logarithm of their chance, the likeliest first.

    `words` gives how often each word was seen; every one of `alphabet` becomes a piece, other characters
    are left out.
    """
    texts = _split_words(words, frozenset(alphabet))
    tokens = [*alphabet, *_candidates(texts, SEED_FACTOR * vocab_size)]
    lattice = Lattice(list(texts), tokens)
    counts = np.array(list(texts.values()), dtype=np.float64)
    # What would replace a piece if it were dropped: the piece read as a text that may not use itself.
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
    scored = [(tokens[place], round(float(np.log(probabilities[place])), 4)) for place in np.flatnonzero(alive)]
    return sorted(scored, key=lambda entry: (-entry[1], entry[0]))


def _split_words(words: Mapping[str, int], alphabet: frozenset[str]) -> Counter[str]:
    """The words cut where a character is not among the letters, and cut again where they are too long."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in ("".join(run) for known, run in groupby(word, alphabet.__contains__) if known):
            for start in range(0, len(part), MAX_WORD_LENGTH):
                parts[part[start : start + MAX_WORD_LENGTH]] += count
    return parts


def _candidates(texts: Mapping[str, int], max_candidates: int) -> list[str]:
    """The substrings of two or more characters that cover most text, each seen at least twice."""
    found: Counter[str] = Counter()
    shorter: Counter[str] | None = None
    for size in range(2, MAX_TOKEN_LENGTH + 1):
        counts: Counter[str] = Counter()
        for text, count in texts.items():
            for start in range(len(text) - size + 1):
                # What is seen twice has a beginning that is seen twice: few substrings need counting.
                if shorter is None or text[start : start + size - 1] in shorter:
                    counts[text[start : start + size]] += count
        shorter = Counter({token: count for token, count in counts.items() if count > 1})
        found.update(shorter)
    return sorted(found, key=lambda token: (-found[token] * len(token), token))[:max_candidates]


class Lattice:
    """Every way of cutting each text into pieces: an edge from `start` to `end` for each piece that fits."""

    def __init__(self, texts: Sequence[str], tokens: Sequence[str], *, skip_whole: bool = False):
        numbers = {token: number for number, token in enumerate(tokens)}
        edges = [
            (row, start, end, numbers[text[start:end]])
            for row, text in enumerate(texts)
            for start in range(len(text))
            for end in range(start + 1, min(start + MAX_TOKEN_LENGTH, len(text)) + 1)
            if text[start:end] in numbers and not (skip_whole and end - start == len(text))
        ]
        self.edges = np.array(edges, dtype=np.int64).reshape(-1, 4)
        self.lengths = np.array([len(text) for text in texts], dtype=np.int64)
        self.max_length = int(self.lengths.max(initial=0))
        self.by_end = [self.edges[self.edges[:, 2] == end] for end in range(self.max_length + 1)]
        self.by_start = [self.edges[self.edges[:, 1] == start] for start in range(self.max_length + 1)]

    def forward(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """(text, place): the chance of everything before a place, summed over all ways to cut it."""
        forward = np.zeros((len(self.lengths), self.max_length + 1))
        forward[:, 0] = 1
        for end in range(1, self.max_length + 1):
            row, start, _, token = self.by_end[end].T
            weights = forward[row, start] * probabilities[token]
            forward[:, end] = np.bincount(row, weights, minlength=len(forward))
        return forward

    def backward(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """(text, place): the chance of everything behind a place, summed over all ways to cut it."""
        backward = np.zeros((len(self.lengths), self.max_length + 1))
        backward[np.arange(len(backward)), self.lengths] = 1
        for start in range(self.max_length - 1, -1, -1):
            row, _, end, token = self.by_start[start].T
            weights = probabilities[token] * backward[row, end]
            backward[:, start] += np.bincount(row, weights, minlength=len(backward))
        return backward

    def likelihoods(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The chance of each whole text."""
        return self.forward(probabilities)[np.arange(len(self.lengths)), self.lengths]

    def expected_counts(self, probabilities: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """How often each piece is used, on average over all ways to cut every text (the E step)."""
        row, start, end, token = self.edges.T
        likelihoods = self.likelihoods(probabilities)
        through = (
            self.forward(probabilities)[row, start] * probabilities[token] * self.backward(probabilities)[row, end]
        )
        used = counts[row] * through / likelihoods[row]
        return np.bincount(token, used, minlength=len(probabilities)).astype(np.float64)


def _maximize(
    expected: NDArray[np.float64], alive: NDArray[np.bool_], in_alphabet: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Chances in proportion to use (the M step); a letter never loses its last chance."""
    probabilities = np.where(alive, expected, 0.0) / max(expected.sum(), 1.0)
    return np.where(in_alphabet, np.maximum(probabilities, MIN_PROBABILITY), probabilities)


def _pruning_loss(without_itself: Lattice, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much less likely each use of a piece becomes when it must be spelt with the others."""
    replaced = without_itself.likelihoods(probabilities)
    usable = (probabilities > 0) & (replaced > 0)
    ratio = np.divide(probabilities, replaced, out=np.ones_like(probabilities), where=usable)
    return np.log(ratio)


def _prune(
    value: NDArray[np.float64], alive: NDArray[np.bool_], in_alphabet: NDArray[np.bool_], target_size: int
) -> NDArray[np.bool_]:
    """The letters, and of the other pieces those of most value; equals in the candidates' order."""
    # Rounded, so that the last bit of a logarithm, which differs between processors, decides nothing.
    ranked = np.where(in_alphabet, np.inf, np.where(alive, np.round(value, 6), -np.inf))
    kept = np.zeros_like(alive)
    kept[np.argsort(-ranked, kind="stable")[:target_size]] = True
    return kept & alive
