"""Pairs of texts as numbers, ready to become batches: everything is encoded once, then only gathered."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences, WordSequences
from seq2see.sequences.buckets import IntArray, padded_width
from seq2see.sequences.tokenizers import BOS, EOS, PAD, UNK, Tokenizer
from seq2see.sources.examples import Example

NO_EXAMPLE = -1
"""The number of no example: the index of a row that only fills a batch up."""

MANY_UNKNOWN = 0.05
MAX_SHOWN = 5


@dataclass(frozen=True)
class EncodedTexts:
    """All texts of one side: their ids in one long array, <eos> behind each, and where each text begins."""

    ids: NDArray[np.int32]
    starts: IntArray
    truncated: IntArray
    """The examples whose text was longer than the limit."""

    @staticmethod
    def of(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> EncodedTexts:
        """Encode texts, each cut to `max_tokens` tokens."""
        rows = tokenizer.encode_many(texts)
        truncated = np.array([place for place, row in enumerate(rows) if len(row) > max_tokens], dtype=np.int64)
        for place in truncated:
            rows[place] = rows[place][:max_tokens]
        starts = np.cumsum([0, *(len(row) + 1 for row in rows)], dtype=np.int64)
        ended = chain.from_iterable(chain(row, (EOS,)) for row in rows)
        ids = np.fromiter(ended, dtype=np.int32, count=int(starts[-1]))
        for array in (ids, starts, truncated):
            array.setflags(write=False)
        return EncodedTexts(ids, starts, truncated)

    @property
    def lengths(self) -> IntArray:
        """How many tokens each text has, <eos> counted."""
        return np.diff(self.starts)

    @property
    def unknown_rate(self) -> float:
        """Which part of the tokens is <unk>; <eos>, which nobody wrote, is not counted."""
        written = len(self.ids) - len(self.starts) + 1
        return float(np.count_nonzero(self.ids == UNK)) / written if written else 0.0

    def gather(self, indices: IntArray, padding: int) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """Some texts as rows `x1 .. xn <eos>` of one width, with padding behind; their lengths; what is real."""
        places, real = self.token_indices(indices)
        return take_padded(self.ids, places, real, padding), self.lengths[indices], real

    def token_indices(self, indices: IntArray, before: int = 0) -> tuple[IntArray, NDArray[np.bool_]]:
        """Where the tokens of some texts lie, in rows of one width with `before` places free in front; what is real.

        The width is that of their bucket: what stands in front counts, as it does in the lengths buckets are made of.
        """
        starts, lengths = self.starts[indices], self.lengths[indices]
        times = np.arange(int(padded_width(int(lengths.max()) + before))) - before
        return starts[:, None] + times, (times >= 0) & (times < lengths[:, None])


def take_padded(column: NDArray[Any], places: IntArray, real: NDArray[np.bool_], padding: int) -> IntArray:
    """The numbers at these places, and padding where nothing is real.

    Behind a text stands the next one, and behind the last nothing: those places are read and not used.
    """
    values = np.full(real.shape, padding, dtype=np.int64)
    np.copyto(values, column.take(places, mode="clip"), where=real)
    return values


class PairDataset:
    """Examples as numbers: gives the lengths for the buckets and the batches for the steps.

    A text is cut to `max_tokens` tokens (a source to its own limit, if it has one); its row in a batch is one
    longer, for <bos> or <eos>. Without a tokenizer for the source (a language model) batches have no source.
    """

    prefix_length = 0
    """Tokens that stand in front of each text in its row, and are not among those of its side."""

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
        """How many tokens there are to guess from, at most."""
        return max(map(len, self.tokenizers.values()))

    @property
    def lengths(self) -> IntArray:
        """(example, side): how long each row is, <bos> and <eos> counted where they stand."""
        return np.stack([side.lengths for side in self.sides.values()], axis=1) + self.prefix_length

    @property
    def characters(self) -> int:
        """How long all targets are together, in characters."""
        return sum(len(example.target) for example in self.examples)

    def with_sides(self, sides: dict[str, EncodedTexts]) -> PairDataset:
        """The same examples, cut into other tokens on these sides."""
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
        """The SHA-256 of all ids and of the tokenizers that made them."""
        digest = hashlib.sha256()
        for name, side in self.sides.items():
            digest.update(f"{name} {self.tokenizers[name].fingerprint} {len(side.starts)} ".encode())
            digest.update(side.starts.astype("<i8").tobytes())
            digest.update(side.ids.astype("<i4").tobytes())
        return digest.hexdigest()

    def warnings(self) -> list[str]:
        """What a person should know about these examples: texts that were cut, symbols nobody knows."""
        found = []
        for name, side in self.sides.items():
            if len(side.truncated):
                places = [self._place(int(index)) for index in side.truncated[:MAX_SHOWN]]
                found.append(
                    f"{len(side.truncated)} {name} texts are longer than {self.max_tokens_by_side[name]} tokens and were cut: "
                    + ", ".join(places)
                    + (", ..." if len(side.truncated) > MAX_SHOWN else ".")
                )
            if side.unknown_rate > MANY_UNKNOWN:
                symbols = ", ".join(self._unknown_symbols(name))
                found.append(f"{side.unknown_rate:.1%} of the {name} tokens are unknown, most often {symbols}.")
        return found

    def _place(self, index: int) -> str:
        return self.examples[index].location or f"example {index + 1}"

    def _unknown_symbols(self, name: str) -> list[str]:
        """The commonest texts that became <unk>, with their code points."""
        side, tokenizer = self.sides[name], self.tokenizers[name]
        counts: Counter[str] = Counter()
        owners = np.searchsorted(side.starts, np.flatnonzero(side.ids == UNK), side="right") - 1
        for index in np.unique(owners):
            text = getattr(self.examples[index], name)
            offsets = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
            counts.update(text[start:end] for number, (start, end) in offsets if number == UNK)
        commonest = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:MAX_SHOWN]
        return [f"{symbol!r} ({' '.join(f'U+{ord(c):04X}' for c in symbol[:4])})" for symbol in commonest]


def decoder_inputs_and_labels(side: EncodedTexts, indices: IntArray) -> tuple[Sequences, torch.Tensor]:
    """What a decoder is fed of some texts, `<bos> y1 .. yn`, and what it is asked for, `y1 .. yn <eos>`."""
    labels, lengths, real = side.gather(indices, IGNORE_INDEX)
    fed = np.full_like(labels, PAD)
    np.copyto(fed[:, 1:], labels[:, :-1], where=real[:, 1:])  # one step behind, so <eos> is never fed
    fed[:, 0] = BOS
    return Sequences(torch.from_numpy(fed), torch.from_numpy(lengths)), torch.from_numpy(labels)


def pad_batch(batch: Batch, rows: int, width: int) -> Batch:
    """The batch in the full shape of its bucket, so that a GPU meets one shape a bucket and no more.

    Both sides become `width` wide. Rows that are missing are filled up with texts of nothing, which belong to no
    example (`NO_EXAMPLE`) and ask nothing: not one token long would be simpler still, but attention must look somewhere.
    """
    assert not isinstance(batch.source, Images), "images are all alike"
    source = None if batch.source is None else _pad_sequences(batch.source, rows, width, EOS)
    target = None if batch.target is None else _pad_sequences(batch.target, rows, width, BOS)
    labels = _pad_tensor(batch.labels, (rows, width if batch.labels.size(1) > 1 else 1), IGNORE_INDEX)
    return Batch(source, target, labels, _pad_tensor(batch.indices, (rows,), NO_EXAMPLE))


def _pad_sequences(side: Sequences, rows: int, width: int, first_token: int) -> Sequences:
    """Padding to the right, and below it rows whose `first_token` token is this."""
    values = _pad_tensor(side.values, (rows, width), PAD)
    values[side.values.size(0) :, 0] = first_token
    lengths = _pad_tensor(side.lengths, (rows,), 1)
    return (
        WordSequences(values, lengths, _pad_tensor(side.word_ids, (rows, width), 0))
        if isinstance(side, WordSequences)
        else Sequences(values, lengths)
    )


def _pad_tensor(tensor: torch.Tensor, shape: tuple[int, ...], padding: int) -> torch.Tensor:
    """A tensor in the first corner of a larger one."""
    larger = tensor.new_full(shape, padding)
    larger[tuple(slice(size) for size in tensor.shape)] = tensor
    return larger
