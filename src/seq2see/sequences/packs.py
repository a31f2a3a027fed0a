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

from seq2see.core.batch import NOT_ASKED, Batch, Strung
from seq2see.core.errors import UserError
from seq2see.core.seeds import permutation
from seq2see.sequences.buckets import Numbers
from seq2see.sequences.pairs import NOBODY, PairSet, Side
from seq2see.sequences.tokenisers import BOS, PAD

LINE = 128
"""Tokens on a line; more if a text is longer. Longer lines fill better, and cost more to look at."""
FULL = 0.97
"""Share of the budget that texts are to fill: a little is always left at the ends of lines."""


class Packs:
    """The batches of a whole training, by step number.

    `lengths` is (example, side); a text takes as much of its line as the longer side needs, so that both sides of a
    pair lie on lines of the same number. The texts of an epoch are cut into equal shares, a share is a batch:
    every epoch has the same number of them. Where texts are cut anew in every epoch, `lengths` is how long they
    are likely to be, and lines are filled by how long they are.
    """

    def __init__(self, lengths: Numbers, tokens: int, seed: int):
        if len(lengths) == 0:
            raise UserError("There are no examples to make batches of.")
        self.sizes = lengths.reshape(len(lengths), -1).max(axis=1)
        self.line = max(LINE, int(self.sizes.max()))
        self.lines = tokens // self.line
        if self.lines < 1:
            raise UserError(
                f"A batch of {tokens} tokens is too small for packed lines of {self.line}.",
                remedy=f"Set training.tokens to at least {self.line}, or training.batches=buckets.",
            )
        self.seed = seed
        self.per_epoch = int(np.ceil(self.sizes.sum() / (FULL * self.lines * self.line)))
        self._epoch, self._packs = 0, self._shares(0)

    def epoch_of(self, step: int) -> int:
        """The epoch that a step, counted from 0, belongs to."""
        return step // self.per_epoch

    def indices_at(self, step: int) -> Numbers:
        """The examples of one step, counted from 0 over all epochs."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._packs = epoch, self._shares(epoch)
        return self._packs[place]

    def _shares(self, epoch: int) -> list[Numbers]:
        order = permutation(len(self.sizes), self.seed, "examples", epoch)
        ends = np.cumsum(self.sizes[order])
        cuts = np.arange(1, self.per_epoch) * ends[-1] / self.per_epoch
        return np.split(order, np.searchsorted(ends, cuts, side="right"))

    def batch(self, pairs: PairSet, indices: Numbers) -> Batch:
        """Source `x1 .. xn <eos>`, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`, text after text on every line.

        In the rare case that the texts do not fit, there is a line more than usual.
        """
        sizes = np.max([side.starts[indices + 1] - side.starts[indices] for side in pairs.sides.values()], axis=0)
        lines, used = best_fit(sizes, self.line)
        shape = (max(used, self.lines), self.line)
        # Texts of one line one after the other, in the order in which they were put there.
        order = np.argsort(lines, kind="stable")
        indices, lines = indices[order], lines[order]
        source = _Laid.of(pairs.sides["source"], indices, lines, shape)
        target = _Laid.of(pairs.sides["target"], indices, lines, shape)
        labels = target.place(target.ids, NOT_ASKED)
        fed = np.full_like(labels, PAD)
        fed[:, 1:] = labels[:, :-1]
        fed[target.times == 0] = BOS
        fed[target.texts == 0] = PAD
        numbers = np.full((shape[0], self.line), NOBODY)
        numbers[lines, _places(lines)] = indices
        return Batch(
            source.strung(source.place(source.ids, PAD)), target.strung(fed), torch.from_numpy(labels),
            torch.from_numpy(numbers),
        )  # fmt: skip


def best_fit(sizes: Numbers, line: int) -> tuple[Numbers, int]:
    """Which line each text goes to, and how many lines that takes: the longest first, each where least is left over.

    >>> best_fit(np.array([3, 6, 4, 5]), line=9)
    (array([0, 0, 1, 1]), 2)
    """
    lines = np.zeros(len(sizes), dtype=np.int64)
    with_room: list[list[int]] = [[] for _ in range(line + 1)]  # lines by how much room they have
    used = 0
    for text in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[text])
        room = next((room for room in range(size, line + 1) if with_room[room]), None)
        if room is None:
            lines[text], room, used = used, line, used + 1
        else:
            lines[text] = with_room[room].pop()
        with_room[room - size].append(int(lines[text]))
    return lines, used


def _places(lines: Numbers) -> Numbers:
    """The number of each text on its line; the lines are in order."""
    return np.arange(len(lines)) - np.searchsorted(lines, lines)


@dataclass(frozen=True)
class _Laid:
    """Where one side's tokens lie."""

    ids: NDArray[np.int32]
    rows: Numbers  # (token,)
    columns: Numbers  # (token,)
    texts: Numbers  # (row, time)
    times: Numbers  # (row, time)

    @staticmethod
    def of(side: Side, indices: Numbers, lines: Numbers, shape: tuple[int, int]) -> _Laid:
        starts = side.starts[indices]
        lengths = side.starts[indices + 1] - starts
        ends = np.cumsum(lengths)
        times = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        rows = np.repeat(lines, lengths)
        columns = np.arange(ends[-1]) - np.searchsorted(rows, rows)
        laid = _Laid(
            side.ids[np.repeat(starts, lengths) + times],
            rows,
            columns,
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
        )
        texts = laid.place(np.repeat(_places(lines) + 1, lengths), 0)
        return _Laid(laid.ids, rows, columns, texts, laid.place(times, 0))

    def place(self, values: Numbers | NDArray[np.int32], padding: int) -> Numbers:
        """Values of tokens where the tokens lie."""
        lines = np.full(self.times.shape, padding, dtype=np.int64)
        lines[self.rows, self.columns] = values
        return lines

    def strung(self, values: Numbers) -> Strung:
        lengths = np.bincount(self.rows, minlength=len(values))
        return Strung(*(torch.from_numpy(each) for each in (values, lengths, self.texts, self.times)))
