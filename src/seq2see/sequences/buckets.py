"""Which examples form a batch: about equally long ones, as many as the token budget allows.

The plan of an epoch is a function of the lengths, the budget, the seed and the epoch, so the batch
of any step can be named without having run the steps before it: a resumed run needs one number.
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

# Widths a batch can have: every 4 up to 32, every 8 up to 64, then four to each doubling. Few widths mean few
# shapes, and on a GPU every new shape costs a compilation; short texts are where padding would cost most.
WIDTHS: IntArray = np.array(
    [
        *range(4, 32, 4),
        *range(32, 65, 8),
        *(2**power + part * 2**power // 4 for power in range(6, 30) for part in (1, 2, 3, 4)),
    ]
)


def padded_width(lengths: IntArray | int) -> IntArray:
    """The width that rows of these lengths are padded to.

    >>> padded_width(np.array([1, 8, 9, 33, 65])).tolist()
    [4, 8, 12, 40, 80]
    """
    return WIDTHS[np.searchsorted(WIDTHS, lengths)]


def bucket_widths(lengths: IntArray) -> IntArray:
    """The width of each example's bucket; `lengths` is (example, side), and the longer side decides."""
    return padded_width(lengths.reshape(len(lengths), -1).max(axis=1))


def bucket_rows(count: int, width: int, batch_tokens: int) -> int:
    """How many rows each batch of a bucket has: within the budget, and as equal as can be.

    >>> bucket_rows(count=21, width=8, tokens=80)  # ten fit, and 7 + 7 + 7 leaves no small rest
    7
    """
    batches = ceil(count / max(1, batch_tokens // width))
    return ceil(count / batches)


def epoch_batches(lengths: IntArray, batch_tokens: int, seed: int, epoch: int) -> list[IntArray]:
    """The batches of an epoch as arrays of example numbers; each example is in exactly one.

    `lengths` is (example, side): the longer side decides the bucket, and rows times its padded width
    stay within `batch_tokens`. An example longer than that is a batch of its own. The examples are shuffled
    before they are put in buckets, and the batches afterwards.
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
    """Which examples a step trains on."""

    number: int
    epoch: int
    position: int
    """The step's number inside its epoch."""
    indices: IntArray
    rows: int
    """How many rows the batches of this bucket have; the bucket's last one may be a few short of it."""
    width: int
    """The width of the bucket; no row of this step is longer, on either side."""


class BucketSampler:
    """The batches of a whole training, by step number.

    How many examples a bucket holds does not depend on the shuffling, so every epoch has the same
    number of batches, and the step number tells the epoch and the place in it.
    """

    def __init__(self, lengths: IntArray, batch_tokens: int, seed: int):
        if len(lengths) == 0:
            raise UserError("There are no examples to make batches of.")
        if batch_tokens < 1:
            raise UserError(f"A batch cannot hold {batch_tokens} tokens.", hint="Set training.batch_tokens to 1 or more.")
        self.lengths, self.batch_tokens, self.seed = lengths, batch_tokens, seed
        self._widths = bucket_widths(lengths)
        counts = zip(*np.unique(self._widths, return_counts=True), strict=True)
        self._rows = {int(width): bucket_rows(int(count), int(width), batch_tokens) for width, count in counts}
        self._epoch, self._batches = 0, epoch_batches(lengths, batch_tokens, seed, 0)

    @property
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has."""
        return len(self._batches)

    def batch_at(self, step: int) -> BatchPlan:
        """The examples of one step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, epoch_batches(self.lengths, self.batch_tokens, self.seed, epoch)
        indices = self._batches[position]
        width = int(self._widths[indices[0]])
        return BatchPlan(step, epoch, position, indices, self._rows[width], width)

    def steps(self, start: int = 0) -> Iterator[BatchPlan]:
        """The steps from a given one on, without end."""
        step = start
        while True:
            yield self.batch_at(step)
            step += 1
