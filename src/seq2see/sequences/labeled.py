"""Labeled texts as token ids, for text classification."""

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
    """Texts with one of a few labels each: `<bos> x1 .. xn <eos>`, and the label id."""

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
        """The total length of all texts, in characters."""
        return sum(len(example.source) for example in self.examples)

    def batch(self, indices: IntArray) -> Batch:
        """These texts and their labels, one per row."""
        side = self.sides["source"]
        values = take_padded(side.ids, *side.token_indices(indices, self.prefix_length), PAD)
        values[:, 0] = BOS
        source = Sequences(torch.from_numpy(values), torch.from_numpy(side.lengths[indices] + self.prefix_length))
        labels = torch.from_numpy(self.labels[indices][:, None])
        return Batch(source, None, labels, torch.from_numpy(np.array(indices, np.int64)))

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all token ids, of the tokenizer, and of the labels."""
        return hashlib.sha256(super().fingerprint.encode() + self.labels.astype("<i8").tobytes()).hexdigest()


def label_ids(examples: Sequence[Example], labels: Sequence[str]) -> NDArray[np.int64]:
    """The label id of each example; a label without an id is an error."""
    ids = {label: index for index, label in enumerate(labels)}
    for example in examples:
        if example.target not in ids:
            names = ", ".join(labels[:10]) + (", ..." if len(labels) > 10 else "")
            raise UserError(
                f"The label {example.target[:40]!r} does not occur in the training examples; there are: {names}.",
                location=example.location,
                hint="Add examples with this label to the training data, or correct it.",
            )
    return np.array([ids[example.target] for example in examples], np.int64)
