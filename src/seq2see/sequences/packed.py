"""Batches with hardly any padding: texts of any length end to end, several to a line.

Where buckets put equally long texts side by side, a pack strings texts together as they come. Every step then
has one and the same shape, which a GPU compiles and records once, and a batch mixes short and long texts. Only a
Transformer can read such lines: a mask keeps the texts apart, because nothing in it walks from token to token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, PackedSequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import permutation
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.pair_dataset import NO_EXAMPLE, EncodedTexts, PairDataset
from seq2see.sequences.tokenizers import BOS, PAD

ROW_LENGTH = 128
"""Tokens on a line; more if a text is longer. Longer lines fill better, and cost more to look at."""
FILL_RATIO = 0.97
"""Share of the budget that texts are to fill: a little is always left at the ends of lines."""


class PackedSampler:
    """The batches of a whole training, by step number.

    `lengths` is (example, side); a text takes as much of its line as the longer side needs, so that both sides of a
    pair lie on lines of the same number. The texts of an epoch are cut into equal shares, a share is a batch:
    every epoch has the same number of them. Where texts are cut anew in every epoch, `lengths` is how long they
    are likely to be, and lines are filled by how long they are.
    """

    def __init__(self, lengths: IntArray, batch_tokens: int, seed: int):
        if len(lengths) == 0:
            raise UserError("There are no examples to make batches of.")
        self.sizes = lengths.reshape(len(lengths), -1).max(axis=1)
        self.row_length = max(ROW_LENGTH, int(self.sizes.max()))
        self.row_count = batch_tokens // self.row_length
        if self.row_count < 1:
            raise UserError(
                f"A batch of {batch_tokens} tokens is too small for packed lines of {self.row_length}.",
                hint=f"Set training.batch_tokens to at least {self.row_length}, or training.batches=bucketed.",
            )
        self.seed = seed
        self.steps_per_epoch = int(np.ceil(self.sizes.sum() / (FILL_RATIO * self.row_count * self.row_length)))
        self._epoch, self._batches = 0, self._plan_epoch(0)

    def epoch_of(self, step: int) -> int:
        """The epoch that a step, counted from 0, belongs to."""
        return step // self.steps_per_epoch

    def indices_at(self, step: int) -> IntArray:
        """The examples of one step, counted from 0 over all epochs."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._plan_epoch(epoch)
        return self._batches[place]

    def _plan_epoch(self, epoch: int) -> list[IntArray]:
        order = permutation(len(self.sizes), self.seed, "examples", epoch)
        ends = np.cumsum(self.sizes[order])
        cuts = np.arange(1, self.steps_per_epoch) * ends[-1] / self.steps_per_epoch
        return np.split(order, np.searchsorted(ends, cuts, side="right"))

    def batch(self, pairs: PairDataset, indices: IntArray) -> Batch:
        """Source `x1 .. xn <eos>`, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`, text after text on every line.

        In the rare case that the texts do not fit, there is a line more than usual.
        """
        sizes = np.max([side.starts[indices + 1] - side.starts[indices] for side in pairs.sides.values()], axis=0)
        lines, used = best_fit(sizes, self.row_length)
        shape = (max(used, self.row_count), self.row_length)
        # Texts of one line one after the other, in the order in which they were put there.
        order = np.argsort(lines, kind="stable")
        indices, lines = indices[order], lines[order]
        source = _PackedSide.of(pairs.sides["source"], indices, lines, shape)
        target = _PackedSide.of(pairs.sides["target"], indices, lines, shape)
        labels = target.scatter(target.ids, IGNORE_INDEX)
        fed = np.full_like(labels, PAD)
        fed[:, 1:] = labels[:, :-1]
        fed[target.position_ids == 0] = BOS
        fed[target.document_ids == 0] = PAD
        numbers = np.full((shape[0], self.row_length), NO_EXAMPLE)
        numbers[lines, _places(lines)] = indices
        return Batch(
            source.to_sequences(source.scatter(source.ids, PAD)), target.to_sequences(fed), torch.from_numpy(labels),
            torch.from_numpy(numbers),
        )  # fmt: skip


def best_fit(sizes: IntArray, row_length: int) -> tuple[IntArray, int]:
    """Which line each text goes to, and how many lines that takes: the longest first, each where least is left over.

    >>> best_fit(np.array([3, 6, 4, 5]), line=9)
    (array([0, 0, 1, 1]), 2)
    """
    lines = np.zeros(len(sizes), dtype=np.int64)
    with_room: list[list[int]] = [[] for _ in range(row_length + 1)]  # lines by how much room they have
    used = 0
    for text in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[text])
        room = next((room for room in range(size, row_length + 1) if with_room[room]), None)
        if room is None:
            lines[text], room, used = used, row_length, used + 1
        else:
            lines[text] = with_room[room].pop()
        with_room[room - size].append(int(lines[text]))
    return lines, used


def _places(lines: IntArray) -> IntArray:
    """The number of each text on its line; the lines are in order."""
    return np.arange(len(lines)) - np.searchsorted(lines, lines)


@dataclass(frozen=True)
class _PackedSide:
    """Where one side's tokens lie."""

    ids: NDArray[np.int32]
    rows: IntArray  # (token,)
    columns: IntArray  # (token,)
    document_ids: IntArray  # (row, time)
    position_ids: IntArray  # (row, time)

    @staticmethod
    def of(side: EncodedTexts, indices: IntArray, lines: IntArray, shape: tuple[int, int]) -> _PackedSide:
        starts = side.starts[indices]
        lengths = side.starts[indices + 1] - starts
        ends = np.cumsum(lengths)
        position_ids = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        rows = np.repeat(lines, lengths)
        columns = np.arange(ends[-1]) - np.searchsorted(rows, rows)
        laid = _PackedSide(
            side.ids[np.repeat(starts, lengths) + position_ids],
            rows,
            columns,
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
        )
        document_ids = laid.scatter(np.repeat(_places(lines) + 1, lengths), 0)
        return _PackedSide(laid.ids, rows, columns, document_ids, laid.scatter(position_ids, 0))

    def scatter(self, values: IntArray | NDArray[np.int32], padding: int) -> IntArray:
        """Values of tokens where the tokens lie."""
        lines = np.full(self.position_ids.shape, padding, dtype=np.int64)
        lines[self.rows, self.columns] = values
        return lines

    def to_sequences(self, values: IntArray) -> PackedSequences:
        lengths = np.bincount(self.rows, minlength=len(values))
        return PackedSequences(
            *(torch.from_numpy(each) for each in (values, lengths, self.document_ids, self.position_ids))
        )
