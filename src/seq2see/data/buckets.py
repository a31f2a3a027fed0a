"""Bucketing: batches of examples of similar length, within a token budget.

The plan of an epoch is a function of the lengths, the budget, the seed and the epoch, so the batch of any step can be
computed without the steps before it: a resumed run needs only the step number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seq2see.core.errors import UserError
from seq2see.core.seeds import permutation

IntArray: TypeAlias = NDArray[np.int64]

# The possible widths of a batch: multiples of 4 up to 32, of 8 up to 64, then four per power of two. Few widths mean
# few shapes, and on a GPU every new shape needs a compilation; for short texts padding would cost most.
WIDTHS: IntArray = np.array(
    [
        *range(4, 32, 4),
        *range(32, 65, 8),
        *(2**power + part * 2**power // 4 for power in range(6, 30) for part in (1, 2, 3, 4)),
    ]
)


def padded_width(lengths: IntArray | int) -> IntArray:
    """The width to which rows of these lengths are padded.

    >>> padded_width(np.array([1, 8, 9, 33, 65])).tolist()
    [4, 8, 12, 40, 80]
    """
    return WIDTHS[np.searchsorted(WIDTHS, lengths)]


def bucket_widths(lengths: IntArray) -> IntArray:
    """The width of each example's bucket; `lengths` is (example, side), and the longer side counts."""
    return padded_width(lengths.reshape(len(lengths), -1).max(axis=1))


def bucket_rows(count: int, width: int, batch_tokens: int) -> int:
    """The number of rows per batch of a bucket: within the budget, and with batches of equal size if possible.

    >>> bucket_rows(count=21, width=8, batch_tokens=80)  # ten would fit, but 7 + 7 + 7 has no small remainder
    7
    """
    batches = ceil(count / max(1, batch_tokens // width))
    return ceil(count / batches)


def epoch_batches(lengths: IntArray, batch_tokens: int, seed: int, epoch: int) -> list[IntArray]:
    """The batches of an epoch as arrays of example indices; each example is in exactly one batch.

    `lengths` is (example, side): the longer side determines the bucket, and rows times padded width stay within
    `batch_tokens`. An example longer than that is a batch of its own. The examples are shuffled before they are put in
    buckets, and then the batches are shuffled.
    """
    order = permutation(len(lengths), seed, "examples", epoch)
    widths = bucket_widths(lengths)
    order = order[np.argsort(widths[order], kind="stable")]
    batches: list[IntArray] = []
    end = 0
    for width, count in zip(*np.unique(widths, return_counts=True), strict=True):
        start, end = end, end + int(count)
        rows = bucket_rows(int(count), int(width), batch_tokens)
        batches.extend(order[first : min(first + rows, end)] for first in range(start, end, rows))
    return [batches[position] for position in permutation(len(batches), seed, "batches", epoch)]


@dataclass(frozen=True)
class BatchPlan:
    """The examples of one step."""

    number: int
    epoch: int
    position: int
    """The position of the step in its epoch."""
    indices: IntArray
    rows: int
    """The number of rows in batches of this bucket; the last batch of a bucket may have fewer."""
    width: int
    """The width of the bucket; all rows of this step are at most this long, on both sides."""


class BucketSampler:
    """The batches of a training run, by step number.

    The number of examples in a bucket does not depend on the shuffling, so every epoch has the same number of batches,
    and epoch and position follow from the step number.
    """

    def __init__(self, lengths: IntArray, batch_tokens: int, seed: int):
        if len(lengths) == 0:
            raise UserError("There are no examples to make batches of.")
        if batch_tokens < 1:
            raise UserError(
                f"A batch cannot hold {batch_tokens} tokens.", hint="Set training.batch_tokens to 1 or more."
            )
        self.lengths, self.batch_tokens, self.seed = lengths, batch_tokens, seed
        self._widths = bucket_widths(lengths)
        counts = zip(*np.unique(self._widths, return_counts=True), strict=True)
        self._rows = {int(width): bucket_rows(int(count), int(width), batch_tokens) for width, count in counts}
        self._epoch, self._batches = 0, epoch_batches(lengths, batch_tokens, seed, 0)

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return len(self._batches)

    def batch_at(self, step: int) -> BatchPlan:
        """The batch plan of one step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, epoch_batches(self.lengths, self.batch_tokens, self.seed, epoch)
        indices = self._batches[position]
        width = int(self._widths[indices[0]])
        return BatchPlan(step, epoch, position, indices, self._rows[width], width)

    def steps(self, start: int = 0) -> Iterator[BatchPlan]:
        """The batch plans from step `start` on, without end."""
        step = start
        while True:
            yield self.batch_at(step)
            step += 1
