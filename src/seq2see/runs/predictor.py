"""Asking a model that only reads: all its answers come at once, so there is nothing to decode."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
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
from seq2see.sequences.tokenizers import BOS, EOS, MASK_TEXT


class Predictor(Model):
    """A trained model that reads a text and says something about it: `model("the [MASK] sat").candidates`."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        if engine != "own":
            raise UserError(f"The engine {engine} is for models that write.", hint="Leave out --engine.")
        self.config, self.tokenizers, self.module = stored.config, stored.tokenizers, stored.module
        self.device = device_of(stored.module)
        self.stored, self.task = stored, encoder_task_of(stored.config.model)

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
        """Predictions for many texts, in their order; `top_k` is how many likely answers are told, 0 all of them.

        Where images are looked at, texts are their files, or arrays of pixels; `side` is the size they are seen in.
        """
        stored = with_image_size(self.stored, settings.pop("side", None))
        reject_settings(["top_k", "precision"], prefix, settings, "This model only reads")
        decoding = self.config.decoding.with_(**settings)
        if decoding.precision == "int8":
            raise UserError("int8 is for models that write.", hint="Set decoding.precision=bf16.")
        said = predict_all(self.task, stored, texts, decoding.top_k, on_progress, numbers, decoding.precision)
        return [self._prediction(each) for each in said]

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The answer, and what else was likely: it comes in one piece."""
        prediction = self(text, **settings)
        yield prediction.text + format_candidates(prediction)

    def embed(self, texts: Sequence[str], on_progress: Callable[[int], Any] = lambda count: None) -> EmbeddingArray:
        """(text, width): a vector of length 1 for each text; `embed @ embed.T` tells how alike every two are."""
        return embed_texts(self.stored, texts, on_progress)

    def score(self, source: str, target: str) -> float:
        """The log-probability of an answer to a text that asks for one."""
        candidates = self(source, top_k=0).candidates
        found = [each for guess in candidates for each in guess if target in (each.text, each.text.strip())]
        if len(candidates) != 1 or not found:
            raise UserError(f"{target[:40]!r} is not an answer to {source[:40]!r}.")
        return math.log(max(found[0].probability, sys.float_info.min))

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A text or an image as the model reads it; it writes nothing, so a target has no meaning."""
        return self._named_batch(self.inputs(source))

    def inputs(self, source: Any) -> EncodedInput:
        """A text or an image as numbers; where blanks are filled, a text without one can be read all the same."""
        if not isinstance(self.task, FillMask) or MASK_TEXT in source:
            return self.task.read(self.stored, source)
        ids = self.tokenizers.source.encode(source)
        kept = ids[: self.config.model.source_text.max_tokens]
        return EncodedInput(source, [BOS, *kept, EOS], len(kept) < len(ids))

    def _named_batch(self, seen: EncodedInput) -> NamedBatch:
        batch = batch_of([seen]).to(self.device)
        if seen.pixels is not None:
            return named_image_batch(self.config.model, seen.pixels, batch)
        if isinstance(
            self.config.model.source_text.frontend, NgramEmbeddingSettings
        ):  # it reads words, behind a beginning that is none
            words = ["<bos>", *split_words(seen.text)[: max(seen.words)]]
            return NamedBatch(batch, {"source": words}, {"source": [True] + [False] * (len(words) - 1)})
        return NamedBatch.of(batch, {"source": (self.tokenizers.source, seen.ids)})

    def _attention_of(self, seen: EncodedInput) -> TextAttention:
        page = self._attention_page(seen.text) if seen.pixels is None else None
        return TextAttention.of(trace_batch(self, self._named_batch(seen)), page)

    def _prediction(self, said: TaskResult) -> Prediction:
        seen = said.inputs
        answer = Output(said.text, said.log_probability, said.log_probability, True, len(seen.ids))
        # Of what was seen, not of what it is called: pixels in memory have no name, and sizes may be others.
        explain, warnings = (lambda source, text: self._attention_of(seen)), self._warnings(seen)
        return Prediction(seen.text, (answer,), seen.truncated, explain, said.candidates, warnings)

    def warnings(self, text: str) -> tuple[str, ...]:
        """What should be known about a text before the model's answer to it is believed."""
        return self._warnings(self.task.read(self.stored, text))

    def _warnings(self, seen: EncodedInput) -> tuple[str, ...]:
        read = seen.text.replace(MASK_TEXT, " ") if isinstance(self.task, FillMask) else seen.text  # a blank is known
        return seen.warnings + unknown_token_warnings(read, seen.ids, self.tokenizers.source)
