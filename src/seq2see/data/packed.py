"""Packed sequences: batches with hardly any padding, in which texts of any length are concatenated in rows.

Bucketing puts texts of equal length in one batch; packing concatenates texts as they come. Every step then has the same
shape, so that a GPU compiles and captures it once, and a batch mixes short and long texts. Only a Transformer can read
packed rows: the attention mask separates the texts, and no other layer passes information from token to token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, PackedSequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import permutation
from seq2see.data.pair_dataset import NO_EXAMPLE, EncodedTexts, IntArray, PairDataset
from seq2see.data.tokenizers.tokenizer import BOS, PAD

ROW_LENGTH = 128
"""Tokens per row; more if a text is longer. Longer rows have less padding, and attention over them costs more."""
FILL_RATIO = 0.97
"""The share of the token budget that texts fill on average; the ends of rows are padding."""


class PackedSampler:
    """The batches of a training run, by step number.

    `lengths` is (example, side). A text occupies as many positions of its row as its longer side needs, so that both
    sides of a pair are in rows of the same number. The texts of an epoch are split into equal shares, one per batch:
    every epoch has the same number of batches. With BPE-dropout, `lengths` are estimates, and rows are filled by the
    actual lengths.
    """

    def __init__(self, lengths: IntArray, batch_tokens: int, seed: int):
        if len(lengths) == 0:
            raise UserError("There are no examples to make batches of.")
        self.sizes = lengths.reshape(len(lengths), -1).max(axis=1)
        self.row_length = max(ROW_LENGTH, int(self.sizes.max()))
        self.row_count = batch_tokens // self.row_length
        if self.row_count < 1:
            raise UserError(
                f"A batch of {batch_tokens} tokens is too small for packed rows of {self.row_length}.",
                hint=f"Set training.batch_tokens to at least {self.row_length}, or training.batches=bucketed.",
            )
        self.seed = seed
        self.steps_per_epoch = int(np.ceil(self.sizes.sum() / (FILL_RATIO * self.row_count * self.row_length)))
        self._epoch, self._batches = 0, self._plan_epoch(0)

    def epoch_of(self, step: int) -> int:
        """The epoch of a step; both are counted from 0."""
        return step // self.steps_per_epoch

    def indices_at(self, step: int) -> IntArray:
        """The examples of one step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._plan_epoch(epoch)
        return self._batches[position]

    def _plan_epoch(self, epoch: int) -> list[IntArray]:
        order = permutation(len(self.sizes), self.seed, "examples", epoch)
        ends = np.cumsum(self.sizes[order])
        cuts = np.arange(1, self.steps_per_epoch) * ends[-1] / self.steps_per_epoch
        return np.split(order, np.searchsorted(ends, cuts, side="right"))

    def batch(self, pairs: PairDataset, indices: IntArray) -> Batch:
        """Source `x1 .. xn <eos>`, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`, text after text in every row.

        In the rare case that the texts do not fit, the batch has one more row than usual.
        """
        sizes = np.max([side.starts[indices + 1] - side.starts[indices] for side in pairs.sides.values()], axis=0)
        row_of_text, used = best_fit(sizes, self.row_length)
        shape = (max(used, self.row_count), self.row_length)
        # The texts of a row are adjacent, in the order in which they were assigned to it.
        order = np.argsort(row_of_text, kind="stable")
        indices, row_of_text = indices[order], row_of_text[order]
        source = _PackedSide.of(pairs.sides["source"], indices, row_of_text, shape)
        target = _PackedSide.of(pairs.sides["target"], indices, row_of_text, shape)
        labels = target.scatter(target.ids, IGNORE_INDEX)
        inputs = np.full_like(labels, PAD)
        inputs[:, 1:] = labels[:, :-1]
        inputs[target.position_ids == 0] = BOS
        inputs[target.document_ids == 0] = PAD
        examples = np.full((shape[0], self.row_length), NO_EXAMPLE)
        examples[row_of_text, _number_in_row(row_of_text)] = indices
        return Batch(
            source.to_sequences(source.scatter(source.ids, PAD)), target.to_sequences(inputs), torch.from_numpy(labels),
            torch.from_numpy(examples),
        )  # fmt: skip


def best_fit(sizes: IntArray, row_length: int) -> tuple[IntArray, int]:
    """Best-fit decreasing bin packing: the row of each text, and the number of rows.

    >>> best_fit(np.array([3, 6, 4, 5]), row_length=9)
    (array([0, 0, 1, 1]), 2)
    """
    row_of_text = np.zeros(len(sizes), dtype=np.int64)
    rows_by_space: list[list[int]] = [[] for _ in range(row_length + 1)]  # rows by their free positions
    used = 0
    for text in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[text])
        space = next((space for space in range(size, row_length + 1) if rows_by_space[space]), None)
        if space is None:
            row_of_text[text], space, used = used, row_length, used + 1
        else:
            row_of_text[text] = rows_by_space[space].pop()
        rows_by_space[space - size].append(int(row_of_text[text]))
    return row_of_text, used


def _number_in_row(row_of_text: IntArray) -> IntArray:
    """The number of each text in its row; the rows are in ascending order."""
    return np.arange(len(row_of_text)) - np.searchsorted(row_of_text, row_of_text)


@dataclass(frozen=True)
class _PackedSide:
    """The tokens of one side, and their positions in the batch."""

    ids: NDArray[np.int32]
    rows: IntArray  # (token,)
    columns: IntArray  # (token,)
    document_ids: IntArray  # (row, time)
    position_ids: IntArray  # (row, time)

    @staticmethod
    def of(side: EncodedTexts, indices: IntArray, row_of_text: IntArray, shape: tuple[int, int]) -> _PackedSide:
        starts = side.starts[indices]
        lengths = side.starts[indices + 1] - starts
        ends = np.cumsum(lengths)
        position_ids = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        rows = np.repeat(row_of_text, lengths)
        columns = np.arange(ends[-1]) - np.searchsorted(rows, rows)
        packed = _PackedSide(
            side.ids[np.repeat(starts, lengths) + position_ids],
            rows,
            columns,
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
        )
        document_ids = packed.scatter(np.repeat(_number_in_row(row_of_text) + 1, lengths), 0)
        return _PackedSide(packed.ids, rows, columns, document_ids, packed.scatter(position_ids, 0))

    def scatter(self, values: IntArray | NDArray[np.int32], padding: int) -> IntArray:
        """Values of tokens at the positions of the tokens."""
        batch = np.full(self.position_ids.shape, padding, dtype=np.int64)
        batch[self.rows, self.columns] = values
        return batch

    def to_sequences(self, values: IntArray) -> PackedSequences:
        lengths = np.bincount(self.rows, minlength=len(values))
        return PackedSequences(
            *(torch.from_numpy(each) for each in (values, lengths, self.document_ids, self.position_ids))
        )
