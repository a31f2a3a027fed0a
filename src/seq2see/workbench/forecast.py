"""Using a model of a series: give it the last values, and it says the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.decoding.numbers import forecast
from seq2see.workbench.attention import TextAttention
from seq2see.workbench.lines import blamed
from seq2see.workbench.look import Reading
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Answer, Model, Prediction, refuse_others
from seq2see.workbench.waves import context_of


class Forecaster(Model):
    """A trained model of a series: `model("0.1 0.2 0.35", max_new_tokens=8).text` are the next eight values."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        if engine != "own":
            raise UserError(f"The engine {engine} is for models that write texts.", remedy="Leave out --engine.")
        self.config, self.tokenisers, self.module = stored.config, stored.tokenisers, stored.module
        self.device = device_of(stored.module)
        self.stored = stored

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        seed: int = 0,
        numbers: Sequence[int] | None = None,
        many: bool = False,
        watch: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """How each series goes on; `max_new_tokens` is by how many values."""
        refuse_others(["max_new_tokens"], prefix, settings, "A series is not decoded")
        count, found = self.config.decoding.with_(**settings).max_new_tokens, []
        for place, text in enumerate(texts):
            with blamed(numbers, place):
                found.append(self._go_on(text, count))
            watch(1)
        return found

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The values that follow, in one piece: with the series before them they are a series again."""
        yield f" {self(text, **settings).text}"

    def remarks(self, text: str) -> tuple[str, ...]:
        """A number is a number."""
        return ()

    def score(self, source: str, target: str) -> float:
        """A guess is a number without a probability."""
        raise UserError("A model of a series gives no probabilities.", remedy="`seq2see eval` tells its errors.")

    def reading(self, source: Any, target: str | None) -> Reading:
        """A series as the model reads it; what it would write next stands for nothing that was given."""
        values = self._values(source)
        scale: Any = self.tokenisers.source
        nothing = float("nan")  # is written as a dot: nobody knows the next value
        tokens = {"target": scale.pieces(values), "written": scale.pieces([*values[1:], nothing])}
        return Reading(self._of_values(values), tokens, {side: [False] * len(values) for side in tokens})

    def along(self, text: str) -> list[float]:
        """Of the last values, what it said of the one behind each: from true values alone, none of its own.

        A model that sees a window says it wherever so many values stand before, one with a memory of all that it sees.
        """
        scale: Any = self.tokenisers.source
        values, alone = self._values(text), 0
        if self._windowed:
            values, alone = scale.encode(text), len(values) - 1  # before those a window is not full
        with torch.inference_mode():
            said = self.module(self._of_values(values))[0, alone:, 0].float()
        return [float(each) * scale.spread + scale.mean for each in said]

    def _of_values(self, values: list[float]) -> Batch:
        numbers = torch.tensor([values], device=self.device)
        read = Sequences(numbers, torch.tensor([len(values)], device=self.device))
        return Batch(None, read, numbers, torch.arange(1))

    def _go_on(self, text: str, count: int) -> Prediction:
        values = self._values(text)
        said = forecast(self.module, torch.tensor([values], device=self.device), count)[0].tolist()
        # There is only one, so nothing is ranked.
        answer = Answer(self.tokenisers.source.decode(said), 0.0, 0.0, True, count)
        return Prediction(text, (answer,), False, lambda source, answer: TextAttention.of(self.trace(source)))

    def _values(self, text: str) -> list[float]:
        context = context_of(self.config.model)
        values: list[float] = self.tokenisers.source.encode(text)[-context:]  # type: ignore[assignment]
        if not values or (len(values) < context and self._windowed):
            raise UserError(
                f"This model goes on from the last {context} values, and here are {len(values)}.",
                remedy="Give more of the series, with spaces or commas between the values.",
            )
        return values

    @property
    def _windowed(self) -> bool:
        return self.config.model.decoder is not None and self.config.model.decoder.kind == "window"
