"""BPE-dropout: one word cut in many ways, by merging with gaps (Provilkov, Emelianenko & Voita 2020).

A model that always sees "unlikely" as `un likely` learns nothing of `like`. Byte-pair merging with dropout
passes over each possible merge by chance, every time it looks for the next one, so that a word is now and
then left in smaller pieces. The `tokenizers` library can do this too, but draws from a source of chance of its
own, so no two runs would agree; here it is drawn from the seed and the word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, repeat

from seq2see.core.seeds import generator
from seq2see.sequences.tokenizer_files import BYTE_TOKENS

Segmentation = tuple[int, ...]
"""A word as the numbers of its pieces."""


class BPEMerges:
    """The merges of a byte-pair vocabulary: which two pieces become one, and which come first."""

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[Sequence[str]]):
        self.vocabulary = vocabulary
        self.table = {
            (vocabulary[left], vocabulary[right]): (rank, vocabulary[left + right])
            for rank, (left, right) in enumerate(merges)
        }

    def initial_tokens(self, word: str) -> Segmentation:
        """Where merging begins: a piece for each character, or for each of its bytes if it has none."""
        spelt = (
            [letter] if letter in self.vocabulary else [BYTE_TOKENS[byte] for byte in letter.encode()]
            for letter in word
        )
        return tuple(self.vocabulary[token] for tokens in spelt for token in tokens)

    def candidates(self, tokens: Segmentation) -> list[tuple[int, int, int]]:
        """The merges that can be made now as (rank, merged piece, place), in the order BPE prefers them."""
        neighbors = enumerate(pairwise(tokens))
        return sorted([(*self.table[pair], place) for place, pair in neighbors if pair in self.table])

    def segment(self, word: str) -> Segmentation:
        """The cut without dropout: nothing is ever passed over."""
        return self._merge(self.initial_tokens(word), 1, repeat(0))[0]

    def sample(self, word: str, count: int, dropout: float, seed: int) -> list[Segmentation]:
        """A number of cuts, each drawn by itself, as a function of the seed and the word alone."""
        letters = self.initial_tokens(word)
        tries = generator(seed, f"cuts of {word}").geometric(1 - dropout, size=count * len(letters))
        return self._merge(letters, count, iter((tries - 1).tolist()))

    def _merge(self, letters: Segmentation, count: int, skips: Iterator[int]) -> list[Segmentation]:
        """Merge the same letters several times over (algorithm 1 of the paper).

        At each merge of each cut the next of `skips` says how many possible merges are passed over before
        one is made; if as many as there are, the cut is done. Cuts that stand at the same pieces go on
        together, which spares most of the work: with little dropout they seldom part.
        """
        done: list[Segmentation] = []
        standing = {letters: count}
        while standing:  # every round makes one merge, so all that stand have equally many pieces
            further: dict[Segmentation, int] = {}
            for tokens, cuts in standing.items():
                candidates = self.candidates(tokens)
                for skipped, some in Counter(islice(skips, cuts)).items():
                    if skipped >= len(candidates):
                        done += [tokens] * some
                    else:
                        _, merged, place = candidates[skipped]
                        pieces_then = (*tokens[:place], merged, *tokens[place + 2 :])
                        further[pieces_then] = further.get(pieces_then, 0) + some
            standing = further
        return done
