"""Prediction with time-series models: forecast the next values of a series."""

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
    """A trained forecasting model: `model("0.1 0.2 0.35", max_new_tokens=8).text` are the next eight values."""

    def __init__(self, stored: StoredModel, engine: str = "torch"):
        if engine != "torch":
            raise UserError(f"The engine {engine} is for text-generating models only.", hint="Leave out --engine.")
        self.config, self.tokenizers, self.module = stored.config, stored.tokenizers, stored.module
        self.device = device_of(stored.module)
        self.stored = stored

    def predict(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        seed: int = 0,
        indices: Sequence[int] | None = None,
        large_batch: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Forecast the continuation of each series by `max_new_tokens` values."""
        reject_settings(["max_new_tokens"], prefix, settings, "A forecast is not decoded")
        count, predictions = self.config.decoding.with_(**settings).max_new_tokens, []
        for index, text in enumerate(texts):
            with error_context(indices, index):
                predictions.append(self._forecast(text, count))
            on_progress(1)
        return predictions

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The next values, as a single chunk that can be appended to the series."""
        yield f" {self(text, **settings).text}"

    def warnings(self, text: str) -> tuple[str, ...]:
        """Series give no warnings."""
        return ()

    def score(self, source: str, target: str) -> float:
        """Not available: a point forecast has no probability."""
        raise UserError("A forecasting model gives no probabilities.", hint="`seq2see eval` reports its errors.")

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """A series as a batch of one; the label of its last value is unknown."""
        values = self._values(source)
        scale: Any = self.tokenizers.source
        unknown = float("nan")  # shown as a dot
        tokens = {"target": scale.tokens(values), "labels": scale.tokens([*values[1:], unknown])}
        return NamedBatch(self._batch_of(values), tokens, {side: [False] * len(values) for side in tokens})

    def one_step_forecasts(self, text: str) -> list[float]:
        """One-step forecasts after each of the last values, with the true values as inputs (teacher forcing).

        A model with a context window forecasts wherever its window is full; a recurrent model after every value.
        """
        scale: Any = self.tokenizers.source
        values, first = self._values(text), 0
        if self._has_window:
            values, first = scale.encode(text), len(values) - 1  # before these the window is not full
        with torch.inference_mode():
            forecasts = self.module(self._batch_of(values))[0, first:, 0].float()
        return [float(each) * scale.std + scale.mean for each in forecasts]

    def _batch_of(self, values: list[float]) -> Batch:
        series = torch.tensor([values], device=self.device)
        inputs = Sequences(series, torch.tensor([len(values)], device=self.device))
        return Batch(None, inputs, series, torch.arange(1))

    def _forecast(self, text: str, count: int) -> Prediction:
        values = self._values(text)
        predicted = forecast(self.module, torch.tensor([values], device=self.device), count)[0].tolist()
        # One output without probability: the scores are 0.
        output = Output(self.tokenizers.source.decode(predicted), 0.0, 0.0, True, count)
        return Prediction(text, (output,), False, lambda source, output: TextAttention.of(self.trace(source)))

    def _values(self, text: str) -> list[float]:
        context = context_of(self.config.model)
        values: list[float] = self.tokenizers.source.encode(text)[-context:]  # type: ignore[assignment]
        if not values or (len(values) < context and self._has_window):
            raise UserError(
                f"This model forecasts from the last {context} values, but the input has {len(values)}.",
                hint="Add more values, separated by spaces or commas.",
            )
        return values

    @property
    def _has_window(self) -> bool:
        return self.config.model.decoder is not None and self.config.model.decoder.kind == "mlp"
