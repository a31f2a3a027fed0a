"""BPE-dropout of single words: random segmentations by skipping merges (Provilkov, Emelianenko & Voita 2020).

A model that always reads "unlikely" as `un likely` learns nothing about `like`. BPE with dropout skips each possible
merge with some probability, every time it searches for the next merge, so that a word is sometimes left in smaller
tokens. The `tokenizers` library implements this too, but with a random generator of its own, so runs would not be
reproducible; here the random numbers are a function of the seed and the word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, repeat

from seq2see.core.seeds import generator
from seq2see.sequences.tokenizer_files import BYTE_TOKENS

Segmentation = tuple[int, ...]
"""A word as token ids."""


class BPEMerges:
    """The merges of a BPE vocabulary: pairs of tokens that become one token, by rank."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[Sequence[str]]):
        self.vocabulary = vocabulary
        self.table = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(merges)
        }

    def initial_tokens(self, word: str) -> Segmentation:
        """The tokens before any merge: one for each character, or for each of its bytes if it has none."""
        spellings = (
            [character] if character in self.vocabulary else [BYTE_TOKENS[byte] for byte in character.encode()]
            for character in word
        )
        return tuple(self.vocabulary[token] for tokens in spellings for token in tokens)

    def candidates(self, tokens: Segmentation) -> list[tuple[int, int, int]]:
        """The possible merges as (rank, merged token, position), in the order of BPE."""
        neighbors = enumerate(pairwise(tokens))
        return sorted([(*self.table[pair], position) for position, pair in neighbors if pair in self.table])

    def segment(self, word: str) -> Segmentation:
        """The segmentation without dropout."""
        return self._merge(self.initial_tokens(word), 1, repeat(0))[0]

    def sample(self, word: str, count: int, dropout: float, seed: int) -> list[Segmentation]:
        """`count` independent random segmentations, as a function of the seed and the word alone."""
        tokens = self.initial_tokens(word)
        trials = generator(seed, f"cuts of {word}").geometric(1 - dropout, size=count * len(tokens))
        return self._merge(tokens, count, iter((trials - 1).tolist()))

    def _merge(self, initial: Segmentation, count: int, skips: Iterator[int]) -> list[Segmentation]:
        """Run BPE `count` times on the same initial tokens (algorithm 1 of the paper).

        For each merge of each segmentation, the next element of `skips` is the number of candidate merges to skip; if
        no candidate is left, the segmentation is finished. Segmentations with equal tokens so far are processed
        together, which saves most of the work: with little dropout they rarely diverge.
        """
        finished: list[Segmentation] = []
        active = {initial: count}
        while active:  # every round makes one merge, so all active segmentations have the same number of tokens
            merged_once: dict[Segmentation, int] = {}
            for tokens, copies in active.items():
                candidates = self.candidates(tokens)
                for skipped, number in Counter(islice(skips, copies)).items():
                    if skipped >= len(candidates):
                        finished += [tokens] * number
                    else:
                        _, merged, position = candidates[skipped]
                        after_merge = (*tokens[:position], merged, *tokens[position + 2 :])
                        merged_once[after_merge] = merged_once.get(after_merge, 0) + number
            active = merged_once
        return finished
