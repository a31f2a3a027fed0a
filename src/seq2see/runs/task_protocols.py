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

from seq2see.core.batch import NOT_ASKED, Batch, Images, Sequences, WordSequences
from seq2see.core.devices import autocast, device_of
from seq2see.decoding.packed_weights import pack_for_large_batches
from seq2see.runs.input_lines import error_context
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.run_folder import RunFolder
from seq2see.sequences.tokenizers import PAD
from seq2see.sources.examples import Example

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

Splits = Mapping[str, Sequence[Example]]
ProgressCallback = Callable[[int], Any]
"""Told how much was done, again and again."""


@dataclass(frozen=True)
class EncodedInput:
    """A text as a model reads it, or an image."""

    text: str
    ids: list[int]
    """With <bos> and <eos>."""
    truncated: bool
    word_ids: list[int] = field(default_factory=list)
    """Which word each id is part of, where that matters (see `WordSequences`)."""
    warnings: tuple[str, ...] = ()
    """What should be known about the text."""
    pixels: NDArray[np.uint8] | None = None
    """Of an image, whose name is the text: (channel, height, width); of a video, frames of it."""

    @property
    def size(self) -> tuple[int, ...]:
        """What decides with whom it can be read side by side: texts with like long ones, images with equal ones."""
        return (len(self.ids),) if self.pixels is None else self.pixels.shape


@dataclass(frozen=True)
class TaskResult:
    """The answer to one text, its log-probability, and for each thing that was asked what it may be."""

    inputs: EncodedInput
    text: str
    log_probability: float
    candidates: tuple[tuple[ScoredText, ...], ...]
    labels: tuple[str, ...] = ()
    """Of a question that has several answers a text: the likeliest of each."""


BATCH_SIZE = 64
"""Texts read side by side; an answer never depends on its neighbors."""


class Task(Protocol):
    """Something that is learned and is not the writing of texts, from the corpus to the score."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """How text is cut into tokens, and which answers there are; from the training examples alone."""

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Examples as numbers: something that gives lengths, batches and warnings."""

    def sample_examples(self, dataset: Any, count: int) -> list[Example]:
        """A few examples as a person would ask them, and their right answers."""

    def size(self, splits: Splits) -> int:
        """How much there is to judge, as `evaluate` counts it."""

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """What an evaluation finds; tables and images go into the run's folder."""


class EncoderTask(Task, Protocol):
    """One kind of question about a text."""

    def preprocess(self, stored: StoredModel, text: Any) -> EncodedInput:
        """A text or an image as numbers."""

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """What log-probabilities (place, answer) say; of each thing that was asked, the `top_k` likely answers."""


def batch_of(inputs: Sequence[EncodedInput]) -> Batch:
    """Texts or images side by side; nobody knows the answers."""
    pixels = [each.pixels for each in inputs if each.pixels is not None]
    if pixels:
        images = Images(torch.from_numpy(np.stack(pixels)))
        return Batch(images, None, torch.full((len(inputs), 1), NOT_ASKED), torch.arange(len(inputs)))
    source = Sequences.of([each.ids for each in inputs], PAD)
    if any(each.word_ids for each in inputs):
        source = WordSequences(source.values, source.lengths, Sequences.of([each.word_ids for each in inputs]).values)
    return Batch(source, None, torch.full_like(source.values, NOT_ASKED), torch.arange(len(inputs)))


@torch.inference_mode()
def predict_all(
    task: EncoderTask,
    stored: StoredModel,
    texts: Sequence[Any],
    top_k: int,
    on_progress: ProgressCallback = lambda count: None,
    numbers: Sequence[int] | None = None,
    precision: str = "float32",
) -> list[TaskResult]:
    """The answers to many texts, in their order; texts of like length are read side by side."""
    device = device_of(stored.module)
    # To pack matrices pays for a batch and more; its answers differ by rounding.
    module = pack_for_large_batches(stored.module, precision) if len(texts) > BATCH_SIZE else stored.module
    inputs = []
    for place, text in enumerate(texts):
        with error_context(numbers, place):
            inputs.append(task.preprocess(stored, text))
    found = dict[int, TaskResult]()
    for places in _side_by_side(inputs):
        batch = batch_of([inputs[place] for place in places]).to(device)
        with autocast(device, precision):
            scores = module(batch).float().log_softmax(-1).cpu()
        found |= {
            place: task.postprocess(stored, inputs[place], row, top_k)
            for place, row in zip(places, scores, strict=True)
        }
        on_progress(len(places))
    return [found[place] for place in range(len(inputs))]


def _side_by_side(inputs: Sequence[EncodedInput]) -> Iterator[list[int]]:
    """The places of texts of like length, or of images of the same size."""
    by_size = sorted(range(len(inputs)), key=lambda place: inputs[place].size)
    for _, alike in groupby(by_size, key=lambda place: inputs[place].pixels is None or inputs[place].size):
        group = list(alike)
        yield from (group[start : start + BATCH_SIZE] for start in range(0, len(group), BATCH_SIZE))
