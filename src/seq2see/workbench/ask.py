"""Asking a model that only reads: all its answers come at once, so there is nothing to decode."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.models.settings import Ngrams
from seq2see.sequences.tokenisers import BOS, EOS, MASK_TEXT
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.classify_pictures import reading_of_picture, seeing
from seq2see.workbench.fill import Fill
from seq2see.workbench.look import Reading, look_at
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Answer, Model, Prediction, guessed, refuse_others
from seq2see.workbench.questions import Said, Seen, batch_of, say_all
from seq2see.workbench.remarks import unknown_in
from seq2see.workbench.tag import words_of
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
        refuse_others(["top_k", "precision"], prefix, settings, "This model only reads")
        decoding = self.config.decoding.with_(**settings)
        if decoding.precision == "int8":
            raise UserError("int8 is for models that write.", remedy="Set decoding.precision=bf16.")
        said = say_all(self.question, stored, texts, decoding.top_k, watch, numbers, decoding.precision)
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

    def reading(self, source: Any, target: str | None) -> Reading:
        """A text or a picture as the model reads it; it writes nothing, so a target has no meaning."""
        return self._reading(self.seen(source))

    def seen(self, source: Any) -> Seen:
        """A text or a picture as numbers; where blanks are filled, a text without one can be read all the same."""
        if not isinstance(self.question, Fill) or MASK_TEXT in source:
            return self.question.read(self.stored, source)
        ids = self.tokenisers.source.encode(source)
        kept = ids[: self.config.model.read.longest]
        return Seen(source, [BOS, *kept, EOS], len(kept) < len(ids))

    def _reading(self, seen: Seen) -> Reading:
        batch = batch_of([seen]).to(self.device)
        if seen.pixels is not None:
            return reading_of_picture(self.config.model, seen.pixels, batch)
        if isinstance(self.config.model.read.frontend, Ngrams):  # it reads words, behind a beginning that is none
            words = ["<bos>", *words_of(seen.text)[: max(seen.words)]]
            return Reading(batch, {"source": words}, {"source": [True] + [False] * (len(words) - 1)})
        return Reading.of(batch, {"source": (self.tokenisers.source, seen.ids)})

    def _explained(self, seen: Seen) -> TextAttention:
        page = self._page(seen.text) if seen.pixels is None else None
        return TextAttention.of(look_at(self, self._reading(seen)), page)

    def _said(self, said: Said) -> Prediction:
        seen = said.seen
        answer = Answer(said.text, said.log_probability, said.log_probability, True, len(seen.ids))
        # Of what was seen, not of what it is called: pixels in memory have no name, and sizes may be others.
        explain, remarks = (lambda source, text: self._explained(seen)), self._remarks(seen)
        return Prediction(seen.text, (answer,), seen.truncated, explain, said.guesses, remarks)

    def remarks(self, text: str) -> tuple[str, ...]:
        """What should be known about a text before the model's answer to it is believed."""
        return self._remarks(self.question.read(self.stored, text))

    def _remarks(self, seen: Seen) -> tuple[str, ...]:
        read = seen.text.replace(MASK_TEXT, " ") if isinstance(self.question, Fill) else seen.text  # a blank is known
        return seen.remarks + unknown_in(read, seen.ids, self.tokenisers.source)
