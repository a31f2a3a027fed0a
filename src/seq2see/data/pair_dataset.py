"""Pairs of texts as token ids: texts are encoded once, and batches are gathered from one long array.

Bucketing makes batches of examples of similar length, within a token budget. The plan of an epoch is a function of the
lengths, the budget, the seed and the epoch, so the batch of any step can be computed without the steps before it: a
resumed run needs only the step number.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from math import ceil, nan
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences, WordSequences
from seq2see.core.errors import UserError
from seq2see.core.seeds import permutation
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

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


NO_EXAMPLE = -1
"""The example index of a padding row."""

MANY_UNKNOWN = 0.05
MAX_SHOWN = 5


@dataclass(frozen=True)
class EncodedTexts:
    """All texts of one side (source or target): their ids in one array, each with <eos>, and the start of each text."""

    ids: NDArray[np.int32]
    starts: IntArray
    truncated: IntArray
    """The examples whose text was longer than the maximum."""

    @staticmethod
    def of(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> EncodedTexts:
        """Encode texts, and truncate each to `max_tokens` tokens."""
        rows = tokenizer.encode_many(texts)
        truncated = np.array([index for index, row in enumerate(rows) if len(row) > max_tokens], dtype=np.int64)
        for index in truncated:
            rows[index] = rows[index][:max_tokens]
        starts = np.cumsum([0, *(len(row) + 1 for row in rows)], dtype=np.int64)
        with_eos = chain.from_iterable(chain(row, (EOS,)) for row in rows)
        ids = np.fromiter(with_eos, dtype=np.int32, count=int(starts[-1]))
        for array in (ids, starts, truncated):
            array.setflags(write=False)
        return EncodedTexts(ids, starts, truncated)

    @property
    def lengths(self) -> IntArray:
        """The number of tokens of each text, <eos> included."""
        return np.diff(self.starts)

    @property
    def unknown_rate(self) -> float:
        """The share of <unk> among the tokens, <eos> not counted."""
        count = len(self.ids) - len(self.starts) + 1
        return float(np.count_nonzero(self.ids == UNK)) / count if count else 0.0

    def gather(self, indices: IntArray, padding: int) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """Some texts as padded rows `x1 .. xn <eos>`; their lengths; and the padding mask (True for tokens)."""
        token_indices, valid = self.token_indices(indices)
        return take_padded(self.ids, token_indices, valid, padding), self.lengths[indices], valid

    def token_indices(self, indices: IntArray, prefix_length: int = 0) -> tuple[IntArray, NDArray[np.bool_]]:
        """The indices of the texts' tokens in `ids`, in padded rows with `prefix_length` free positions; and the mask.

        The width of the rows is that of their bucket, whose lengths include the prefix.
        """
        starts, lengths = self.starts[indices], self.lengths[indices]
        times = np.arange(int(padded_width(int(lengths.max()) + prefix_length))) - prefix_length
        return starts[:, None] + times, (times >= 0) & (times < lengths[:, None])


def take_padded(column: NDArray[Any], indices: IntArray, valid: NDArray[np.bool_], padding: int) -> IntArray:
    """The elements at these indices where `valid`, and padding elsewhere.

    Other indices may be those of the next text or beyond the end: their elements are read and not used.
    """
    values = np.full(valid.shape, padding, dtype=np.int64)
    np.copyto(values, column.take(indices, mode="clip"), where=valid)
    return values


class PairDataset:
    """Examples as token ids: the lengths for a batch sampler, and the batches.

    A text is truncated to `max_tokens` tokens (a source to `source_max_tokens`, if set); its row in a batch has one
    more, for <bos> or <eos>. Without a tokenizer for the source (a language model) batches have no source.
    """

    prefix_length = 0
    """The number of tokens that are inserted before each text in its row and are not stored in `sides`."""

    def __init__(
        self,
        examples: Sequence[Example],
        source_tokenizer: Tokenizer | None,
        target_tokenizer: Tokenizer,
        max_tokens: int,
        source_max_tokens: int | None = None,
    ):
        self.examples = examples
        self.max_tokens_by_side = {
            "source": max_tokens if source_max_tokens is None else source_max_tokens,
            "target": max_tokens,
        }
        self.tokenizers = {"target": target_tokenizer}
        if source_tokenizer is not None:
            self.tokenizers = {"source": source_tokenizer, "target": target_tokenizer}
        self.sides = {
            name: EncodedTexts.of(
                [getattr(example, name) for example in examples], tokenizer, self.max_tokens_by_side[name]
            )
            for name, tokenizer in self.tokenizers.items()
        }

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def vocab_size(self) -> int:
        """The size of the larger vocabulary."""
        return max(map(len, self.tokenizers.values()))

    @property
    def lengths(self) -> IntArray:
        """(example, side): the length of each row, with <bos> and <eos>."""
        return np.stack([side.lengths for side in self.sides.values()], axis=1) + self.prefix_length

    @property
    def characters(self) -> int:
        """The total length of all targets, in characters."""
        return sum(len(example.target) for example in self.examples)

    def with_sides(self, sides: dict[str, EncodedTexts]) -> PairDataset:
        """A copy of the dataset with other segmentations on these sides."""
        other = copy(self)
        other.sides = {**self.sides, **sides}
        return other

    def batch(self, indices: IntArray) -> Batch:
        """Source `x1 .. xn <eos>`, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`."""
        source = None
        if "source" in self.sides:
            values, lengths, _ = self.sides["source"].gather(indices, PAD)
            source = Sequences(torch.from_numpy(values), torch.from_numpy(lengths))
        target, labels = decoder_inputs_and_labels(self.sides["target"], indices)
        return Batch(source, target, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all token ids and of the tokenizers."""
        digest = hashlib.sha256()
        for name, side in self.sides.items():
            digest.update(f"{name} {self.tokenizers[name].fingerprint} {len(side.starts)} ".encode())
            digest.update(side.starts.astype("<i8").tobytes())
            digest.update(side.ids.astype("<i4").tobytes())
        return digest.hexdigest()

    def warnings(self) -> list[str]:
        """Warnings for the user: truncated texts, and unknown tokens."""
        warnings = []
        for name, side in self.sides.items():
            if len(side.truncated):
                locations = ", ".join(self._location(int(index)) for index in side.truncated[:MAX_SHOWN])
                max_tokens, more = self.max_tokens_by_side[name], len(side.truncated) > MAX_SHOWN
                warnings.append(
                    f"{len(side.truncated)} {name} texts are longer than {max_tokens} tokens and were cut: {locations}"
                    + (", ..." if more else ".")
                )
            if side.unknown_rate > MANY_UNKNOWN:
                symbols = ", ".join(self._unknown_symbols(name))
                warnings.append(f"{side.unknown_rate:.1%} of the {name} tokens are unknown, most often {symbols}.")
        return warnings

    def _location(self, index: int) -> str:
        return self.examples[index].location or f"example {index + 1}"

    def _unknown_symbols(self, name: str) -> list[str]:
        """The most frequent texts that became <unk>, with their code points."""
        side, tokenizer = self.sides[name], self.tokenizers[name]
        counts: Counter[str] = Counter()
        example_indices = np.searchsorted(side.starts, np.flatnonzero(side.ids == UNK), side="right") - 1
        for index in np.unique(example_indices):
            text = getattr(self.examples[index], name)
            tokens = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
            counts.update(text[start:end] for number, (start, end) in tokens if number == UNK)
        most_frequent = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:MAX_SHOWN]
        return [f"{symbol!r} ({' '.join(f'U+{ord(c):04X}' for c in symbol[:4])})" for symbol in most_frequent]


def decoder_inputs_and_labels(side: EncodedTexts, indices: IntArray) -> tuple[Sequences, torch.Tensor]:
    """The inputs of a decoder for some texts, `<bos> y1 .. yn`, and its labels, `y1 .. yn <eos>` (teacher forcing)."""
    labels, lengths, valid = side.gather(indices, IGNORE_INDEX)
    inputs = np.full_like(labels, PAD)
    np.copyto(inputs[:, 1:], labels[:, :-1], where=valid[:, 1:])  # shifted right, so <eos> is never an input
    inputs[:, 0] = BOS
    return Sequences(torch.from_numpy(inputs), torch.from_numpy(lengths)), torch.from_numpy(labels)


def bucketed_batches(
    dataset: Any,
    batch_tokens: int,
    seed: int,
    full: bool = False,
    dataset_of: Callable[[int], PairDataset] | None = None,
) -> Callable[[int], Batch]:
    """The batch of every step (the first is step 1): examples of similar length.

    With `full`, all batches of a bucket are padded to one shape, as CUDA graphs need. `dataset_of` returns the dataset
    of an epoch, if the epochs of `dataset` differ.
    """
    buckets = BucketSampler(dataset.lengths, batch_tokens, seed)

    def batch_at(step: int) -> Batch:
        plan = buckets.batch_at(step - 1)
        batch: Batch = (dataset if dataset_of is None else dataset_of(plan.epoch)).batch(plan.indices)
        return pad_batch(batch, plan.rows, plan.width) if full else batch

    return batch_at


def pad_batch(batch: Batch, rows: int, width: int) -> Batch:
    """The batch padded to the full shape of its bucket, so that a GPU has a single shape per bucket.

    Source and target become `width` wide. Missing rows are filled with padding rows, which have no example
    (`NO_EXAMPLE`) and no labels. A padding row has one token, because attention needs at least one key.
    """
    assert not isinstance(batch.source, Images), "batches of images need no padding"
    source = None if batch.source is None else _pad_sequences(batch.source, rows, width, EOS)
    target = None if batch.target is None else _pad_sequences(batch.target, rows, width, BOS)
    ignored = nan if batch.labels.is_floating_point() else IGNORE_INDEX
    labels = _pad_tensor(batch.labels, (rows, width if batch.labels.size(1) > 1 else 1), ignored)
    return Batch(source, target, labels, _pad_tensor(batch.indices, (rows,), NO_EXAMPLE))


def _pad_sequences(side: Sequences, rows: int, width: int, first_token: int) -> Sequences:
    """Pad the rows to the right, and add rows that consist of `first_token` only."""
    values = _pad_tensor(side.values, (rows, width), PAD)
    values[side.values.size(0) :, 0] = first_token
    lengths = _pad_tensor(side.lengths, (rows,), 1)
    return (
        WordSequences(values, lengths, _pad_tensor(side.word_ids, (rows, width), 0))
        if isinstance(side, WordSequences)
        else Sequences(values, lengths)
    )


def _pad_tensor(tensor: torch.Tensor, shape: tuple[int, ...], padding: float) -> torch.Tensor:
    """Copy a tensor to the first corner of a larger one that is filled with `padding`."""
    larger = tensor.new_full(shape, padding)
    larger[tuple(slice(size) for size in tensor.shape)] = tensor
    return larger
