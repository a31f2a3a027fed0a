"""Time series as windows of numbers: inputs, and the next value as label.

Compare `windows.py`, whose tokens are predicted from a vocabulary. Numbers have none: they are scaled, so that the
training values have mean 0 and standard deviation 1, and the label is the next value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Sequences
from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.data.examples import Example
from seq2see.data.pair_dataset import IntArray
from seq2see.data.tokenizers.tokenizer import Tokenizer
from seq2see.data.windows import TextDataset

Values = NDArray[np.float32]
DIGITS = 6
"""Significant digits of a number in text."""


class StandardScaler(Tokenizer):
    """The counterpart of a tokenizer for series: (x - mean) / std, and its inverse."""

    file = "scaler.json"
    is_text = False

    def __init__(self, mean: float, std: float):
        self.kind, self.mean, self.std = "numbers", mean, std

    @staticmethod
    def of(texts: Iterable[str]) -> StandardScaler:
        """The scaler with which these numbers have mean 0 and standard deviation 1."""
        values = np.array([value for text in texts for value in parse_numbers(text)])
        if values.min() == values.max():
            raise UserError(
                f"All training values are {values[0]:g}: there is nothing to predict.",
                hint="Give a series that varies, or another corpus.column.",
            )
        return StandardScaler(float(values.mean()), float(values.std()))

    def __len__(self) -> int:
        """1: a value is predicted directly, not from a vocabulary."""
        return 1

    def encode(self, text: str) -> list[float]:  # type: ignore[override]  # numbers where texts have ids
        """The numbers of a text, scaled."""
        return [(value - self.mean) / self.std for value in parse_numbers(text)]

    def decode(self, ids: Iterable[float]) -> str:
        """Scaled numbers as a text, in the original scale."""
        return " ".join(f"{value * self.std + self.mean:.{DIGITS}g}" for value in ids)

    def tokens(self, ids: Iterable[float]) -> list[str]:
        """Each number as a string to display; `·` for NaN."""
        return [self.decode([value]) if value == value else "·" for value in ids]

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of mean and standard deviation."""
        return hashlib.sha256(json.dumps([self.mean, self.std]).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write mean and standard deviation to a JSON file."""
        write_json(path, {"mean": self.mean, "std": self.std})

    @staticmethod
    def load(path: Path) -> StandardScaler:
        """Read a file that `save` wrote; any other file is an error."""
        try:
            found = load_json(path)
            return StandardScaler(float(found["mean"]), float(found["std"]))
        except (ValueError, KeyError, TypeError):
            raise UserError("This file has no scaler.", location=str(path), hint="Restore it from a copy.") from None


def parse_numbers(text: str) -> list[float]:
    """The numbers in a text, separated by spaces, commas or line ends.

    >>> parse_numbers("1, 2.5\\n-3e-1")
    [1.0, 2.5, -0.3]
    """
    numbers = []
    for field in re.split(r"[\s,，]+", text.strip()) if text.strip() else []:
        try:
            numbers.append(float(field))
        except ValueError:
            raise UserError(f"'{field}' is not a number.", hint="Write numbers as 12.5 or 1e-3.") from None
        if not np.isfinite(numbers[-1]):
            raise UserError(f"'{field}' is not a finite number.", hint="Leave it out, or fill the gap.")
    return numbers


class SeriesDataset(TextDataset):
    """A series as consecutive windows: inputs x(1) .. x(n), labels x(2) .. x(n+1).

    The first `context` positions of each window have no label: with fewer previous values than that, a model does not
    have its full context. Every value after the first `context` + 1 is a label once. A window is at most half as wide
    as the series is long, because training needs two windows.
    """

    setting = "target.context_length"
    ids: Values  # type: ignore[assignment]  # numbers instead of token ids

    def __init__(self, examples: Sequence[Example], scaler: StandardScaler, width: int, context: int = 0):
        self.examples, self.tokenizer, self.context = examples, scaler, context
        self.ids = np.array([value for each in examples for value in scaler.encode(each.target)], np.float32)
        if len(self.ids) < context + 2:
            raise UserError(
                f"There are {len(self.ids)} values for training, validation or testing: too few for a model with a "
                f"context of {context + 1}.",
                hint="Give a longer series, or set decoder.context to a smaller number.",
            )
        self.width = min(width, len(self.ids) // 2)
        self.starts = np.arange(0, len(self.ids) - 1 - context, self.width)

    @property
    def lengths(self) -> IntArray:
        """(window, 1): the number of inputs of each window."""
        return np.minimum(self.width + self.context, len(self.ids) - 1 - self.starts)[:, None]

    def batch(self, indices: IntArray) -> Batch:
        """These windows."""
        return self.window_batch(self.starts[indices], indices)

    def training_batch(self, starts: IntArray, indices: IntArray, seed: int, step: int) -> Batch:
        """Windows that start at any position, but early enough to have labels."""
        latest = max(0, len(self.ids) - 1 - self.context - self.width)
        return self.window_batch(np.minimum(starts, latest), indices)

    def window_batch(self, starts: IntArray, indices: IntArray, context: IntArray | int = 0) -> Batch:
        """Windows that start at any position."""
        lengths = np.minimum(self.width + self.context, len(self.ids) - 1 - starts)
        times = np.arange(int(lengths.max()))
        positions, label_mask = starts[:, None] + times, (times < lengths[:, None]) & (times >= self.context)
        inputs = torch.from_numpy(self.ids.take(positions, mode="clip"))
        labels = np.where(label_mask, self.ids.take(positions + 1, mode="clip"), np.float32(np.nan))
        indices = np.array(indices, np.int64)
        target = Sequences(inputs, torch.from_numpy(lengths))
        return Batch(None, target, torch.from_numpy(labels), torch.from_numpy(indices))

    def warnings(self) -> list[str]:
        """No warnings: numbers are never unknown."""
        return []
