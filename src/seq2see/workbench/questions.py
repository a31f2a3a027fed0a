"""What a model that only reads can be asked: the shape that all such tasks have.

Models that write have one question, "what comes next?", and one way to answer it, decoding. Models that read have many
questions. All in which these differ stands on one page each (`fill.py`, ...); the training loop, the run folder,
`predict`, `eval` and the report know no more of them than is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.batch import NOT_ASKED, Batch, Pictures, Sequences, Worded
from seq2see.core.devices import autocast, device_of
from seq2see.decoding.prepacked import reading_twin
from seq2see.sequences.tokenisers import PAD
from seq2see.sources.examples import Example
from seq2see.workbench.lines import blamed
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Choice
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe

Splits = Mapping[str, Sequence[Example]]
Watch = Callable[[int], Any]
"""Told how much was done, again and again."""


@dataclass(frozen=True)
class Seen:
    """A text as a model reads it, or a picture."""

    text: str
    ids: list[int]
    """With <bos> and <eos>."""
    truncated: bool
    words: list[int] = field(default_factory=list)
    """Which word each id is part of, where that matters (see `Worded`)."""
    remarks: tuple[str, ...] = ()
    """What should be known about the text."""
    pixels: NDArray[np.uint8] | None = None
    """Of a picture, whose name is the text: (channel, height, width); of a film, frames of it."""

    @property
    def size(self) -> tuple[int, ...]:
        """What decides with whom it can be read side by side: texts with like long ones, pictures with equal ones."""
        return (len(self.ids),) if self.pixels is None else self.pixels.shape


@dataclass(frozen=True)
class Said:
    """The answer to one text, its log-probability, and for each thing that was asked what it may be."""

    seen: Seen
    text: str
    log_probability: float
    guesses: tuple[tuple[Choice, ...], ...]
    labels: tuple[str, ...] = ()
    """Of a question that has several answers a text: the likeliest of each."""


ROWS = 64
"""Texts read side by side; an answer never depends on its neighbours."""


class Task(Protocol):
    """Something that is learnt and is not the writing of texts, from the corpus to the score."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """How text is cut into tokens, and which answers there are; from the training examples alone."""

    def encode(self, recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> Any:
        """Examples as numbers: something that gives lengths, batches and warnings."""

    def shown(self, encoded: Any, count: int) -> list[Example]:
        """A few examples as a person would ask them, and their right answers."""

    def size(self, splits: Splits) -> int:
        """How much there is to judge, as `judge` counts it."""

    def judge(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, watch: Watch
    ) -> dict[str, Any]:
        """What an evaluation finds; tables and pictures go into the run's folder."""


class Question(Task, Protocol):
    """One kind of question about a text."""

    def read(self, stored: StoredModel, text: Any) -> Seen:
        """A text or a picture as numbers."""

    def answer(self, stored: StoredModel, seen: Seen, scores: Tensor, most: int) -> Said:
        """What log-probabilities (place, answer) say; of each thing that was asked, the `most` likely answers."""


def batch_of(seen: Sequence[Seen]) -> Batch:
    """Texts or pictures side by side; nobody knows the answers."""
    pixels = [each.pixels for each in seen if each.pixels is not None]
    if pixels:
        pictures = Pictures(torch.from_numpy(np.stack(pixels)))
        return Batch(pictures, None, torch.full((len(seen), 1), NOT_ASKED), torch.arange(len(seen)))
    source = Sequences.of([each.ids for each in seen], PAD)
    if any(each.words for each in seen):
        source = Worded(source.values, source.lengths, Sequences.of([each.words for each in seen]).values)
    return Batch(source, None, torch.full_like(source.values, NOT_ASKED), torch.arange(len(seen)))


@torch.inference_mode()
def say_all(
    question: Question,
    stored: StoredModel,
    texts: Sequence[Any],
    most: int,
    watch: Watch = lambda count: None,
    numbers: Sequence[int] | None = None,
    precision: str = "float32",
) -> list[Said]:
    """The answers to many texts, in their order; texts of like length are read side by side."""
    device = device_of(stored.module)
    # To pack matrices pays for a batch and more; its answers differ by rounding.
    module = reading_twin(stored.module, precision) if len(texts) > ROWS else stored.module
    seen = []
    for place, text in enumerate(texts):
        with blamed(numbers, place):
            seen.append(question.read(stored, text))
    found = dict[int, Said]()
    for places in _side_by_side(seen):
        batch = batch_of([seen[place] for place in places]).to(device)
        with autocast(device, precision):
            scores = module(batch).float().log_softmax(-1).cpu()
        found |= {
            place: question.answer(stored, seen[place], row, most) for place, row in zip(places, scores, strict=True)
        }
        watch(len(places))
    return [found[place] for place in range(len(seen))]


def _side_by_side(seen: Sequence[Seen]) -> Iterator[list[int]]:
    """The places of texts of like length, or of pictures of the same size."""
    by_size = sorted(range(len(seen)), key=lambda place: seen[place].size)
    for _, alike in groupby(by_size, key=lambda place: seen[place].pixels is None or seen[place].size):
        group = list(alike)
        yield from (group[start : start + ROWS] for start in range(0, len(group), ROWS))
