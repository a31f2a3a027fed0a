"""The data types of model inputs and outputs: `Sequences` (rows of different length), `Images`, and `Batch`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

IGNORE_INDEX = -100
"""The label of positions that the loss ignores (the default of `ignore_index` in torch)."""

Value = TypeVar("Value")


def to_device(value: Value, device: torch.device | str) -> Value:
    """A copy of one of the dataclasses below with all its tensors on another device."""
    changes: dict[str, Any] = {}
    for field in fields(value):  # type: ignore[arg-type]
        part = getattr(value, field.name)
        if isinstance(part, Tensor):
            changes[field.name] = part.to(device, non_blocking=True)
        elif isinstance(part, Sequences | Images):
            changes[field.name] = part.to(device)
    return replace(value, **changes)  # type: ignore[type-var]


@dataclass(frozen=True)
class Sequences:
    """Rows of different length in one padded tensor, and the length of each row.

    Embedded text, image patches and video frames are all `Sequences`; an encoder returns them too, as the memory of a
    decoder. The data of each row comes first. The rest of the row is padding, and no result may depend on its values.
    """

    values: Shaped[Tensor, "row time ..."]  # token ids, or a vector for each position
    lengths: Int[Tensor, "row"]

    @property
    def valid(self) -> Bool[Tensor, "row time"]:
        """True at positions with data, False at padding."""
        positions = torch.arange(self.values.size(1), device=self.lengths.device)
        return positions < self.lengths[:, None]

    def unpad(self) -> Shaped[Tensor, "valid ..."]:
        """The values without padding, row after row, so that no time is spent on padding."""
        return self.values[self.valid]

    def pad(self, unpadded: Shaped[Tensor, "valid ..."], padding: float | int = 0) -> Sequences:
        """The inverse of `unpad`, for values that were computed from the unpadded ones."""
        valid = self.valid
        values = unpadded.new_full((*valid.shape, *unpadded.shape[1:]), padding)
        values[valid] = unpadded
        return Sequences(values, self.lengths)

    def to(self: Value, device: torch.device | str) -> Value:
        """A copy on another device."""
        return to_device(self, device)

    @staticmethod
    def of(rows: list[list[int]], padding: int = 0) -> Sequences:
        """Sequences of token ids from Python lists.

        >>> Sequences.of([[5, 6], [7]]).values.tolist()
        [[5, 6], [7, 0]]
        """
        lengths = [len(row) for row in rows]
        values = torch.full((len(rows), max(lengths, default=0)), padding, dtype=torch.long)
        for index, row in enumerate(rows):
            values[index, : len(row)] = torch.tensor(row, dtype=torch.long)
        return Sequences(values, torch.tensor(lengths, dtype=torch.long))


@dataclass(frozen=True)
class PackedSequences(Sequences):
    """Packed rows: each row holds several texts end to end, with little padding and the same shape in every batch.

    Layers that process each token by itself need no change. Attention needs the document of each token
    (`layers.masks.document_mask`), and position encodings need its position in that document.
    """

    document_ids: Int[Tensor, "row time"]  # the document of each token within its row, counted from 1; 0 is padding
    position_ids: Int[Tensor, "row time"]  # the position of each token within its document


@dataclass(frozen=True)
class SequencePairs(Sequences):
    """Rows of two texts, one after the other, as in BERT, and the text that each token belongs to."""

    token_type_ids: Int[Tensor, "row time"]  # 0 in the first text, 1 in the second


@dataclass(frozen=True)
class WordSequences(Sequences):
    """Rows of subword tokens, and the word that each token is part of."""

    word_ids: Int[Tensor, "row time"]  # counted from 1; 0 where there is no word: <bos>, <eos>, padding


@dataclass(frozen=True)
class DenseSequences(Sequences):
    """Rows of equal length without padding, so that no operation needs to read the lengths."""


@dataclass(frozen=True)
class PatchGrid(DenseSequences):
    """Rows of vectors that cover an image, row by row from the top left."""

    grid: tuple[int, int]  # the number of patches from top to bottom, and from left to right


@dataclass(frozen=True)
class Images:
    """Images of one size, before an embedding layer computes `Sequences` from them.

    Pixels are integers from 0 to 255 as in a file, or floating-point numbers of the same range after augmentation.
    """

    values: Shaped[Tensor, "row channel height width"]

    def to(self: Value, device: torch.device | str) -> Value:
        """A copy on another device."""
        return to_device(self, device)

    @staticmethod
    def of(values: Shaped[Tensor, "row *frame channel height width"]) -> Images:
        """Images, or videos if there is one more axis, of frames."""
        return Videos(values) if values.ndim == 5 else Images(values)


@dataclass(frozen=True)
class Videos(Images):
    """Videos of one size and length, before an embedding layer computes one vector for each frame."""

    values: Shaped[Tensor, "row frame channel height width"]


@dataclass(frozen=True)
class Batch:
    """The examples of one step of training or evaluation, as tensors.

    `source` is the input of the encoder, `target` the input of the decoder (it starts with <bos>), and `labels` the
    expected outputs: for a language model the target shifted by one position, for masked tokens the original tokens,
    for a classifier one class for each row, for a series the next number. `indices` are the global indices of the
    examples, so that errors and metrics of a row can be traced back to its example.
    """

    source: Sequences | Images | None
    target: Sequences | None
    labels: Shaped[Tensor, "row ..."]
    indices: Int[Tensor, "row ..."]

    @property
    def label_mask(self) -> Bool[Tensor, "row ..."]:
        """True where a label counts in the loss; for numbers, the ignored label is NaN, since any number is valid."""
        return ~self.labels.isnan() if self.labels.is_floating_point() else self.labels != IGNORE_INDEX

    def to(self: Value, device: torch.device | str) -> Value:
        """A copy on another device; a carried `state` is already there."""
        return to_device(self, device)


@dataclass(frozen=True)
class ContiguousBatch(Batch):
    """Contiguous batching: each row continues the text of the same row in the previous batch.

    `state` is the hidden state after that batch, rows first; the training loop sets it from one step to the next
    (truncated backpropagation through time). A row with `reset` begins a new text, with <bos> and a zero state.
    """

    reset: Bool[Tensor, "row"]
    lr_scale: float = 1.0
    """The factor of the learning rate: the length of the rows divided by the usual length."""
    state: Any = None


@dataclass(frozen=True)
class MixedBatch(Batch):
    """A batch of mixup or CutMix: each row is a mixture of two examples, and has two labels.

    `label_weights` are the weights of `labels`; the weights of `other_labels` are 1 minus them.
    """

    other_labels: Int[Tensor, "row ..."]
    label_weights: Float[Tensor, "row"]
