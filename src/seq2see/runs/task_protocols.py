"""Protocols of the tasks that encoder-only models and forecasters are trained for.

Generative models share one task, next-token prediction, and one inference algorithm, decoding. Encoder-only models have
many tasks. Everything that is specific to a task is in one module (`fill_mask.py`, ...); the training loop, the run
folder, `predict`, `eval` and the report use only the methods defined here.
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

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences, WordSequences
from seq2see.core.devices import autocast, device_of
from seq2see.data.examples import Example
from seq2see.data.tokenizers.tokenizer import PAD
from seq2see.decoding.packed_weights import pack_for_large_batches
from seq2see.runs.input_lines import error_context
from seq2see.runs.model import ScoredText
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

Splits = Mapping[str, Sequence[Example]]
ProgressCallback = Callable[[int], Any]
"""Receives the number of examples processed since the last call."""


@dataclass(frozen=True)
class EncodedInput:
    """A text as token ids, or an image as pixels."""

    text: str
    ids: list[int]
    """Token ids, including <bos> and <eos>."""
    truncated: bool
    word_ids: list[int] = field(default_factory=list)
    """The word index of each token, for models with word embeddings or tags (see `WordSequences`)."""
    warnings: tuple[str, ...] = ()
    """Warnings about the text, for example unknown characters."""
    pixels: NDArray[np.uint8] | None = None
    """Image: (channel, height, width), `text` is its file name; video: (frame, channel, height, width)."""

    @property
    def size(self) -> tuple[int, ...]:
        """The batching key: texts are batched with texts of similar length, images with images of equal size."""
        return (len(self.ids),) if self.pixels is None else self.pixels.shape


@dataclass(frozen=True)
class TaskResult:
    """The prediction for one input, its log-probability, and the candidates at each predicted position."""

    inputs: EncodedInput
    text: str
    log_probability: float
    candidates: tuple[tuple[ScoredText, ...], ...]
    labels: tuple[str, ...] = ()
    """The best label at each position, for tasks with several labels per text."""


BATCH_SIZE = 64
"""Inputs per batch; a prediction does not depend on the other inputs of its batch."""


class Task(Protocol):
    """A task other than text generation, from the corpus to the scores."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Learn the tokenizers and the label set from the training examples."""

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Encode examples as a dataset with lengths, batches and warnings."""

    def sample_examples(self, dataset: Any, count: int) -> list[Example]:
        """A few examples for the sample tables: inputs as a user types them, and their references."""

    def size(self, splits: Splits) -> int:
        """The total amount of work of `evaluate`, in the units that it reports to `on_progress`."""

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Compute the scores; tables and figures are written to the run folder."""


class EncoderTask(Task, Protocol):
    """A task of an encoder-only model."""

    def preprocess(self, stored: StoredModel, text: Any) -> EncodedInput:
        """Encode a text or an image."""

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """Convert log-probabilities (position, class) to a prediction and the `top_k` candidates at each position."""


def batch_of(inputs: Sequence[EncodedInput]) -> Batch:
    """Collate texts or images into a batch without labels."""
    pixels = [each.pixels for each in inputs if each.pixels is not None]
    if pixels:
        images = Images(torch.from_numpy(np.stack(pixels)))
        return Batch(images, None, torch.full((len(inputs), 1), IGNORE_INDEX), torch.arange(len(inputs)))
    source = Sequences.of([each.ids for each in inputs], PAD)
    if any(each.word_ids for each in inputs):
        source = WordSequences(source.values, source.lengths, Sequences.of([each.word_ids for each in inputs]).values)
    return Batch(source, None, torch.full_like(source.values, IGNORE_INDEX), torch.arange(len(inputs)))


@torch.inference_mode()
def predict_all(
    task: EncoderTask,
    stored: StoredModel,
    texts: Sequence[Any],
    top_k: int,
    on_progress: ProgressCallback = lambda count: None,
    indices: Sequence[int] | None = None,
    precision: str = "float32",
) -> list[TaskResult]:
    """The predictions for many inputs, in their order; texts of similar length share a batch."""
    device = device_of(stored.module)
    # Packing weights pays off from one full batch on; packed weights change predictions by rounding errors.
    module = pack_for_large_batches(stored.module, precision) if len(texts) > BATCH_SIZE else stored.module
    inputs = []
    for position, text in enumerate(texts):
        with error_context(indices, position):
            inputs.append(task.preprocess(stored, text))
    results = dict[int, TaskResult]()
    for positions in _batches(inputs):
        batch = batch_of([inputs[position] for position in positions]).to(device)
        with autocast(device, precision):
            scores = module(batch).float().log_softmax(-1).cpu()
        results |= {
            position: task.postprocess(stored, inputs[position], row, top_k)
            for position, row in zip(positions, scores, strict=True)
        }
        on_progress(len(positions))
    return [results[position] for position in range(len(inputs))]


def _batches(inputs: Sequence[EncodedInput]) -> Iterator[list[int]]:
    """Indices of inputs, batch by batch: texts of similar length, or images of equal size."""
    by_size = sorted(range(len(inputs)), key=lambda position: inputs[position].size)
    for _, same_size in groupby(by_size, key=lambda position: inputs[position].pixels is None or inputs[position].size):
        group = list(same_size)
        yield from (group[start : start + BATCH_SIZE] for start in range(0, len(group), BATCH_SIZE))
