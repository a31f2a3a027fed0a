"""Training texts cut anew in every epoch: subword regularization in which the same seed gives the same run.

BPE-dropout cuts each word afresh whenever it is met; hundreds of thousands of merge loops an epoch would keep a
GPU waiting. So for each distinct word a pool of cuts is drawn once (as many as the word occurs, but 8 to 64),
and an epoch only chooses from it, for every occurrence by itself and all at once. That is a liberty the paper does
not take: a cut much rarer than one in 64 (one in 8 for a rare word) is not in the pool, or is chosen too often.

What is chosen is a function of seed, epoch and place, so the batch of any step can be named by its number. For the
same reason lengths may not change the plan of batches: each text is given room for a long cut (`estimate_lengths`),
the buckets are planned by that room, and a cut that is longer still is replaced by the usual one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.sequences.bpe_merges import BPEMerges, Segmentation
from seq2see.sequences.buckets import IntArray, bucket_widths
from seq2see.sequences.packed import ROW_LENGTH
from seq2see.sequences.pair_dataset import EncodedTexts, PairDataset
from seq2see.sequences.tokenizers import EOS, Tokenizer

MIN_SEGMENTATIONS, MAX_SEGMENTATIONS = 8, 64
"""How many cuts of a word are drawn."""

MARGIN = 1.0
"""A text has room for its average length and this many standard deviations more.

