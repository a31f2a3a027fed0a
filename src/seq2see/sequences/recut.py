"""Training texts cut anew in every epoch: subword regularisation in which the same seed gives the same run.

BPE-dropout cuts each word afresh whenever it is met; hundreds of thousands of merge loops an epoch would keep a
GPU waiting. So for each distinct word a pool of cuts is drawn once (as many as the word occurs, but 8 to 64),
and an epoch only chooses from it, for every occurrence by itself and all at once. That is a liberty the paper does
not take: a cut much rarer than one in 64 (one in 8 for a rare word) is not in the pool, or is chosen too often.

What is chosen is a function of seed, epoch and place, so the batch of any step can be named by its number. For the
same reason lengths may not change the plan of batches: each text is given room for a long cut (`room_for`),
the buckets are planned by that room, and a cut that is longer still is replaced by the usual one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from seq2see.core.seeds import generator
from seq2see.sequences.buckets import Numbers, bucket_widths
from seq2see.sequences.merges import Cut, Merges
from seq2see.sequences.packs import LINE
from seq2see.sequences.pairs import PairSet, Side
from seq2see.sequences.tokenisers import EOS, Tokeniser

FEWEST, MOST = 8, 64
"""How many cuts of a word are drawn."""

MARGIN = 1.0
"""A text has room for its average length and this many standard deviations more.

With that 2 to 3 of 100 cuts are too long (Multi30k, 8,000 pieces, dropout 0.05 to 0.3): a bucket is wider than
most of its texts. Twice the margin would leave 3 in 1,000, and make a tenth more batches of an epoch.
"""
PACKED_MARGIN = 0.2
"""The same where texts share lines: what one needs more, another needs less, and the longer side decides."""


@dataclass(frozen=True)
class Pools:
    """Ways to cut each word: first the usual one, then those that an epoch chooses from."""

    ids: NDArray[np.int32]
    starts: Numbers  # (cut,): where it begins in `ids`
    lengths: Numbers  # (cut,)
    usual: Numbers  # (word,): the number of its usual cut; its other cuts follow
    choices: Numbers  # (word,): how many others there are

    @staticmethod
    def of(pools: Sequence[Sequence[Cut]]) -> Pools:
        """Lay out the cuts of all words in one array."""
        sizes = np.array([len(pool) for pool in pools], dtype=np.int64)
        cuts = list(chain.from_iterable(pools))
        lengths = np.array([len(cut) for cut in cuts], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(cuts), dtype=np.int32, count=int(lengths.sum()))
        return Pools(ids, np.cumsum(lengths) - lengths, lengths, np.cumsum(sizes) - sizes, sizes - 1)

    def average(self, power: int) -> NDArray[np.float64]:
        """(word,): the average of length ** power over the cuts an epoch chooses from."""
        powers = self.lengths**power
        return (np.add.reduceat(powers, self.usual) - powers[self.usual]) / self.choices


class RecutSide:
    """One side of the training pairs as words, each with its pool of cuts."""

    def __init__(self, side: Side, rows: Sequence[Sequence[int]], pools: Pools):
        self.side, self.pools = side, pools
        self.counts = np.array([len(row) for row in rows], dtype=np.int64)
        self.starts = np.cumsum(self.counts) - self.counts
        self.words = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(self.counts.sum()))
        self.usual, self.choices = pools.usual[self.words], pools.choices[self.words]

    def room_for(self, limit: int, margin: float = MARGIN) -> Numbers:
        """A length that few cuts of each text exceed, and its usual cut never does."""
        average, square = self.pools.average(1), self.pools.average(2)
        middle = np.add.reduceat(average[self.words], self.starts)
        variance = np.add.reduceat((square - average**2)[self.words], self.starts)
        likely = np.ceil(middle + margin * np.sqrt(variance.clip(min=0))).astype(np.int64)
        return np.maximum(self.side.lengths, np.minimum(likely, limit + 1))

    def cut(self, draws: Numbers, room: Numbers) -> Side:
        """The side with a cut of its pool for each word; `draws` are 16 random bits for each."""
        cuts = self.usual + 1 + (draws * self.choices >> 16)
        too_long = np.add.reduceat(self.pools.lengths[cuts], self.starts) > room
        cuts = np.where(np.repeat(too_long, self.counts), self.usual, cuts)
        lengths = self.pools.lengths[cuts]
        ends = np.cumsum(lengths)
        # The pieces of every cut stand side by side in the pools: count on from where each begins.
        places = np.arange(ends[-1]) + np.repeat(self.pools.starts[cuts] - ends + lengths, lengths)
        starts = np.concatenate([[0], ends[self.starts + self.counts - 1]])
        return Side(self.pools.ids[places], starts, self.side.truncated)


class RecutPairs:
    """Training pairs of which every epoch sees other cuts, on the sides that have dropout."""

    def __init__(self, pairs: PairSet, dropouts: Mapping[str, float], seed: int, *, packed: bool = False):
        self.pairs, self.seed = pairs, seed
        self.sides = {
            name: recut_side(
                [getattr(each, name) for each in pairs.examples], side, pairs.tokenisers[name], chance, seed
            )
            for name, side in pairs.sides.items()
            if (chance := dropouts[name]) > 0
        }
        margin = PACKED_MARGIN if packed else MARGIN
        rooms = [
            self.sides[name].room_for(pairs.limits[name], margin) if name in self.sides else side.lengths
            for name, side in pairs.sides.items()
        ]
        self.lengths = np.stack(rooms, axis=1) + pairs.before
        """(example, side): how long each row may be in any epoch; what buckets are to be planned by."""
        widths = bucket_widths(self.lengths)
        self.room = np.full_like(widths, max(LINE, self.lengths.max())) if packed else widths
        """(example,): the most tokens it may have on either side: what its bucket, or a whole line, has room for."""
        self._epoch, self._now = -1, pairs

    def epoch(self, number: int) -> PairSet:
        """The pairs as this epoch sees them."""
        if self.sides and number != self._epoch:
            recut = {}
            for name, side in self.sides.items():
                bits = generator(self.seed, f"cuts of the {name}", number).bytes(2 * len(side.words))
                room = np.minimum(self.room - self.pairs.before, self.pairs.limits[name] + 1)
                recut[name] = side.cut(np.frombuffer(bits, dtype="<u2").astype(np.int64), room)
            self._epoch, self._now = number, self.pairs.with_sides(recut)
        return self._now


def recut_side(texts: Sequence[str], side: Side, tokeniser: Tokeniser, dropout: float, seed: int) -> RecutSide:
    """Find the words of all texts, and draw the pool of each."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word, len(numbers)) for word in tokeniser.words(text)] for text in texts]
    counts = np.bincount(np.fromiter(chain.from_iterable(rows), dtype=np.int64), minlength=len(numbers))
    merges = Merges(*tokeniser.merges)
    pools: list[list[Cut]] = []
    for word, usual, count in zip(numbers, tokeniser.encode_many(list(numbers)), counts.tolist(), strict=True):
        drawn = merges.draw(word, min(max(count, FEWEST), MOST), dropout, seed)
        pools.append([tuple(usual), *drawn])
    # A text that was cut short is one long word that can be cut in one way only, and so is <eos>.
    for index in side.truncated.tolist():
        rows[index] = [len(pools)]
        whole = tuple(side.ids[side.starts[index] : side.starts[index + 1] - 1].tolist())
        pools.append([whole, whole])
    for row in rows:
        row.append(len(pools))
    pools.append([(EOS,), (EOS,)])
    return RecutSide(side, rows, Pools.of(pools))
