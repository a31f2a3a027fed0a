"""The values that travel: `Sequences` and its kin (ragged rows of anything), `Images`, and what a step sees."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

IGNORE_INDEX = -100
"""A label with this value asks nothing: the objective passes over it."""

Value = TypeVar("Value")


def to_device(value: Value, device: torch.device | str) -> Value:
    """One of the values below with all its tensors on another device, and everything else as it is."""
    parts: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        part = getattr(value, field.name)
        if isinstance(part, Tensor):
            parts[field.name] = part.to(device, non_blocking=True)
        elif isinstance(part, Sequences | Images):
            parts[field.name] = part.to(device)
    return replace(value, **parts)  # type: ignore[type-var]


@dataclass(frozen=True)
class Sequences:
    """Rows of different length in one tensor, and how much of each row is real.

    Text, image patches and sound frames are all `Sequences` after the frontend; an encoder returns
    them too, and that is the decoder's memory. Real data stands first in each row; what lies behind it
    is padding, and nothing may depend on its content.
    """

    values: Shaped[Tensor, "row time ..."]  # ids, or a vector for each time
    lengths: Int[Tensor, "row"]

    @property
    def valid(self) -> Bool[Tensor, "row time"]:
        """True where there is data."""
        position_ids = torch.arange(self.values.size(1), device=self.lengths.device)
        return position_ids < self.lengths[:, None]

    def unpad(self) -> Shaped[Tensor, "real ..."]:
        """Only the real values, row after row: what is computed on them is not spent on padding."""
        return self.values[self.valid]

    def pad(self, packed: Shaped[Tensor, "real ..."], padding: float | int = 0) -> Sequences:
        """The inverse of `unpad`, for values computed from the packed ones."""
        valid = self.valid
        values = packed.new_full((*valid.shape, *packed.shape[1:]), padding)
        values[valid] = packed
        return Sequences(values, self.lengths)

    def to(self: Value, device: torch.device | str) -> Value:
        """The same sequences on another device."""
        return to_device(self, device)

    @staticmethod
    def of(rows: list[list[int]], padding: int = 0) -> Sequences:
        """Sequences of ids from Python lists.

        >>> Sequences.of([[5, 6], [7]]).values.tolist()
        [[5, 6], [7, 0]]
        """
        lengths = [len(row) for row in rows]
        values = torch.full((len(rows), max(lengths, default=0)), padding, dtype=torch.long)
        for place, row in enumerate(rows):
            values[place, : len(row)] = torch.tensor(row, dtype=torch.long)
        return Sequences(values, torch.tensor(lengths, dtype=torch.long))


@dataclass(frozen=True)
class PackedSequences(Sequences):
    """Lines on which several texts lie end to end: hardly any padding, and every batch of the same shape.

    To whatever treats each token by itself a line is one row. Only attention must know which tokens belong
    together (`layers.masks.document_mask`), and positions where each text begins.
    """

    document_ids: Int[Tensor, "row time"]  # which text of its line a token belongs to, counted from 1; 0 is padding
    position_ids: Int[Tensor, "row time"]  # its place in its own text


@dataclass(frozen=True)
class SequencePairs(Sequences):
    """Rows in which two texts lie one behind the other, as BERT reads them, and which of the two each token is of."""

    token_type_ids: Int[Tensor, "row time"]  # 0 in the first text, 1 in the second


@dataclass(frozen=True)
class WordSequences(Sequences):
    """Rows of pieces, and which word each piece is part of."""

    word_ids: Int[Tensor, "row time"]  # counted from 1; 0 where there is no word: <bos>, <eos>, padding


@dataclass(frozen=True)
class DenseSequences(Sequences):
    """Rows of one length: nothing of them is padding, and nobody has to look at lengths to know it."""


@dataclass(frozen=True)
class PatchGrid(DenseSequences):
    """Rows of vectors that cover an image, line after line from the top left."""

    grid: tuple[int, int]  # places from top to bottom, and from left to right


@dataclass(frozen=True)
class Images:
    """Images of one size, before a frontend makes `Sequences` of them.

    Whole numbers from 0 to 255 as they lie in a file, or the same as fractions once something has been done to them.
    """

    values: Shaped[Tensor, "row channel height width"]

    def to(self: Value, device: torch.device | str) -> Value:
        """The same images on another device."""
        return to_device(self, device)

    @staticmethod
    def of(values: Shaped[Tensor, "row *frame channel height width"]) -> Images:
        """Images, or videos if there is one more axis, of frames."""
        return Videos(values) if values.ndim == 5 else Images(values)


@dataclass(frozen=True)
class Videos(Images):
    """Videos of one size and length: images one after another, before a frontend makes a vector of each."""

    values: Shaped[Tensor, "row frame channel height width"]


@dataclass(frozen=True)
class Batch:
    """What one step of training or evaluation sees.

    `source` is what the encoder reads, `target` what the decoder is fed (it starts with <bos>), and
    `labels` the answers: for a next-token task the target one step ahead, for hidden tokens what stood in their
    places, for a classifier one class a row, for a series the next number. `indices` are the examples' global
    numbers, so that anything said of a row can be traced back.
    """

    source: Sequences | Images | None
    target: Sequences | None
    labels: Shaped[Tensor, "row ..."]
    indices: Int[Tensor, "row ..."]

    @property
    def label_mask(self) -> Bool[Tensor, "row ..."]:
        """True where an answer is asked for; of numbers NaN asks nothing, since any other may be an answer."""
        return ~self.labels.isnan() if self.labels.is_floating_point() else self.labels != IGNORE_INDEX

    def to(self: Value, device: torch.device | str) -> Value:
        """The same batch on another device; a state that is carried lies there already."""
        return to_device(self, device)


@dataclass(frozen=True)
class ContiguousBatch(Batch):
    """The next stretch of each of several streams of text; its reader goes on from the state it had before.

    `state` is that state, rows first; whoever carries it from one step to the next puts it in. A row that is `reset`
    begins a stream, with <bos>, and remembers nothing.
    """

    reset: Bool[Tensor, "row"]
    lr_scale: float = 1.0
    """How long the stretch is, as a share of the usual."""
    state: Any = None


@dataclass(frozen=True)
class MixedBatch(Batch):
    """A batch whose rows are mixtures of two examples each, so that each has two labels.

    `labels` count by `label_weights`, and `other_labels` by what is left to 1.
    """

    other_labels: Int[Tensor, "row ..."]
    label_weights: Float[Tensor, "row"]
