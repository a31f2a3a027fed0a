"""Prediction with encoder-only models: one forward pass gives all outputs, so there is no decoding."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.tokenizers.tokenizer import BOS, EOS, MASK_TEXT
from seq2see.models.settings import NgramEmbeddingSettings
from seq2see.runs.fill_mask import FillMask
from seq2see.runs.image_classification import named_image_batch, with_image_size
from seq2see.runs.input_warnings import unknown_token_warnings
from seq2see.runs.model import Model, Output, Prediction, format_candidates, reject_settings
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.sentence_embeddings import EmbeddingArray, embed_texts
from seq2see.runs.task_protocols import EncodedInput, TaskResult, batch_of, predict_all
from seq2see.runs.tasks import encoder_task_of
from seq2see.runs.text_attention import TextAttention
from seq2see.runs.token_classification import split_words
from seq2see.runs.tracing import NamedBatch, trace_batch


class Predictor(Model):
    """A trained encoder-only model: `model("the [MASK] sat").candidates`."""

    def __init__(self, stored: StoredModel, engine: str = "torch"):
        if engine != "torch":
            raise UserError(f"The engine {engine} is for generative models only.", hint="Leave out --engine.")
        self.config, self.tokenizers, self.module = stored.config, stored.tokenizers, stored.module
        self.device = device_of(stored.module)
        self.stored, self.task = stored, encoder_task_of(stored.config.model)

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
        stored = with_image_size(self.stored, settings.pop("image_size", None))
        reject_settings(["top_k", "precision"], prefix, settings, "This is an encoder-only model")
        decoding = self.config.decoding.with_(**settings)
        if decoding.precision == "int8":
            raise UserError("int8 is for generative models only.", hint="Set decoding.precision=bf16.")
        results = predict_all(self.task, stored, texts, decoding.top_k, on_progress, indices, decoding.precision)
        return [self._result_prediction(each) for each in results]

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The prediction with its candidates, as a single chunk."""
        prediction = self(text, **settings)
        yield prediction.text + format_candidates(prediction)

    def embed(self, texts: Sequence[str], on_progress: Callable[[int], Any] = lambda count: None) -> EmbeddingArray:
        """(text, width): an embedding of length 1 for each text; `e @ e.T` are the cosine similarities."""
        return embed_texts(self.stored, texts, on_progress)

    def score(self, source: str, target: str) -> float:
        """The log-probability of a given label or filler, for inputs with one prediction."""
        candidates = self(source, top_k=0).candidates
        matches = [each for some in candidates for each in some if target in (each.text, each.text.strip())]
        if len(candidates) != 1 or not matches:
            raise UserError(f"{target[:40]!r} is not a possible prediction for {source[:40]!r}.")
        return math.log(max(matches[0].probability, sys.float_info.min))

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A text or an image as a batch of one; the target is ignored."""
        return self._named_batch(self.encode_input(source))

    def encode_input(self, source: Any) -> EncodedInput:
        """Encode a text or an image; a masked language model also accepts a text without [MASK]."""
        if not isinstance(self.task, FillMask) or MASK_TEXT in source:
            return self.task.preprocess(self.stored, source)
        ids = self.tokenizers.source.encode(source)
        truncated = ids[: self.config.model.source_text.max_tokens]
        return EncodedInput(source, [BOS, *truncated, EOS], len(truncated) < len(ids))

    def _named_batch(self, inputs: EncodedInput) -> NamedBatch:
        batch = batch_of([inputs]).to(self.device)
        if inputs.pixels is not None:
            return named_image_batch(self.config.model, inputs.pixels, batch)
        if isinstance(self.config.model.source_text.embedding, NgramEmbeddingSettings):  # inputs are <bos> and words
            words = ["<bos>", *split_words(inputs.text)[: max(inputs.word_ids)]]
            return NamedBatch(batch, {"source": words}, {"source": [True] + [False] * (len(words) - 1)})
        return NamedBatch.of(batch, {"source": (self.tokenizers.source, inputs.ids)})

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
        return self._warnings(self.task.preprocess(self.stored, text))

    def _warnings(self, inputs: EncodedInput) -> tuple[str, ...]:
        masked = isinstance(self.task, FillMask)  # [MASK] is a known token
        text = inputs.text.replace(MASK_TEXT, " ") if masked else inputs.text
        return inputs.warnings + unknown_token_warnings(text, inputs.ids, self.tokenizers.source)