With that 2 to 3 of 100 cuts are too long (Multi30k, 8,000 pieces, dropout 0.05 to 0.3): a bucket is wider than
most of its texts. Twice the margin would leave 3 in 1,000, and make a tenth more batches of an epoch.
"""
PACKED_MARGIN = 0.2
"""The same where texts share lines: what one needs more, another needs less, and the longer side decides."""


@dataclass(frozen=True)
class SegmentationPools:
    """Ways to cut each word: first the usual one, then those that an epoch chooses from."""

    ids: NDArray[np.int32]
    starts: IntArray  # (cut,): where it begins in `ids`
    lengths: IntArray  # (cut,)
    default: IntArray  # (word,): the number of its usual cut; its other cuts follow
    alternatives: IntArray  # (word,): how many others there are

    @staticmethod
    def of(pools: Sequence[Sequence[Segmentation]]) -> SegmentationPools:
        """Lay out the cuts of all words in one array."""
        sizes = np.array([len(pool) for pool in pools], dtype=np.int64)
        cuts = list(chain.from_iterable(pools))
        lengths = np.array([len(resample) for resample in cuts], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(cuts), dtype=np.int32, count=int(lengths.sum()))
        return SegmentationPools(ids, np.cumsum(lengths) - lengths, lengths, np.cumsum(sizes) - sizes, sizes - 1)

    def average(self, power: int) -> NDArray[np.float64]:
        """(word,): the average of length ** power over the cuts an epoch chooses from."""
        powers = self.lengths**power
        return (np.add.reduceat(powers, self.default) - powers[self.default]) / self.alternatives


class BPEDropoutSide:
    """One side of the training pairs as words, each with its pool of cuts."""

    def __init__(self, side: EncodedTexts, rows: Sequence[Sequence[int]], pools: SegmentationPools):
        self.side, self.pools = side, pools
        self.counts = np.array([len(row) for row in rows], dtype=np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.words = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(self.counts.sum()))
        self.default, self.alternatives = pools.default[self.words], pools.alternatives[self.words]

    def estimate_lengths(self, max_tokens: int, margin: float = MARGIN) -> IntArray:
        """A length that few cuts of each text exceed, and its usual cut never does."""
        average, square = self.pools.average(1), self.pools.average(2)
        middle = np.add.reduceat(average[self.words], self.starts)
        variance = np.add.reduceat((square - average**2)[self.words], self.starts)
        likely = np.ceil(middle + margin * np.sqrt(variance.clip(min=0))).astype(np.int64)
        return np.maximum(self.side.lengths, np.minimum(likely, max_tokens + 1))

    def resample(self, random_bits: IntArray, max_lengths: IntArray) -> EncodedTexts:
        """The side with a cut of its pool for each word; `random_bits` are 16 random bits for each."""
        cuts = self.default + 1 + (random_bits * self.alternatives >> 16)
        too_long = np.add.reduceat(self.pools.lengths[cuts], self.starts) > max_lengths
        cuts = np.where(np.repeat(too_long, self.counts), self.default, cuts)
        lengths = self.pools.lengths[cuts]
        ends = np.cumsum(lengths)
        # The pieces of every cut stand side by side in the pools: count on from where each begins.
        places = np.arange(ends[-1]) + np.repeat(self.pools.starts[cuts] - ends + lengths, lengths)
        starts = np.concatenate([[0], ends[self.starts + self.counts - 1]])
        return EncodedTexts(self.pools.ids[places], starts, self.side.truncated)


class BPEDropoutDataset:
    """Training pairs of which every epoch sees other cuts, on the sides that have dropout."""

    def __init__(self, pairs: PairDataset, dropouts: Mapping[str, float], seed: int, *, packed: bool = False):
        self.pairs, self.seed = pairs, seed
        self.sides = {
            name: bpe_dropout_side(
                [getattr(each, name) for each in pairs.examples], side, pairs.tokenizers[name], chance, seed
            )
            for name, side in pairs.sides.items()
            if (chance := dropouts[name]) > 0
        }
        margin = PACKED_MARGIN if packed else MARGIN
        rooms = [
            self.sides[name].estimate_lengths(pairs.max_tokens_by_side[name], margin)
            if name in self.sides
            else side.lengths
            for name, side in pairs.sides.items()
        ]
        self.lengths = np.stack(rooms, axis=1) + pairs.prefix_length
        """(example, side): how long each row may be in any epoch; what buckets are to be planned by."""
        widths = bucket_widths(self.lengths)
        self.max_lengths = np.full_like(widths, max(ROW_LENGTH, self.lengths.max())) if packed else widths
        """(example,): the most tokens it may have on either side: what its bucket, or a whole line, has room for."""
        self._epoch, self._current = -1, pairs

    def epoch(self, number: int) -> PairDataset:
        """The pairs as this epoch sees them."""
        if self.sides and number != self._epoch:
            recut = {}
            for name, side in self.sides.items():
                bits = generator(self.seed, f"cuts of the {name}", number).bytes(2 * len(side.words))
                max_lengths = np.minimum(
                    self.max_lengths - self.pairs.prefix_length, self.pairs.max_tokens_by_side[name] + 1
                )
                recut[name] = side.resample(np.frombuffer(bits, dtype="<u2").astype(np.int64), max_lengths)
            self._epoch, self._current = number, self.pairs.with_sides(recut)
        return self._current


def bpe_dropout_side(
    texts: Sequence[str], side: EncodedTexts, tokenizer: Tokenizer, dropout: float, seed: int
) -> BPEDropoutSide:
    """Find the words of all texts, and draw the pool of each."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word, len(numbers)) for word in tokenizer.pre_tokenize(text)] for text in texts]
    counts = np.bincount(np.fromiter(chain.from_iterable(rows), dtype=np.int64), minlength=len(numbers))
    merges = BPEMerges(*tokenizer.merges)
    pools: list[list[Segmentation]] = []
    for word, default, count in zip(numbers, tokenizer.encode_many(list(numbers)), counts.tolist(), strict=True):
        drawn = merges.sample(word, min(max(count, MIN_SEGMENTATIONS), MAX_SEGMENTATIONS), dropout, seed)
        pools.append([tuple(default), *drawn])
    # A text that was cut short is one long word that can be cut in one way only, and so is <eos>.
    for index in side.truncated.tolist():
        rows[index] = [len(pools)]
        whole = tuple(side.ids[side.starts[index] : side.starts[index + 1] - 1].tolist())
        pools.append([whole, whole])
    for row in rows:
        row.append(len(pools))
    pools.append([(EOS,), (EOS,)])
    return BPEDropoutSide(side, rows, SegmentationPools.of(pools))
