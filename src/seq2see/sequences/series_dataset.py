"""A series of numbers as windows: what a model reads of it at one time, and what it is asked.

Compare `windows.py`, whose tokens are guessed out of a vocabulary. Numbers have none: they are scaled, so that those
that are learned from have mean 0 and spread 1, and what is asked is the next one.
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
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.sequences.buckets import IntArray
from seq2see.sequences.tokenizers import Tokenizer
from seq2see.sequences.windows import TextDataset
from seq2see.sources.examples import Example

Values = NDArray[np.float32]
DIGITS = 6
"""Digits of a number that is said."""


class StandardScaler(Tokenizer):
    """What a series has where texts have a tokenizer: (x - mean) / spread, and back."""

    file = "scaler.json"

    def __init__(self, mean: float, std: float):
        self.kind, self.mean, self.std = "numbers", mean, std

    @staticmethod
    def of(texts: Iterable[str]) -> StandardScaler:
        """The scale on which these numbers have mean 0 and standard deviation 1."""
        values = np.array([value for text in texts for value in parse_numbers(text)])
        if values.min() == values.max():
            raise UserError(
                f"All values to learn from are {values[0]:g}: there is nothing to guess.",
                hint="Give a series that changes, or another corpus.column.",
            )
        return StandardScaler(float(values.mean()), float(values.std()))

    def __len__(self) -> int:
        """Numbers are guessed as they are, one at a time."""
        return 1

    def encode(self, text: str) -> list[float]:  # type: ignore[override]  # numbers where texts have ids
        """The numbers that a text holds, scaled."""
        return [(value - self.mean) / self.std for value in parse_numbers(text)]

    def decode(self, ids: Iterable[float]) -> str:
        """Scaled numbers as a text."""
        return " ".join(f"{value * self.std + self.mean:.{DIGITS}g}" for value in ids)

    def tokens(self, ids: Iterable[float]) -> list[str]:
        """Each number as something to look at; `·` where none is asked for."""
        return [self.decode([value]) if value == value else "·" for value in ids]

    @property
    def fingerprint(self) -> str:
        """What decides how a number is read."""
        return hashlib.sha256(json.dumps([self.mean, self.std]).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write it down."""
        write_json(path, {"mean": self.mean, "std": self.std})

    @staticmethod
    def load(path: Path) -> StandardScaler:
        """Read what `save` wrote; anything else is refused."""
        try:
            found = json.loads(path.read_bytes())
            return StandardScaler(float(found["mean"]), float(found["std"]))
        except (ValueError, KeyError, TypeError):
            raise UserError("This is not a scale.", location=str(path), hint="Restore it from a copy.") from None


def parse_numbers(text: str) -> list[float]:
    """The numbers in a text, between spaces, commas or ends of lines.

    >>> numbers_of("1, 2.5\\n-3e-1")
    [1.0, 2.5, -0.3]
    """
    found = []
    for word in re.split(r"[\s,，]+", text.strip()) if text.strip() else []:
        try:
            found.append(float(word))
        except ValueError:
            raise UserError(f"'{word}' is not a number.", hint="Write numbers as 12.5 or 1e-3.") from None
        if not np.isfinite(found[-1]):
            raise UserError(f"'{word}' is not a finite number.", hint="Leave it out, or fill the gap.")
    return found


class SeriesDataset(TextDataset):
    """A series in windows one behind the other: fed x(1) .. x(n), asked for x(2) .. x(n+1).

    The first `shown` places of each window are fed and not asked: there a model that sees so many values more does not
    yet see all that it can. Every value behind the first `shown` + 1 is asked for once. A window is at most half
    as wide as the series is long: training needs room for two.
    """

    setting = "target.context_length"
    ids: Values  # type: ignore[assignment]  # numbers where texts have ids

    def __init__(self, examples: Sequence[Example], scale: StandardScaler, width: int, shown: int = 0):
        self.examples, self.tokenizer, self.context = examples, scale, shown
        self.ids = np.array([value for each in examples for value in scale.encode(each.target)], np.float32)
        if len(self.ids) < shown + 2:
            raise UserError(
                f"There are {len(self.ids)} values to learn from, to validate on or to test on: too few for a model "
                f"that sees {shown + 1}.",
                hint="Give a longer series, or set decoder.context to less.",
            )
        self.width = min(width, len(self.ids) // 2)
        self.starts = np.arange(0, len(self.ids) - 1 - shown, self.width)

    @property
    def lengths(self) -> IntArray:
        """(window, 1): how many values each is fed."""
        return np.minimum(self.width + self.context, len(self.ids) - 1 - self.starts)[:, None]

    def batch(self, indices: IntArray) -> Batch:
        """These windows."""
        return self.window_batch(self.starts[indices], indices)

    def training_batch(self, starts: IntArray, indices: IntArray, seed: int, step: int) -> Batch:
        """Windows that begin anywhere, as one step of training sees them; none so late that it asks nothing."""
        latest = max(0, len(self.ids) - 1 - self.context - self.width)
        return self.window_batch(np.minimum(starts, latest), indices)

    def window_batch(self, starts: IntArray, indices: IntArray, shown: IntArray | int = 0) -> Batch:
        """Windows that begin anywhere."""
        lengths = np.minimum(self.width + self.context, len(self.ids) - 1 - starts)
        times = np.arange(int(lengths.max()))
        places, asked = starts[:, None] + times, (times < lengths[:, None]) & (times >= self.context)
        fed = torch.from_numpy(self.ids.take(places, mode="clip"))
        labels = np.where(asked, self.ids.take(places + 1, mode="clip"), np.float32(np.nan))
        indices = np.array(indices, np.int64)
        target = Sequences(fed, torch.from_numpy(lengths))
        return Batch(None, target, torch.from_numpy(labels), torch.from_numpy(indices))

    def warnings(self) -> list[str]:
        """Numbers hide nothing."""
        return []
