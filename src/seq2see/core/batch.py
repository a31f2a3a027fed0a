"""The inputs of models (`Batch`, `Sequences`, `Images`), and operations on the rows of decoder states.

A state is a tensor whose first axis is the row, a dataclass or tuple of such, or a value that is equal for all rows.
`pick_rows`, `reorder_rows`, `repeat_rows` and `clone_state` work for the state of any decoder, and for a batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
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

    @property
    def loss_count(self) -> Int[Tensor, ""]:
        """The number that a summed loss is divided by: here that of the labels."""
        return self.label_mask.sum()

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


@dataclass(frozen=True)
class AnswerBatch(Batch):
    """Answers that the model itself generated, with their rewards; the labels are the tokens of the answers."""

    advantages: Float[Tensor, "row"]  # the reward of each answer minus its baseline
    base_log_probabilities: Float[Tensor, "row answer vocab"]  # of the base model, at each token of the answers
    forbidden: tuple[int, ...] = ()
    """The tokens that were never drawn: their probability is 0."""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Metrics of the step, such as the mean reward."""

    @property
    def loss_count(self) -> Int[Tensor, ""]:
        """The number of answers: the objective is a mean over them."""
        return torch.tensor(len(self.labels), device=self.labels.device)


State = TypeVar("State")
INPUT_ONLY = {"input_only": True}
"""`field(metadata=INPUT_ONLY)`: a part of a state that depends on the source alone, not on the generated tokens."""


def pick_rows(state: State, rows: Int[Tensor, "picked"]) -> State:
    """The rows of a state with these indices, in this order; a row may occur twice."""
    return _map_tensors(state, lambda tensor: tensor.index_select(0, rows))


def reorder_rows(state: State, rows: Int[Tensor, "picked"]) -> State:
    """`pick_rows` where each row is replaced by a row of the same source, so that INPUT_ONLY parts need no copy."""
    return _map_tensors(state, lambda tensor: tensor.index_select(0, rows), skip_input_only=True)


def repeat_rows(state: State, times: int) -> State:
    """Repeat each row `times` times: rows a, b become a, a, b, b."""
    return state if times == 1 else _map_tensors(state, lambda tensor: tensor.repeat_interleave(times, dim=0))


def clone_state(state: State) -> State:
    """A copy with its own tensors, to generate another continuation from the same state.

    A state has one owner: `step` may write to it in place, and the old state must not be used afterwards.
    """
    return _map_tensors(state, lambda tensor: tensor.clone())


def tensors_of(state: object, without_input_only: bool = False) -> list[Tensor]:
    """All tensors of a state or a batch, in a fixed order; optionally without the INPUT_ONLY ones."""
    tensors: list[Tensor] = []

    def append(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    _map_tensors(state, append, without_input_only)
    return tensors


def _map_tensors(state: State, function: Callable[[Tensor], Tensor], skip_input_only: bool = False) -> State:
    """The state with a function applied to every tensor; optionally INPUT_ONLY parts stay unchanged."""
    if isinstance(state, Tensor):
        return function(state)  # type: ignore[return-value]
    if is_dataclass(state) and not isinstance(state, type):
        # Not `replace` and `fields`: this runs at every step of decoding, and they take longer than the work itself.
        parts = []
        for name, field in state.__dataclass_fields__.items():
            part = getattr(state, name)
            is_skipped = skip_input_only and INPUT_ONLY.keys() <= field.metadata.keys()
            parts.append(part if is_skipped else _map_tensors(part, function, skip_input_only))
        return type(state)(*parts)
    if isinstance(state, tuple):
        return tuple(_map_tensors(part, function, skip_input_only) for part in state)  # type: ignore[return-value]
    return state  # None, or a number that is equal for all rows
