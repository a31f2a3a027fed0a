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

from seq2see.core.batch import NOT_ASKED, Batch, Pictures, Sequences, Worded
from seq2see.sequences.buckets import Numbers, padded_width
from seq2see.sequences.tokenisers import BOS, EOS, PAD, UNK, Tokeniser
from seq2see.sources.examples import Example

NOBODY = -1
"""The number of no example: the index of a row that only fills a batch up."""

MANY_UNKNOWN = 0.05
SHOWN = 5


@dataclass(frozen=True)
class Side:
    """All texts of one side: their ids in one long array, <eos> behind each, and where each text begins."""

    ids: NDArray[np.int32]
    starts: Numbers
    truncated: Numbers
    """The examples whose text was longer than the limit."""

    @staticmethod
    def of(texts: Sequence[str], tokeniser: Tokeniser, limit: int) -> Side:
        """Encode texts, each cut to `limit` tokens."""
        rows = tokeniser.encode_many(texts)
        truncated = np.array([place for place, row in enumerate(rows) if len(row) > limit], dtype=np.int64)
        for place in truncated:
            rows[place] = rows[place][:limit]
        starts = np.cumsum([0, *(len(row) + 1 for row in rows)], dtype=np.int64)
        ended = chain.from_iterable(chain(row, (EOS,)) for row in rows)
        ids = np.fromiter(ended, dtype=np.int32, count=int(starts[-1]))
        for array in (ids, starts, truncated):
            array.setflags(write=False)
        return Side(ids, starts, truncated)

    @property
    def lengths(self) -> Numbers:
        """How many tokens each text has, <eos> counted."""
        return np.diff(self.starts)

    @property
    def unknown_rate(self) -> float:
        """Which part of the tokens is <unk>; <eos>, which nobody wrote, is not counted."""
        written = len(self.ids) - len(self.starts) + 1
        return float(np.count_nonzero(self.ids == UNK)) / written if written else 0.0

    def gather(self, indices: Numbers, padding: int) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
        """Some texts as rows `x1 .. xn <eos>` of one width, with padding behind; their lengths; what is real."""
        places, real = self.places(indices)
        return read_at(self.ids, places, real, padding), self.lengths[indices], real

    def places(self, indices: Numbers, before: int = 0) -> tuple[Numbers, NDArray[np.bool_]]:
        """Where the tokens of some texts lie, in rows of one width with `before` places free in front; what is real.

        The width is that of their bucket: what stands in front counts, as it does in the lengths buckets are made of.
        """
        starts, lengths = self.starts[indices], self.lengths[indices]
        times = np.arange(int(padded_width(int(lengths.max()) + before))) - before
        return starts[:, None] + times, (times >= 0) & (times < lengths[:, None])


def read_at(column: NDArray[Any], places: Numbers, real: NDArray[np.bool_], padding: int) -> Numbers:
    """The numbers at these places, and padding where nothing is real.

    Behind a text stands the next one, and behind the last nothing: those places are read and not used.
    """
    values = np.full(real.shape, padding, dtype=np.int64)
    np.copyto(values, column.take(places, mode="clip"), where=real)
    return values


