"""Texts with a label each, as numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.sequences.buckets import Numbers
from seq2see.sequences.pairs import PairSet, Side, read_at
from seq2see.sequences.tokenisers import BOS, PAD, Tokeniser
from seq2see.sources.examples import Example


class LabelledTexts(PairSet):
    """Pairs whose target is no text but one of a few labels: `<bos> x1 .. xn <eos>`, and the number of the label."""

    before = 1  # <bos>

    def __init__(self, examples: Sequence[Example], tokeniser: Tokeniser, labels: Sequence[str], limit: int):
        self.examples, self.limits, self.tokenisers = examples, {"source": limit}, {"source": tokeniser}
        self.sides = {"source": Side.of([example.source for example in examples], tokeniser, limit)}
        self.labels = label_numbers(examples, labels)

    @property
    def characters(self) -> int:
        """How long all texts are together, in characters."""
        return sum(len(example.source) for example in self.examples)

    def batch(self, indices: Numbers) -> Batch:
        """These texts and their labels, one a row."""
        side = self.sides["source"]
        values = read_at(side.ids, *side.places(indices, self.before), PAD)
        values[:, 0] = BOS
        source = Sequences(torch.from_numpy(values), torch.from_numpy(side.lengths[indices] + self.before))
        labels = torch.from_numpy(self.labels[indices][:, None])
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all ids, of the tokeniser that made them, and of the labels."""
        return hashlib.sha256(super().fingerprint.encode() + self.labels.astype("<i8").tobytes()).hexdigest()


def label_numbers(examples: Sequence[Example], labels: Sequence[str]) -> NDArray[np.int64]:
    """The number of each example's label; one that nobody has learnt is refused."""
    numbers = {label: number for number, label in enumerate(labels)}
    for example in examples:
        if example.target not in numbers:
            known = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise UserError(
                f"The label {example.target[:40]!r} does not occur in the training examples; there are: {known}.",
                where=example.place,
                remedy="Add examples with this label to the training data, or correct it.",
            )
    return np.array([numbers[example.target] for example in examples], np.int64)
