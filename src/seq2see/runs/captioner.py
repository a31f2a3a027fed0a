"""Prediction with captioning models: an image or video encoder and a text decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.data.tokenizers.tokenizer import BOS, EOS
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.runs.engines import GenerationRequest
from seq2see.runs.image_classification import ImageClassification, named_image_batch, with_image_size
from seq2see.runs.input_lines import error_context
from seq2see.runs.model import Model, Prediction
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.task_protocols import EncodedInput
from seq2see.runs.text_attention import TextAttention
from seq2see.runs.tracing import NamedBatch, trace_batch


class Captioner(Model):
    """A trained captioning model: `model("photo.jpg").text`."""

    def __init__(self, stored: StoredModel, engine: str = "torch"):
        super().__init__(stored, engine)
        self.stored = stored

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
        """Captions of many images (file names or pixels), in their order; `image_size` is the resolution."""
        inputs = self._encode_inputs(texts, settings.pop("image_size", None), indices)
        decoding, prefix_ids = self.config.decoding.with_(**settings), self.tokenizers.target.encode(prefix)
        numbers = range(len(texts)) if indices is None else indices
        results: dict[int, list[Hypothesis]] = {}
        by_size = sorted(range(len(inputs)), key=lambda index: inputs[index].size)
        for _, same_size in groupby(by_size, key=lambda index: inputs[index].size):
            group = list(same_size)
            images = [inputs[index].pixels for index in group]
            group_indices = [numbers[index] for index in group]
            request = GenerationRequest(images, group_indices, decoding, prefix_ids, seed, large_batch)
            results |= zip(group, self.engine.generate(request, on_progress), strict=True)
        return [self._caption(each, results[index]) for index, each in enumerate(inputs)]

    def _caption(self, inputs: EncodedInput, hypotheses: list[Hypothesis]) -> Prediction:
        outputs = self._outputs(inputs.text, [], hypotheses)
        return Prediction(
            inputs.text,
            outputs,
            False,
            lambda _, caption: self._caption_attention(inputs, caption),
            warnings=inputs.warnings,
        )

    def _encode_inputs(
        self, texts: Sequence[Any], image_size: int | None = None, indices: Sequence[int] | None = None
    ) -> list[EncodedInput]:
        stored, inputs = with_image_size(self.stored, image_size), []
        for index, text in enumerate(texts):
            with error_context(indices, index):
                inputs.append(ImageClassification().preprocess(stored, text))
        return inputs

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an image, for example that it was resized."""
        return self._encode_inputs([text])[0].warnings

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The caption, as a single chunk."""
        yield self.predict([text], seed=seed, **settings)[0].text

    def score(self, source: Any, target: str) -> float:
        """The log-probability of a given caption, <eos> included."""
        batch = self._caption_batch(self._encode_inputs([source])[0], target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        return float(scores[0].gather(-1, batch.labels[0][:, None]).sum())

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """An image and a caption (default: the model's own) as a batch of one, with teacher forcing."""
        target = self.predict([source])[0].text if target is None else target
        return self._named_batch(self._encode_inputs([source])[0], target)

    def _named_batch(self, inputs: EncodedInput, target: str) -> NamedBatch:
        assert inputs.pixels is not None
        batch, tokenizer = self._caption_batch(inputs, target), self.tokenizers.target
        assert batch.target is not None
        ids = {"target": (tokenizer, batch.target.values[0].tolist()), "labels": (tokenizer, batch.labels[0].tolist())}
        words, image = NamedBatch.of(batch, ids), named_image_batch(self.config.model, inputs.pixels, batch)
        return replace(image, tokens=image.tokens | words.tokens, special=image.special | words.special)

    def _caption_attention(self, inputs: EncodedInput, target: str) -> TextAttention:
        return TextAttention.of(trace_batch(self, self._named_batch(inputs, target)))

    def _caption_batch(self, inputs: EncodedInput, target: str) -> Batch:
        assert inputs.pixels is not None
        target_ids = [*self.tokenizers.target.encode(target), EOS]
        return Batch(
            source=Images.of(torch.from_numpy(np.ascontiguousarray(inputs.pixels))[None]),
            target=Sequences.of([[BOS, *target_ids[:-1]]]),
            labels=torch.tensor([target_ids]),
            indices=torch.zeros(1, dtype=torch.long),
        ).to(self.device)


def region_attention(attention: TextAttention, position: int) -> NDArray[Any]:
    """(row, column): the attention from one token to the patches, in the last layer, mean of its heads."""
    weights = attention.matrix[position][-_patch_count(attention) :]
    rows = int(attention.source[-1].split(",")[0])
    return weights.reshape(rows, -1)


def _patch_count(attention: TextAttention) -> int:
    return sum("," in name for name in attention.source)
