"""BPE-dropout: random segmentations of the training texts by skipping merges (Provilkov, Emelianenko & Voita 2020).

A model that always reads "unlikely" as `un likely` learns nothing about `like`. BPE with dropout skips each possible
merge with some probability, every time it searches for the next merge, so that a word is sometimes left in smaller
tokens. The `tokenizers` library implements this too, but with a random generator of its own, so runs would not be
reproducible; here the random numbers are a function of the seed and the word.

Each epoch has other segmentations. The paper segments a word anew at each occurrence; hundreds of thousands of merge
loops per epoch would keep a GPU waiting. So for each distinct word a pool of segmentations is sampled once (one per
occurrence, but 8 to 64), and an epoch only chooses from it, for all occurrences at once. This deviates from the paper:
a segmentation much rarer than one in 64 (one in 8 for a rare word) is either missing in the pool or chosen too often.

The choice is a function of seed, epoch and position, so the batch of any step can be computed from its number. For the
same reason the batch plan must not depend on the sampled lengths: each text gets an estimated maximum length
(`estimate_lengths`) for the plan of buckets, and a text whose segmentation is longer gets the default one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.data.packed import ROW_LENGTH
from seq2see.data.pair_dataset import EncodedTexts, IntArray, PairDataset, bucket_widths
from seq2see.data.tokenizers.tokenizer import EOS, Tokenizer
from seq2see.data.tokenizers.tokenizer_files import BYTE_TOKENS

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


MIN_SEGMENTATIONS, MAX_SEGMENTATIONS = 8, 64
"""The minimum and maximum number of sampled segmentations of a word."""

MARGIN = 1.0
"""The estimated length of a text is the average plus this many standard deviations.

