"""Using a model of a series: give it the last values, and it says the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.decoding.forecasting import forecast
from seq2see.runs.forecasting import context_of
from seq2see.runs.input_lines import error_context
from seq2see.runs.model import Model, Output, Prediction, reject_settings
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.text_attention import TextAttention
from seq2see.runs.tracing import NamedBatch


class Forecaster(Model):
    """A trained model of a series: `model("0.1 0.2 0.35", max_new_tokens=8).text` are the next eight values."""

    def __init__(self, stored: StoredModel, engine: str = "own"):
        if engine != "own":
            raise UserError(f"The engine {engine} is for models that write texts.", hint="Leave out --engine.")
        self.config, self.tokenizers, self.module = stored.config, stored.tokenizers, stored.module
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
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """How each series goes on; `max_new_tokens` is by how many values."""
        reject_settings(["max_new_tokens"], prefix, settings, "A series is not decoded")
        count, found = self.config.decoding.with_(**settings).max_new_tokens, []
        for place, text in enumerate(texts):
            with error_context(numbers, place):
                found.append(self._forecast(text, count))
            on_progress(1)
        return found

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The values that follow, in one piece: with the series before them they are a series again."""
        yield f" {self(text, **settings).text}"

    def warnings(self, text: str) -> tuple[str, ...]:
        """A number is a number."""
        return ()

    def score(self, source: str, target: str) -> float:
        """A guess is a number without a probability."""
        raise UserError("A model of a series gives no probabilities.", hint="`seq2see eval` tells its errors.")

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A series as the model reads it; what it would write next stands for nothing that was given."""
        values = self._values(source)
        scale: Any = self.tokenizers.source
        nothing = float("nan")  # is written as a dot: nobody knows the next value
        tokens = {"target": scale.pieces(values), "labels": scale.pieces([*values[1:], nothing])}
        return NamedBatch(self._of_values(values), tokens, {side: [False] * len(values) for side in tokens})

    def one_step_forecasts(self, text: str) -> list[float]:
        """Of the last values, what it said of the one behind each: from true values alone, none of its own.

        A model that sees a window says it wherever so many values stand before, one with a memory of all that it sees.
        """
        scale: Any = self.tokenizers.source
        values, alone = self._values(text), 0
        if self._has_window:
            values, alone = scale.encode(text), len(values) - 1  # before those a window is not full
        with torch.inference_mode():
            said = self.module(self._of_values(values))[0, alone:, 0].float()
        return [float(each) * scale.std + scale.mean for each in said]

    def _of_values(self, values: list[float]) -> Batch:
        numbers = torch.tensor([values], device=self.device)
        read = Sequences(numbers, torch.tensor([len(values)], device=self.device))
        return Batch(None, read, numbers, torch.arange(1))

    def _forecast(self, text: str, count: int) -> Prediction:
        values = self._values(text)
        said = forecast(self.module, torch.tensor([values], device=self.device), count)[0].tolist()
        # There is only one, so nothing is ranked.
        answer = Output(self.tokenizers.source.decode(said), 0.0, 0.0, True, count)
        return Prediction(text, (answer,), False, lambda source, answer: TextAttention.of(self.trace(source)))

    def _values(self, text: str) -> list[float]:
        context = context_of(self.config.model)
        values: list[float] = self.tokenizers.source.encode(text)[-context:]  # type: ignore[assignment]
        if not values or (len(values) < context and self._has_window):
            raise UserError(
                f"This model goes on from the last {context} values, and here are {len(values)}.",
                hint="Give more of the series, with spaces or commas between the values.",
            )
        return values

    @property
    def _has_window(self) -> bool:
        return self.config.model.decoder is not None and self.config.model.decoder.kind == "window"
