"""Time-series forecasting: from a column of numbers to forecasts, one step and many steps ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.data.examples import Example
from seq2see.data.series_dataset import SeriesDataset, StandardScaler
from seq2see.decoding.forecasting import forecast
from seq2see.metrics.forecast_errors import HORIZONS, Forecasts, LinearAutoregression, Values, persistence_forecast
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.settings import ModelSettings, Series
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import ProgressCallback, Splits

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

CONTEXTS = (1, 2, 4, 8, 16, 32)
"""Context lengths of the linear autoregressive baselines."""
BATCH_SIZE = 256
"""Forecasts per batch."""
SHOWN = 8
"""Values of a sample that are predicted; the context of a sample has at least as many values."""


def context_of(settings: ModelSettings) -> int:
    """The context length of a model in values: its window, or the length of its training windows."""
    assert isinstance(settings.target, Series)
    window = isinstance(settings.decoder, MLPDecoderSettings)
    return settings.decoder.context if window else settings.target.context_length  # type: ignore[union-attr]


class Forecasting:
    """Predict the continuation of a series of numbers."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Compute mean and standard deviation of the training values."""
        scale = StandardScaler.of(example.target for example in train)
        return Tokenizers(scale, scale)

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> SeriesDataset:
        """Split the series into windows; the first prediction of a window has a full context."""
        assert isinstance(recipe.target, Series)
        assert isinstance(tokenizers.source, StandardScaler)
        width = recipe.target.context_length
        context = recipe.decoder.context - 1 if isinstance(recipe.decoder, MLPDecoderSettings) else 0
        return SeriesDataset(examples, tokenizers.source, width, context)

    def sample_examples(self, dataset: SeriesDataset, count: int) -> list[Example]:
        """Segments of the series, and their continuations."""
        length = max(dataset.context + 1, SHOWN)
        starts = range(0, len(dataset.ids) - length - SHOWN, max(1, len(dataset.ids) // count))
        decode, ids = dataset.tokenizer.decode, dataset.ids
        return [
            Example(decode(ids[start : start + length]), decode(ids[start + length : start + length + SHOWN]))
            for start in list(starts)[:count]
        ]

    def size(self, splits: Splits) -> int:
        """The number of test values."""
        return sum(example.target.count("\n") for example in splits["test"])

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """The errors of the forecasts, of linear autoregression (least squares) and of persistence forecasts."""
        parts = {name: np.array(scaled_values(stored, examples)) for name, examples in splits.items()}
        if not len(parts["test"]):
            raise UserError("There are no test values.", hint="Provide a longer series, or set corpus.test.")
        one_series = not getattr(recipe.corpus, "test", ()) and not getattr(recipe.corpus, "valid", ())
        # Held-out values follow the training values; separate files are separate series.
        before = [parts["train"], parts["valid"]] if one_series else []
        values, first = np.concatenate([*before, parts["test"]]), sum(map(len, before))
        forecasts = Forecasts.of(
            values, first, context_of(stored.config.model), lambda contexts: _forecast(stored, contexts, on_progress)
        )
        if not forecasts.predictions:
            raise UserError(
                f"There are {len(values)} test values: too few for a model with a context of {forecasts.context}.",
                hint="Provide a longer test series.",
            )
        std = stored.tokenizers.source.std  # type: ignore[attr-defined]
        rows = [{"name": "model", "context": forecasts.context, "errors": rescaled_errors(forecasts, values, std)}]
        persistence = Forecasts.of(values, first, 1, persistence_forecast)
        rows.append({"name": "persistence", "context": 1, "errors": rescaled_errors(persistence, values, std)})
        for context in (context for context in CONTEXTS if 2 * context + 2 <= len(parts["train"])):
            linear = Forecasts.of(values, first, context, LinearAutoregression.of(parts["train"], context))
            rows.append({"name": "linear", "context": context, "errors": rescaled_errors(linear, values, std)})
        write_forecasts(stored, values, first, forecasts, run)
        return {"series": {"values": len(parts["test"]), "horizons": list(forecasts.predictions), "rows": rows}}


def scaled_values(stored: StoredModel, examples: Sequence[Example]) -> list[float]:
    """The values of a split, standardized."""
    return [value for example in examples for value in stored.tokenizers.source.encode(example.target)]


def rescaled_errors(forecasts: Forecasts, values: Values, std: float) -> dict[str, float]:
    """Errors in the units of the series."""
    return {str(horizon): error * std for horizon, error in forecasts.errors(values).items()}


def _forecast(stored: StoredModel, contexts: Values, on_progress: ProgressCallback) -> Values:
    """(context, step): the model's forecasts after each context."""
    device, batches = device_of(stored.module), []
    for start in range(0, len(contexts), BATCH_SIZE):
        rows = torch.from_numpy(contexts[start : start + BATCH_SIZE]).float().to(device)
        batches.append(forecast(stored.module, rows, HORIZONS[-1]).double().cpu().numpy())
        on_progress(len(rows))
    return np.concatenate(batches)


def write_forecasts(stored: StoredModel, values: Values, first: int, forecasts: Forecasts, run: RunFolder) -> None:
    """Write a table and a plot of the test values and their forecasts, in the units of the series."""
    from seq2see.inspection.evaluation_plots import draw_forecasts  # matplotlib only where it is used

    scale = stored.tokenizers.source
    assert isinstance(scale, StandardScaler)
    truth = values[first:] * scale.std + scale.mean
    columns = {}
    for horizon, (times, predicted) in forecasts.predictions.items():
        columns[horizon] = np.full(len(truth), np.nan)
        columns[horizon][times - first] = predicted * scale.std + scale.mean
    rows = [["time", "value", *(f"{horizon} ahead" for horizon in columns)]]
    for time, value in enumerate(truth):
        cells = [column[time] for column in columns.values()]
        rows.append(
            [str(first + time + 1), f"{value:.6g}", *("" if np.isnan(each) else f"{each:.6g}" for each in cells)]
        )
    write_text(run.evaluation / "forecasts.tsv", "".join("\t".join(row) + "\n" for row in rows))
    draw_forecasts(first + 1, truth, columns, run.evaluation / "forecasts.png")