With 1, 2 to 3 of 100 texts are longer (Multi30k, 8,000 tokens, dropout 0.05 to 0.3), because a bucket is wider than
most of its texts. Twice the margin would leave 3 in 1,000, at the cost of 10 % more batches per epoch.
"""
PACKED_MARGIN = 0.2
"""The margin for packed sequences: deviations of texts in one row cancel, and the longer side counts."""


@dataclass(frozen=True)
class SegmentationPools:
    """The segmentations of each word: first the default one, then those that an epoch chooses from."""

    ids: NDArray[np.int32]
    starts: IntArray  # (segmentation,): its start in `ids`
    lengths: IntArray  # (segmentation,)
    default: IntArray  # (word,): the number of the default segmentation; the alternatives follow it
    alternatives: IntArray  # (word,): the number of alternatives

    @staticmethod
    def of(pools: Sequence[Sequence[Segmentation]]) -> SegmentationPools:
        """The segmentations of all words in one array."""
        sizes = np.array([len(pool) for pool in pools], dtype=np.int64)
        segmentations = list(chain.from_iterable(pools))
        lengths = np.array([len(segmentation) for segmentation in segmentations], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(segmentations), dtype=np.int32, count=int(lengths.sum()))
        return SegmentationPools(ids, np.cumsum(lengths) - lengths, lengths, np.cumsum(sizes) - sizes, sizes - 1)

    def average(self, power: int) -> NDArray[np.float64]:
        """(word,): the mean of length ** power over the alternatives."""
        powers = self.lengths**power
        return (np.add.reduceat(powers, self.default) - powers[self.default]) / self.alternatives


class BPEDropoutSide:
    """Source or target of the training pairs as words, each with its pool of segmentations."""

    def __init__(self, side: EncodedTexts, rows: Sequence[Sequence[int]], pools: SegmentationPools):
        self.side, self.pools = side, pools
        self.counts = np.array([len(row) for row in rows], dtype=np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.words = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(self.counts.sum()))
        self.default, self.alternatives = pools.default[self.words], pools.alternatives[self.words]

    def estimate_lengths(self, max_tokens: int, margin: float = MARGIN) -> IntArray:
        """A length that few segmentations of each text exceed, and the default one never exceeds."""
        average, square = self.pools.average(1), self.pools.average(2)
        mean = np.add.reduceat(average[self.words], self.starts)
        variance = np.add.reduceat((square - average**2)[self.words], self.starts)
        likely = np.ceil(mean + margin * np.sqrt(variance.clip(min=0))).astype(np.int64)
        return np.maximum(self.side.lengths, np.minimum(likely, max_tokens + 1))

    def resample(self, random_bits: IntArray, max_lengths: IntArray) -> EncodedTexts:
        """The texts with a sampled segmentation of each word; `random_bits` has 16 random bits per word."""
        chosen = self.default + 1 + (random_bits * self.alternatives >> 16)
        too_long = np.add.reduceat(self.pools.lengths[chosen], self.starts) > max_lengths
        chosen = np.where(np.repeat(too_long, self.counts), self.default, chosen)
        lengths = self.pools.lengths[chosen]
        ends = np.cumsum(lengths)
        # The tokens of a segmentation are contiguous in `pools.ids`: count up from the start of each.
        indices = np.arange(ends[-1]) + np.repeat(self.pools.starts[chosen] - ends + lengths, lengths)
        starts = np.concatenate([[0], ends[self.starts + self.counts - 1]])
        return EncodedTexts(self.pools.ids[indices], starts, self.side.truncated)


class BPEDropoutDataset:
    """Training pairs with new segmentations in every epoch, on the sides that have dropout."""

    def __init__(self, pairs: PairDataset, dropouts: Mapping[str, float], seed: int, *, packed: bool = False):
        self.pairs, self.seed = pairs, seed
        self.sides = {
            name: bpe_dropout_side(
                [getattr(each, name) for each in pairs.examples], side, pairs.tokenizers[name], dropout, seed
            )
            for name, side in pairs.sides.items()
            if (dropout := dropouts[name]) > 0
        }
        margin = PACKED_MARGIN if packed else MARGIN
        estimates = [
            self.sides[name].estimate_lengths(pairs.max_tokens_by_side[name], margin)
            if name in self.sides
            else side.lengths
            for name, side in pairs.sides.items()
        ]
        self.lengths = np.stack(estimates, axis=1) + pairs.prefix_length
        """(example, side): the estimated maximum length of each row in any epoch, for the plan of buckets."""
        widths = bucket_widths(self.lengths)
        self.max_lengths = np.full_like(widths, max(ROW_LENGTH, self.lengths.max())) if packed else widths
        """(example,): the maximum number of tokens on either side: the width of its bucket, or of a packed row."""
        self._epoch, self._current = -1, pairs

    def epoch(self, number: int) -> PairDataset:
        """The pairs with the segmentations of this epoch."""
        if self.sides and number != self._epoch:
            resampled = {}
            for name, side in self.sides.items():
                bits = generator(self.seed, f"cuts of the {name}", number).bytes(2 * len(side.words))
                max_lengths = np.minimum(
                    self.max_lengths - self.pairs.prefix_length, self.pairs.max_tokens_by_side[name] + 1
                )
                resampled[name] = side.resample(np.frombuffer(bits, dtype="<u2").astype(np.int64), max_lengths)
            self._epoch, self._current = number, self.pairs.with_sides(resampled)
        return self._current


def bpe_dropout_side(
    texts: Sequence[str], side: EncodedTexts, tokenizer: Tokenizer, dropout: float, seed: int
) -> BPEDropoutSide:
    """Split all texts into words, and sample the pool of each word."""
    word_ids: dict[str, int] = {}
    rows = [[word_ids.setdefault(word, len(word_ids)) for word in tokenizer.pre_tokenize(text)] for text in texts]
    counts = np.bincount(np.fromiter(chain.from_iterable(rows), dtype=np.int64), minlength=len(word_ids))
    merges = BPEMerges(*tokenizer.merges)
    pools: list[list[Segmentation]] = []
    for word, default, count in zip(word_ids, tokenizer.encode_many(list(word_ids)), counts.tolist(), strict=True):
        sampled = merges.sample(word, min(max(count, MIN_SEGMENTATIONS), MAX_SEGMENTATIONS), dropout, seed)
        pools.append([tuple(default), *sampled])
    # A truncated text is stored as one long word with a single segmentation, and so is <eos>.
    for index in side.truncated.tolist():
        rows[index] = [len(pools)]
        truncated = tuple(side.ids[side.starts[index] : side.starts[index + 1] - 1].tolist())
        pools.append([truncated, truncated])
    for row in rows:
        row.append(len(pools))
    pools.append([(EOS,), (EOS,)])
    return BPEDropoutSide(side, rows, SegmentationPools.of(pools))
