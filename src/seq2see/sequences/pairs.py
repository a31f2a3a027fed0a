"""Pairs of texts as numbers, ready to become batches: everything is encoded once, then only gathered."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import NOT_ASKED, Batch, Sequences
from seq2see.sequences.buckets import Numbers, padded_width
from seq2see.sequences.tokenisers import BOS, EOS, PAD, UNK, Tokeniser
from seq2see.sources.examples import Example

MANY_UNKNOWN = 0.05
SHOWN = 5


@dataclass(frozen=True)
class Side:
    """All texts of one side: their ids in one long array, and where each text begins in it."""

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
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=int(starts[-1]))
        for array in (ids, starts, truncated):
            array.setflags(write=False)
        return Side(ids, starts, truncated)

    @property
    def lengths(self) -> Numbers:
        """How many tokens each text has."""
        return np.diff(self.starts)

    @property
    def unknown_rate(self) -> float:
        """Which part of the tokens is <unk>."""
        return float(np.mean(self.ids == UNK)) if len(self.ids) else 0.0

    def gather(self, indices: Numbers, width: int, padding: int) -> Numbers:
        """(row, width): the ids of some texts, with padding behind them."""
        starts = self.starts[indices]
        times = np.arange(width)
        real = times < (self.starts[indices + 1] - starts)[:, None]
        values = np.full(real.shape, padding, dtype=np.int64)
        values[real] = self.ids[(starts[:, None] + times)[real]]
        return values


class PairSet:
    """Examples as numbers: gives the lengths for the buckets and the batches for the steps.

    A text is cut to `limit` tokens (a source to its own limit, if it has one); its row in a batch is one
    longer, for <bos> or <eos>. Without a tokeniser for the source (a language model) batches have no source.
    """

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
    def lengths(self) -> Numbers:
        """(example, side): how long each row is, <bos> or <eos> counted."""
        return np.stack([side.lengths + 1 for side in self.sides.values()], axis=1)

    @property
    def unknown_rates(self) -> dict[str, float]:
        """Which part of each side's tokens is <unk>."""
        return {name: side.unknown_rate for name, side in self.sides.items()}

    def batch(self, indices: Numbers) -> Batch:
        """Source `x1 .. xn <eos>`, target `<bos> y1 .. yn`, labels `y1 .. yn <eos>`."""
        source = None
        if "source" in self.sides:
            source = Sequences(*_with_end(self.sides["source"], indices, PAD))
        labels, lengths = _with_end(self.sides["target"], indices, NOT_ASKED)
        shifted = self.sides["target"].gather(indices, labels.size(1) - 1, PAD)
        fed = torch.from_numpy(np.pad(shifted, ((0, 0), (1, 0)), constant_values=BOS))
        return Batch(source, Sequences(fed, lengths), labels, torch.from_numpy(np.array(indices, np.int64)))

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


def _with_end(side: Side, indices: Numbers, padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows `y1 .. yn <eos>` and their lengths, as wide as their bucket."""
    lengths = side.starts[indices + 1] - side.starts[indices]
    width = int(padded_width(int(lengths.max()) + 1))
    values = side.gather(indices, width, padding)
    values[np.arange(len(indices)), lengths] = EOS
    return torch.from_numpy(values), torch.from_numpy(lengths + 1)
