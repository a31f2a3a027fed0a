"""Encoder-only tasks: one forward pass gives all outputs, so there is no decoding."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.core.batch import IGNORE_INDEX, Batch, Images, Sequences, WordSequences
from seq2see.core.devices import autocast, device_of
from seq2see.core.errors import UserError
from seq2see.data.readers.lines import is_blank
from seq2see.data.tokenizers.tokenizer import PAD
from seq2see.models.encoder_model import normalized_embedding
from seq2see.tasks.generative import evaluate_teacher_forced
from seq2see.tasks.model import (
    Model,
    NamedBatch,
    Output,
    Prediction,
    ScoredText,
    TextAttention,
    format_candidates,
    reject_settings,
    trace_batch,
)
from seq2see.tasks.model_folder import Candidates, StoredModel, unknown_token_warnings
from seq2see.tasks.task import EncodedInput, Task, error_context

EmbeddingArray = NDArray[np.float32]
ProgressCallback = Callable[[int], Any]
"""Receives the number of examples processed since the last call."""


@dataclass(frozen=True)
class TaskResult:
    """The prediction for one input, its log-probability, and the candidates at each predicted position."""

    inputs: EncodedInput
    text: str
    log_probability: float
    candidates: tuple[tuple[ScoredText, ...], ...] = ()
    labels: tuple[str, ...] = ()
    """The best label at each position, for tasks with several labels per text."""


REORDERED_CANDIDATES = 5
"""The number of candidates for token ids in another order."""
SHOWN_CANDIDATES = 8
"""The number of candidates that are shown if the whole vocabulary are candidates."""
BATCH_SIZE = 64
"""Inputs per batch; a prediction does not depend on the other inputs of its batch."""


class EncoderOnlyTask(Task):
    """A task of a model with an encoder and a head."""

    settings_slot: ClassVar[str] = "prediction"
    pretrained_parts: ClassVar[tuple[str, ...]] = ("source", "encoder")
    head_of_labels: ClassVar[bool] = True

    @abstractmethod
    def encode(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a text or an image."""

    def encode_for_trace(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a text or an image for a trace, which may accept more than a prediction does."""
        return self.encode(stored, raw)

    def encode_for_embedding(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Encode a text or an image for an embedding of the whole input."""
        return self.encode(stored, raw)

    @abstractmethod
    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """Convert `scores` (position, class) to a prediction and the `top_k` candidates at each position."""

    def scores(self, logits: Tensor) -> Tensor:
        """The scores that `postprocess` receives: here log-probabilities (position, class)."""
        return logits.log_softmax(-1)

    def with_settings(self, stored: StoredModel, settings: dict[str, Any]) -> StoredModel:
        """The model with settings of a prediction that change it, which are removed from `settings`."""
        return stored

    def shown_settings(self, model: Any) -> dict[str, Any]:
        """All labels, or some tokens of a vocabulary."""
        return {"top_k": 0 if model.tokenizers.labels else SHOWN_CANDIDATES}

    def text_without_masks(self, text: str) -> str:
        """An input without [MASK], in which unknown tokens are searched for."""
        return text

    def named_batch(self, stored: StoredModel, inputs: EncodedInput, batch: Batch) -> NamedBatch:
        """A batch of one with the names of its tokens."""
        return NamedBatch.of(batch, {"source": (stored.tokenizers.source, inputs.ids)})

    def open(self, stored: StoredModel, engine: Any) -> Predictor:
        """The Python interface of a model of this task."""
        return Predictor(stored, engine, self)

    def validate(self, module: nn.Module, valid: Any, check: Callable[[], Any]) -> tuple[float, dict[str, float]]:
        """The mean loss of a label, and the accuracy."""
        perplexity, accuracy = evaluate_teacher_forced(module, valid, check)
        return perplexity.loss / perplexity.count, {"valid_accuracy": accuracy.value}


class EncoderEngine(Protocol):
    """Runs the forward passes of an encoder-only model."""

    def module_for(self, module: nn.Module, count: int, precision: str) -> nn.Module:
        """The module itself, or a copy of it that is faster for this number of inputs."""


class Predictor(Model):
    """A trained encoder-only model: `model("the [MASK] sat").candidates`."""

    task: EncoderOnlyTask
    engine: EncoderEngine  # type: ignore[assignment]

    def predict(
        self,
        texts: Sequence[Any],
        *,
        prefix: str = "",
        seed: int = 0,
        indices: Sequence[int] | None = None,
        large_batch: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Predictions for many texts, in their order; `top_k` is the number of candidates (0: all classes).

        For image models, `texts` are file names or pixel arrays, and `image_size` is the resolution.
        """
        model = Predictor(self.task.with_settings(self.stored, settings), self.engine, self.task)
        reject_settings(list(Candidates.model_fields), prefix, settings, "This is an encoder-only model", "prediction")
        prediction = self.config.prediction.with_(**settings)
        results = predict_all(model, texts, prediction.top_k, on_progress, indices, prediction.precision)
        return [self._result_prediction(each) for each in results]

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The prediction with its candidates, as a single chunk."""
        prediction = self(text, **settings)
        yield prediction.text + format_candidates(prediction)

    def embed(self, texts: Sequence[str], on_progress: Callable[[int], Any] = lambda count: None) -> EmbeddingArray:
        """(text, width): an embedding of length 1 for each text; `e @ e.T` are the cosine similarities."""
        return embed_texts(self.task, self.stored, texts, on_progress)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given label or filler, for inputs with one prediction."""
        candidates = self(source, top_k=0).candidates
        matches = [each for some in candidates for each in some if target in (each.text, each.text.strip())]
        if len(candidates) != 1 or not matches:
            raise UserError(f"{target[:40]!r} is not a possible prediction for {source[:40]!r}.")
        return math.log(max(matches[0].probability, sys.float_info.min))

    def token_ids(self, text: Any) -> list[int]:
        """The token ids of a text, as the model receives them."""
        return self.encode_input(text).ids

    def predict_tokens(self, text: Any, ids: list[int]) -> tuple[str, tuple[tuple[ScoredText, ...], ...]]:
        """The prediction for these token ids of a text, for example in another order, and its candidates."""
        inputs = replace(self.encode_input(text), ids=ids)
        with torch.inference_mode():
            scores = self.task.scores(self.module(batch_of([inputs]).to(self.device)).float())[0].cpu()
        result = self.task.postprocess(self.stored, inputs, scores, REORDERED_CANDIDATES)
        return result.text, result.candidates

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A text or an image as a batch of one; the target is ignored."""
        return self._named_batch(self.encode_input(source))

    def encode_input(self, source: Any) -> EncodedInput:
        """Encode a text or an image for a trace."""
        return self.task.encode_for_trace(self.stored, source)

    def _named_batch(self, inputs: EncodedInput) -> NamedBatch:
        return self.task.named_batch(self.stored, inputs, batch_of([inputs]).to(self.device))

    def _input_attention(self, inputs: EncodedInput) -> TextAttention:
        page = self._attention_page(inputs.text) if inputs.pixels is None else None
        return TextAttention.of(trace_batch(self, self._named_batch(inputs)), page)

    def _result_prediction(self, result: TaskResult) -> Prediction:
        inputs = result.inputs
        output = Output(result.text, result.log_probability, result.log_probability, True, len(inputs.ids))
        # Computed from the encoded input: pixels in memory have no file name, and the image size may differ.
        attention, warnings = (lambda source, text: self._input_attention(inputs)), self._warnings(inputs)
        return Prediction(inputs.text, (output,), inputs.truncated, attention, result.candidates, warnings)

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an input of this model, for example unknown characters."""
        return self._warnings(self.task.encode(self.stored, text))

    def _warnings(self, inputs: EncodedInput) -> tuple[str, ...]:
        text = self.task.text_without_masks(inputs.text)
        return inputs.warnings + unknown_token_warnings(text, inputs.ids, self.tokenizers.source)


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
    model: Predictor,
    texts: Sequence[Any],
    top_k: int,
    on_progress: ProgressCallback = lambda count: None,
    indices: Sequence[int] | None = None,
    precision: str = "float32",
) -> list[TaskResult]:
    """The predictions for many inputs, in their order; texts of similar length share a batch."""
    task, stored, device = model.task, model.stored, model.device
    module = model.engine.module_for(stored.module, len(texts), precision)
    inputs = []
    for position, text in enumerate(texts):
        with error_context(indices, position):
            inputs.append(task.encode(stored, text))
    results = dict[int, TaskResult]()
    for positions in _batches(inputs):
        batch = batch_of([inputs[position] for position in positions]).to(device)
        with autocast(device, precision):
            scores = task.scores(module(batch).float()).cpu()
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


@torch.inference_mode()
def embed_texts(
    task: EncoderOnlyTask,
    stored: StoredModel,
    texts: Sequence[str],
    on_progress: Callable[[int], Any] = lambda count: None,
) -> EmbeddingArray:
    """(text, width): the embedding of each text, of length 1; zeros for an empty text.

    For an image model, the texts are names of image files.
    """
    device = device_of(stored.module)
    module: Any = stored.module
    inputs = {index: task.encode_for_embedding(stored, text) for index, text in enumerate(texts) if not is_blank(text)}
    assert stored.config.model.encoder is not None
    vectors = getattr(getattr(stored.module, "pooling", None), "vector_count", 1)
    embeddings = np.zeros((len(texts), vectors * stored.config.model.encoder.width), np.float32)
    by_length = sorted(inputs, key=lambda index: len(inputs[index].ids))
    for start in range(0, len(by_length), BATCH_SIZE):
        indices = by_length[start : start + BATCH_SIZE]
        source = batch_of([inputs[index] for index in indices]).to(device).source
        assert source is not None
        embeddings[indices] = normalized_embedding(module, source).float().cpu().numpy()
        on_progress(len(indices))
    return embeddings