class PairSet:
    """Examples as numbers: gives the lengths for the buckets and the batches for the steps.

    A text is cut to `limit` tokens (a source to its own limit, if it has one); its row in a batch is one
    longer, for <bos> or <eos>. Without a tokeniser for the source (a language model) batches have no source.
    """

    before = 0
    """Tokens that stand in front of each text in its row, and are not among those of its side."""

    def __init__(
        self,
        examples: Sequence[Example],
        source_tokeniser: Tokeniser | None,
        target_tokeniser: Tokeniser,
        limit: int,
        source_limit: int | None = None,
    ):
        self.examples = examples
        self.limits = {"source": limit if source_limit is None else source_limit, "target": limit}
        self.tokenisers = {"target": target_tokeniser}
        if source_tokeniser is not None:
            self.tokenisers = {"source": source_tokeniser, "target": target_tokeniser}
        self.sides = {
            name: Side.of([getattr(example, name) for example in examples], tokeniser, self.limits[name])
            for name, tokeniser in self.tokenisers.items()
        }

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are to guess from, at most."""
        return max(map(len, self.tokenisers.values()))

    @property
    def lengths(self) -> Numbers:
        """(example, side): how long each row is, <bos> and <eos> counted where they stand."""
        return np.stack([side.lengths for side in self.sides.values()], axis=1) + self.before

    @property
    def characters(self) -> int:
        """How long all targets are together, in characters."""
        return sum(len(example.target) for example in self.examples)

    def with_sides(self, sides: dict[str, Side]) -> PairSet:
        """The same examples, cut into other tokens on these sides."""
        other = copy(self)
        other.sides = {**self.sides, **sides}
        return other

    def batch(self, indices: Numbers) -> Batch:
        """Source `x1 .. xn <eos>`, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`."""
        source = None
        if "source" in self.sides:
            values, lengths, _ = self.sides["source"].gather(indices, PAD)
            source = Sequences(torch.from_numpy(values), torch.from_numpy(lengths))
        target, labels = fed_and_asked(self.sides["target"], indices)
        return Batch(source, target, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all ids and of the tokenisers that made them."""
        digest = hashlib.sha256()
        for name, side in self.sides.items():
            digest.update(f"{name} {self.tokenisers[name].fingerprint} {len(side.starts)} ".encode())
            digest.update(side.starts.astype("<i8").tobytes())
            digest.update(side.ids.astype("<i4").tobytes())
        return digest.hexdigest()

    def warnings(self) -> list[str]:
        """What a person should know about these examples: texts that were cut, symbols nobody knows."""
        found = []
        for name, side in self.sides.items():
            if len(side.truncated):
                places = [self._place(int(index)) for index in side.truncated[:SHOWN]]
                found.append(
                    f"{len(side.truncated)} {name} texts are longer than {self.limits[name]} tokens and were cut: "
                    + ", ".join(places)
                    + (", ..." if len(side.truncated) > SHOWN else ".")
                )
            if side.unknown_rate > MANY_UNKNOWN:
                symbols = ", ".join(self._unknown_symbols(name))
                found.append(f"{side.unknown_rate:.1%} of the {name} tokens are unknown, most often {symbols}.")
        return found

    def _place(self, index: int) -> str:
        return self.examples[index].place or f"example {index + 1}"

    def _unknown_symbols(self, name: str) -> list[str]:
        """The commonest texts that became <unk>, with their code points."""
        side, tokeniser = self.sides[name], self.tokenisers[name]
        counts: Counter[str] = Counter()
        owners = np.searchsorted(side.starts, np.flatnonzero(side.ids == UNK), side="right") - 1
        for index in np.unique(owners):
            text = getattr(self.examples[index], name)
            spans = zip(tokeniser.encode(text), tokeniser.spans(text), strict=True)
            counts.update(text[start:end] for number, (start, end) in spans if number == UNK)
        commonest = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:SHOWN]
        return [f"{symbol!r} ({' '.join(f'U+{ord(c):04X}' for c in symbol[:4])})" for symbol in commonest]


def fed_and_asked(side: Side, indices: Numbers) -> tuple[Sequences, torch.Tensor]:
    """What a decoder is fed of some texts, `<bos> y1 .. yn`, and what it is asked for, `y1 .. yn <eos>`."""
    labels, lengths, real = side.gather(indices, NOT_ASKED)
    fed = np.full_like(labels, PAD)
    np.copyto(fed[:, 1:], labels[:, :-1], where=real[:, 1:])  # one step behind, so <eos> is never fed
    fed[:, 0] = BOS
    return Sequences(torch.from_numpy(fed), torch.from_numpy(lengths)), torch.from_numpy(labels)


def even(batch: Batch, rows: int, width: int) -> Batch:
    """The batch in the full shape of its bucket, so that a GPU meets one shape a bucket and no more.

    Both sides become `width` wide. Rows that are missing are filled up with texts of nothing, which belong to no
    example (`NOBODY`) and ask nothing: not one token long would be simpler still, but attention must look somewhere.
    """
    assert not isinstance(batch.source, Pictures), "pictures are all alike"
    source = None if batch.source is None else _filled(batch.source, rows, width, EOS)
    target = None if batch.target is None else _filled(batch.target, rows, width, BOS)
    labels = _placed(batch.labels, (rows, width if batch.labels.size(1) > 1 else 1), NOT_ASKED)
    return Batch(source, target, labels, _placed(batch.indices, (rows,), NOBODY))


def _filled(side: Sequences, rows: int, width: int, only: int) -> Sequences:
    """Padding to the right, and below it rows whose `only` token is this."""
    values = _placed(side.values, (rows, width), PAD)
    values[side.values.size(0) :, 0] = only
    lengths = _placed(side.lengths, (rows,), 1)
    return (
        Worded(values, lengths, _placed(side.words, (rows, width), 0))
        if isinstance(side, Worded)
        else Sequences(values, lengths)
    )


def _placed(tensor: torch.Tensor, shape: tuple[int, ...], padding: int) -> torch.Tensor:
    """A tensor in the first corner of a larger one."""
    larger = tensor.new_full(shape, padding)
    larger[tuple(slice(size) for size in tensor.shape)] = tensor
    return larger
