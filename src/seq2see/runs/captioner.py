"""Using a model that says in words what is to be seen in an image: the same decoder, behind another encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.decoding.hypotheses import Hypothesis
from seq2see.runs.engines import GenerationRequest
from seq2see.runs.image_classification import ImageClassification, named_image_batch, with_image_size
from seq2see.runs.input_lines import error_context
from seq2see.runs.model import Model, Prediction
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.task_protocols import EncodedInput
from seq2see.runs.text_attention import TextAttention
from seq2see.runs.tracing import NamedBatch, trace_batch
from seq2see.sequences.tokenizers import BOS, EOS


class Captioner(Model):
    """A trained model that looks at an image and describes it: `model("photo.jpg").text`."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        super().__init__(stored, engine)
        self.stored = stored

    def predict(
        self,
        texts: Sequence[Any],
        *,
        prefix: str = "",
        seed: int = 0,
        numbers: Sequence[int] | None = None,
        many: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Captions of many images (files, or pixels), in their order; `side` is the size they are seen in."""
        inputs = self._encode_inputs(texts, settings.pop("side", None), numbers)
        decoding, prefix_ids = self.config.decoding.with_(**settings), self.tokenizers.target.encode(prefix)
        own = range(len(texts)) if numbers is None else numbers
        found: dict[int, list[Hypothesis]] = {}
        by_size = sorted(range(len(inputs)), key=lambda place: inputs[place].size)
        for _, alike in groupby(by_size, key=lambda place: inputs[place].size):
            places = list(alike)
            images = [inputs[place].pixels for place in places]
            asked = GenerationRequest(images, [own[place] for place in places], decoding, prefix_ids, seed, many)
            found |= zip(places, self.engine.answer(asked, on_progress), strict=True)
        return [self._caption(each, found[place]) for place, each in enumerate(inputs)]

    def _caption(self, inputs: EncodedInput, found: list[Hypothesis]) -> Prediction:
        answers = self._outputs(inputs.text, [], found)
        return Prediction(
            inputs.text, answers, False, lambda _, answer: self._attention_of(inputs, answer), warnings=inputs.warnings
        )

    def _encode_inputs(
        self, texts: Sequence[Any], side: int | None = None, numbers: Sequence[int] | None = None
    ) -> list[EncodedInput]:
        stored, inputs = with_image_size(self.stored, side), []
        for place, text in enumerate(texts):
            with error_context(numbers, place):
                inputs.append(ImageClassification().read(stored, text))
        return inputs

    def warnings(self, text: str) -> tuple[str, ...]:
        """What should be known about an image before the model's answer to it is believed."""
        return self._encode_inputs([text])[0].warnings

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The caption, in one piece."""
        yield self.predict([text], seed=seed, **settings)[0].text

    def score(self, source: Any, target: str) -> float:
        """The log-probability of a given caption, its end included."""
        batch = self._teacher_forced_batch(self._encode_inputs([source])[0], target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        return float(scores[0].gather(-1, batch.labels[0][:, None]).sum())

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """An image and a caption (its own, if none is given) as the model reads them in one pass."""
        target = self.predict([source])[0].text if target is None else target
        return self._named_batch(self._encode_inputs([source])[0], target)

    def _named_batch(self, inputs: EncodedInput, target: str) -> NamedBatch:
        assert inputs.pixels is not None
        batch, write = self._teacher_forced_batch(inputs, target), self.tokenizers.target
        assert batch.target is not None
        ids = {"target": (write, batch.target.values[0].tolist()), "labels": (write, batch.labels[0].tolist())}
        words, image = NamedBatch.of(batch, ids), named_image_batch(self.config.model, inputs.pixels, batch)
        return replace(image, tokens=image.tokens | words.tokens, special=image.special | words.special)

    def _attention_of(self, inputs: EncodedInput, target: str) -> TextAttention:
        return TextAttention.of(trace_batch(self, self._named_batch(inputs, target)))

    def _teacher_forced_batch(self, inputs: EncodedInput, target: str) -> Batch:
        assert inputs.pixels is not None
        asked = [*self.tokenizers.target.encode(target), EOS]
        return Batch(
            source=Images.of(torch.from_numpy(np.ascontiguousarray(inputs.pixels))[None]),
            target=Sequences.of([[BOS, *asked[:-1]]]),
            labels=torch.tensor([asked]),
            indices=torch.zeros(1, dtype=torch.long),
        ).to(self.device)


def region_attention(attention: TextAttention, place: int) -> NDArray[Any]:
    """(down, across): where the model looked when it wrote one piece, by the last layer, mean of its heads."""
    taken = attention.matrix[place]
    patches = taken[-_patches(attention) :]
    down = int(attention.source[-1].split(",")[0])
    return patches.reshape(down, -1)


def _patches(attention: TextAttention) -> int:
    return sum("," in name for name in attention.source)
