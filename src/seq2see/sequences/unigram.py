"""Learning a unigram vocabulary: which pieces, and how likely each is (Kudo 2018, section 3.2).

A text is thought of as pieces drawn one after the other, each by its own chance. From too many
candidates, expectation-maximisation finds the chances under which the words are most likely; then
the pieces that would be missed least are dropped, and so on until the vocabulary has its size. The
library can train this too, but its sums run over hash maps, so no two trainings agree; here they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

LONGEST_PIECE = 10
LONGEST_TEXT = 32  # longer words are cut for training: products of chances stay above 1e-300
LEAST_CHANCE = 1e-9  # what a letter keeps, so that every word can always be spelt
CANDIDATES = 10  # pieces tried for each piece wanted
KEPT = 0.75  # of the pieces, in each round of dropping


def learn_unigram(words: Mapping[str, int], letters: Sequence[str], room: int) -> list[tuple[str, float]]:
    """At most `room` pieces with the logarithm of their chance, the likeliest first.

    `words` gives how often each word was seen; every one of `letters` becomes a piece, other characters
    are left out.
    """
    texts = _known_parts(words, frozenset(letters))
    pieces = [*letters, *_candidates(texts, CANDIDATES * room)]
    lattice = Lattice(list(texts), pieces)
    counts = np.array(list(texts.values()), dtype=np.float64)
    # What would replace a piece if it were dropped: the piece read as a text that may not use itself.
    without_itself = Lattice(pieces, pieces, skip_whole=True)
    is_letter = np.arange(len(pieces)) < len(letters)
    alive = np.ones(len(pieces), dtype=bool)
    chances = np.full(len(pieces), 1 / len(pieces))
    while True:
        for _ in range(2):
            expected = lattice.expected(chances, counts)
            chances = _maximise(expected, alive, is_letter)
        if alive.sum() <= room:
            break
        wanted = max(room, int(KEPT * alive.sum()))
        alive = _keep(expected * _regret(without_itself, chances), alive, is_letter, wanted)
        chances = np.where(alive, chances, 0.0)
    alive &= is_letter | (expected >= 0.5)
    scored = [(pieces[place], round(float(np.log(chances[place])), 4)) for place in np.flatnonzero(alive)]
    return sorted(scored, key=lambda entry: (-entry[1], entry[0]))


def _known_parts(words: Mapping[str, int], letters: frozenset[str]) -> Counter[str]:
    """The words cut where a character is not among the letters, and cut again where they are too long."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in ("".join(run) for known, run in groupby(word, letters.__contains__) if known):
            for start in range(0, len(part), LONGEST_TEXT):
                parts[part[start : start + LONGEST_TEXT]] += count
    return parts


def _candidates(texts: Mapping[str, int], most: int) -> list[str]:
    """The substrings of two or more characters that cover most text, each seen at least twice."""
    found: Counter[str] = Counter()
    shorter: Counter[str] | None = None
    for size in range(2, LONGEST_PIECE + 1):
        counts: Counter[str] = Counter()
        for text, count in texts.items():
            for start in range(len(text) - size + 1):
                # What is seen twice has a beginning that is seen twice: few substrings need counting.
                if shorter is None or text[start : start + size - 1] in shorter:
                    counts[text[start : start + size]] += count
        shorter = Counter({piece: count for piece, count in counts.items() if count > 1})
        found.update(shorter)
    return sorted(found, key=lambda piece: (-found[piece] * len(piece), piece))[:most]


class Lattice:
    """Every way of cutting each text into pieces: an edge from `start` to `end` for each piece that fits."""

    def __init__(self, texts: Sequence[str], pieces: Sequence[str], *, skip_whole: bool = False):
        numbers = {piece: number for number, piece in enumerate(pieces)}
        edges = [
            (row, start, end, numbers[text[start:end]])
            for row, text in enumerate(texts)
            for start in range(len(text))
            for end in range(start + 1, min(start + LONGEST_PIECE, len(text)) + 1)
            if text[start:end] in numbers and not (skip_whole and end - start == len(text))
        ]
        self.edges = np.array(edges, dtype=np.int64).reshape(-1, 4)
        self.lengths = np.array([len(text) for text in texts], dtype=np.int64)
        self.longest = int(self.lengths.max(initial=0))
        self.by_end = [self.edges[self.edges[:, 2] == end] for end in range(self.longest + 1)]
        self.by_start = [self.edges[self.edges[:, 1] == start] for start in range(self.longest + 1)]

    def reached(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """(text, place): the chance of everything before a place, summed over all ways to cut it."""
        reached = np.zeros((len(self.lengths), self.longest + 1))
        reached[:, 0] = 1
        for end in range(1, self.longest + 1):
            row, start, _, piece = self.by_end[end].T
            weights = reached[row, start] * chances[piece]
            reached[:, end] = np.bincount(row, weights, minlength=len(reached))
        return reached

    def remaining(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """(text, place): the chance of everything behind a place, summed over all ways to cut it."""
        remaining = np.zeros((len(self.lengths), self.longest + 1))
        remaining[np.arange(len(remaining)), self.lengths] = 1
        for start in range(self.longest - 1, -1, -1):
            row, _, end, piece = self.by_start[start].T
            weights = chances[piece] * remaining[row, end]
            remaining[:, start] += np.bincount(row, weights, minlength=len(remaining))
        return remaining

    def whole(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """The chance of each whole text."""
        return self.reached(chances)[np.arange(len(self.lengths)), self.lengths]

    def expected(self, chances: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """How often each piece is used, on average over all ways to cut every text (the E step)."""
        row, start, end, piece = self.edges.T
        whole = self.whole(chances)
        through = self.reached(chances)[row, start] * chances[piece] * self.remaining(chances)[row, end]
        used = counts[row] * through / whole[row]
        return np.bincount(piece, used, minlength=len(chances)).astype(np.float64)


def _maximise(
    expected: NDArray[np.float64], alive: NDArray[np.bool_], is_letter: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Chances in proportion to use (the M step); a letter never loses its last chance."""
    chances = np.where(alive, expected, 0.0) / max(expected.sum(), 1.0)
    return np.where(is_letter, np.maximum(chances, LEAST_CHANCE), chances)


def _regret(without_itself: Lattice, chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much less likely each use of a piece becomes when it must be spelt with the others."""
    replaced = without_itself.whole(chances)
    usable = (chances > 0) & (replaced > 0)
    ratio = np.divide(chances, replaced, out=np.ones_like(chances), where=usable)
    return np.log(ratio)


def _keep(
    value: NDArray[np.float64], alive: NDArray[np.bool_], is_letter: NDArray[np.bool_], wanted: int
) -> NDArray[np.bool_]:
    """The letters, and of the other pieces those of most value; equals in the candidates' order."""
    # Rounded, so that the last bit of a logarithm, which differs between processors, decides nothing.
    ranked = np.where(is_letter, np.inf, np.where(alive, np.round(value, 6), -np.inf))
    kept = np.zeros_like(alive)
    kept[np.argsort(-ranked, kind="stable")[:wanted]] = True
    return kept & alive
