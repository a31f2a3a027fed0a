"""The values that travel: `Sequences` and its kin (ragged rows of anything), `Pictures`, and what a step sees."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

NOT_ASKED = -100
"""A label with this value asks nothing: the objective passes over it."""

Value = TypeVar("Value")


def moved(value: Value, device: torch.device | str) -> Value:
    """One of the values below with all its tensors on another device, and everything else as it is."""
    parts: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        part = getattr(value, field.name)
        if isinstance(part, Tensor):
            parts[field.name] = part.to(device, non_blocking=True)
        elif isinstance(part, Sequences | Pictures):
            parts[field.name] = part.to(device)
    return replace(value, **parts)  # type: ignore[type-var]


@dataclass(frozen=True)
class Sequences:
    """Rows of different length in one tensor, and how much of each row is real.

    Text, picture patches and sound frames are all `Sequences` after the frontend; an encoder returns
    them too, and that is the decoder's memory. Real data stands first in each row; what lies behind it
    is padding, and nothing may depend on its content.
    """

    values: Shaped[Tensor, "row time ..."]  # ids, or a vector for each time
    lengths: Int[Tensor, "row"]

    @property
    def real(self) -> Bool[Tensor, "row time"]:
        """True where there is data."""
        times = torch.arange(self.values.size(1), device=self.lengths.device)
        return times < self.lengths[:, None]

    def pack(self) -> Shaped[Tensor, "real ..."]:
        """Only the real values, row after row: what is computed on them is not spent on padding."""
        return self.values[self.real]

    def unpack(self, packed: Shaped[Tensor, "real ..."], padding: float | int = 0) -> Sequences:
        """The inverse of `pack`, for values computed from the packed ones."""
        real = self.real
        values = packed.new_full((*real.shape, *packed.shape[1:]), padding)
        values[real] = packed
        return Sequences(values, self.lengths)

    def to(self: Value, device: torch.device | str) -> Value:
        """The same sequences on another device."""
        return moved(self, device)

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
class Strung(Sequences):
    """Lines on which several texts lie end to end: hardly any padding, and every batch of the same shape.

    To whatever treats each token by itself a line is one row. Only attention must know which tokens belong
    together (`layers.masks.own_text`), and positions where each text begins.
    """

    texts: Int[Tensor, "row time"]  # which text of its line a token belongs to, counted from 1; 0 is padding
    times: Int[Tensor, "row time"]  # its place in its own text


@dataclass(frozen=True)
class Paired(Sequences):
    """Rows in which two texts lie one behind the other, as BERT reads them, and which of the two each token is of."""

    sentences: Int[Tensor, "row time"]  # 0 in the first text, 1 in the second


@dataclass(frozen=True)
class Worded(Sequences):
    """Rows of pieces, and which word each piece is part of."""

    words: Int[Tensor, "row time"]  # counted from 1; 0 where there is no word: <bos>, <eos>, padding


@dataclass(frozen=True)
class Whole(Sequences):
    """Rows of one length: nothing of them is padding, and nobody has to look at lengths to know it."""


@dataclass(frozen=True)
class Gridded(Whole):
    """Rows of vectors that cover a picture, line after line from the top left."""

    grid: tuple[int, int]  # places from top to bottom, and from left to right


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size, before a frontend makes `Sequences` of them.

    Whole numbers from 0 to 255 as they lie in a file, or the same as fractions once something has been done to them.
    """

    values: Shaped[Tensor, "row channel height width"]

    def to(self: Value, device: torch.device | str) -> Value:
        """The same pictures on another device."""
        return moved(self, device)

    @staticmethod
    def of(values: Shaped[Tensor, "row *frame channel height width"]) -> Pictures:
        """Pictures, or films if there is one more axis, of frames."""
        return Films(values) if values.ndim == 5 else Pictures(values)


@dataclass(frozen=True)
class Films(Pictures):
    """Films of one size and length: pictures one after another, before a frontend makes a vector of each."""

    values: Shaped[Tensor, "row frame channel height width"]


@dataclass(frozen=True)
class Batch:
    """What one step of training or evaluation sees.

    `source` is what the encoder reads, `target` what the decoder is fed (it starts with <bos>), and
    `labels` the answers: for a next-token task the target one step ahead, for hidden tokens what stood in their
    places, for a classifier one class a row, for a series the next number. `indices` are the examples' global
    numbers, so that anything said of a row can be traced back.
    """

    source: Sequences | Pictures | None
    target: Sequences | None
    labels: Shaped[Tensor, "row ..."]
    indices: Int[Tensor, "row ..."]

    @property
    def asked(self) -> Bool[Tensor, "row ..."]:
        """True where an answer is asked for; of numbers NaN asks nothing, since any other may be an answer."""
        return ~self.labels.isnan() if self.labels.is_floating_point() else self.labels != NOT_ASKED

    def to(self: Value, device: torch.device | str) -> Value:
        """The same batch on another device; a state that is carried lies there already."""
        return moved(self, device)


@dataclass(frozen=True)
class Stretch(Batch):
    """The next stretch of each of several streams of text; its reader goes on from the state it had before.

    `state` is that state, rows first; whoever carries it from one step to the next puts it in. A row that is `fresh`
    begins a stream, with <bos>, and remembers nothing.
    """

    fresh: Bool[Tensor, "row"]
    pace: float = 1.0
    """How long the stretch is, as a share of the usual."""
    state: Any = None


@dataclass(frozen=True)
class Mixed(Batch):
    """A batch whose rows are mixtures of two examples each, so that each has two labels.

    `labels` count by `shares`, and `others` by what is left to 1.
    """

    others: Int[Tensor, "row ..."]
    shares: Float[Tensor, "row"]
