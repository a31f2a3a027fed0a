"""Asking a model that only reads: all its answers come at once, so there is nothing to decode."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.inspection.trace import trace
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.classify_pictures import patch_names, seeing
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Answer, Model, Prediction, guessed, refuse_others
from seq2see.workbench.questions import Said, Seen, batch_of, say_all
from seq2see.workbench.remarks import unknown_in
from seq2see.workbench.tasks import question_of
from seq2see.workbench.vectors import Vectors, vectors_of


class Asker(Model):
    """A trained model that reads a text and says something about it: `model("the [MASK] sat").guesses`."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        if engine != "own":
            raise UserError(f"The engine {engine} is for models that write.", remedy="Leave out --engine.")
        self.config, self.tokenisers, self.module = stored.config, stored.tokenisers, stored.module
        self.device = device_of(stored.module)
        self.stored, self.question = stored, question_of(stored.config.model)

    def predict(
        self,
        texts: Sequence[Any],
        *,
        prefix: str = "",
        seed: int = 0,
        numbers: Sequence[int] | None = None,
        many: bool = False,
        watch: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Predictions for many texts, in their order; `top_k` is how many likely answers are told, 0 all of them.

        Where pictures are looked at, texts are their files, or arrays of pixels; `side` is the size they are seen in.
        """
        stored = seeing(self.stored, settings.pop("side", None))
        refuse_others("top_k", prefix, settings, "This model only reads")
        most = self.config.decoding.with_(**settings).top_k
        said = say_all(self.question, stored, texts, most, watch, numbers)
        return [self._said(each) for each in said]

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The answer, and what else was likely: it comes in one piece."""
        prediction = self(text, **settings)
        yield prediction.text + guessed(prediction)

    def vectors(self, texts: Sequence[str], watch: Callable[[int], Any] = lambda count: None) -> Vectors:
        """(text, width): a vector of length 1 for each text; `vectors @ vectors.T` tells how alike every two are."""
        return vectors_of(self.stored, texts, watch)

    def score(self, source: str, target: str) -> float:
        """The log-probability of an answer to a text that asks for one."""
        guesses = self(source, top_k=0).guesses
        found = [each for guess in guesses for each in guess if target in (each.text, each.text.strip())]
        if len(guesses) != 1 or not found:
            raise UserError(f"{target[:40]!r} is not an answer to {source[:40]!r}.")
        return math.log(max(found[0].probability, sys.float_info.min))

    def trace(self, source: str, target: str | None = None) -> TextAttention:
        """Where each piece of the text looks, or each patch of the picture."""
        return self._traced(self.question.read(self.stored, source))

    def _traced(self, seen: Seen) -> TextAttention:
        with torch.inference_mode(), trace(self.module) as maps:
            self.module(batch_of([seen]).to(self.device))
        weights = [each.weights[0].float().cpu().numpy() for each in maps if not each.across]
        if seen.pixels is None:
            pieces = self.tokenisers.source.pieces(seen.ids)
        else:
            pieces = patch_names(self.config.model, seen.pixels)
        return TextAttention(pieces, pieces, [each.name for each in maps if not each.across], weights)

    def _said(self, said: Said) -> Prediction:
        seen = said.seen
        answer = Answer(said.text, said.log_probability, said.log_probability, True, len(seen.ids))
        # Of what was seen, not of what it is called: pixels in memory have no name, and sizes may be others.
        explain, remarks = (lambda source, text: self._traced(seen)), self._remarks(seen)
        return Prediction(seen.text, (answer,), seen.truncated, explain, said.guesses, remarks)

    def remarks(self, text: str) -> tuple[str, ...]:
        """What should be known about a text before the model's answer to it is believed."""
        return self._remarks(self.question.read(self.stored, text))

    def _remarks(self, seen: Seen) -> tuple[str, ...]:
        return seen.remarks + unknown_in(seen.text, seen.ids, self.tokenisers.source)
