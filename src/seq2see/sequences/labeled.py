"""Texts with a label each, as numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Sequences
from seq2see.core.errors import UserError
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.pair_dataset import EncodedTexts, PairDataset, take_padded
from seq2see.sequences.tokenizers import BOS, PAD, Tokenizer
from seq2see.sources.examples import Example


class LabeledTextDataset(PairDataset):
    """Pairs whose target is no text but one of a few labels: `<bos> x1 .. xn <eos>`, and the number of the label."""

    prefix_length = 1  # <bos>

    def __init__(self, examples: Sequence[Example], tokenizer: Tokenizer, labels: Sequence[str], max_tokens: int):
        self.examples, self.max_tokens_by_side, self.tokenizers = (
            examples,
            {"source": max_tokens},
            {"source": tokenizer},
        )
        self.sides = {"source": EncodedTexts.of([example.source for example in examples], tokenizer, max_tokens)}
        self.labels = label_ids(examples, labels)

    @property
    def characters(self) -> int:
        """How long all texts are together, in characters."""
        return sum(len(example.source) for example in self.examples)

    def batch(self, indices: IntArray) -> Batch:
        """These texts and their labels, one a row."""
        side = self.sides["source"]
        values = take_padded(side.ids, *side.token_indices(indices, self.prefix_length), PAD)
        values[:, 0] = BOS
        source = Sequences(torch.from_numpy(values), torch.from_numpy(side.lengths[indices] + self.prefix_length))
        labels = torch.from_numpy(self.labels[indices][:, None])
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all ids, of the tokenizer that made them, and of the labels."""
        return hashlib.sha256(super().fingerprint.encode() + self.labels.astype("<i8").tobytes()).hexdigest()


def label_ids(examples: Sequence[Example], labels: Sequence[str]) -> NDArray[np.int64]:
    """The number of each example's label; one that nobody has learned is refused."""
    numbers = {label: number for number, label in enumerate(labels)}
    for example in examples:
        if example.target not in numbers:
            known = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise UserError(
                f"The label {example.target[:40]!r} does not occur in the training examples; there are: {known}.",
                location=example.location,
                hint="Add examples with this label to the training data, or correct it.",
            )
    return np.array([numbers[example.target] for example in examples], np.int64)
