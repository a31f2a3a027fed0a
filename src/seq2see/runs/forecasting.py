"""The task "how does this series go on?": from a column of numbers to forecasts, one step ahead and many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.decoding.forecasting import forecast
from seq2see.metrics.forecast_errors import HORIZONS, Forecasts, LinearAutoregression, Values, persistence_forecast
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.settings import ModelSettings, Series
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import ProgressCallback, Splits
from seq2see.sequences.series_dataset import SeriesDataset, StandardScaler
from seq2see.sources.examples import Example

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

CONTEXTS = (1, 2, 4, 8, 16, 32)
"""Windows of the linear models that a run is compared with."""
BATCH_SIZE = 256
"""Forecasts that are made side by side."""
SHOWN = 8
"""Values in a sample: half of them are gone on from, or as many as the model sees."""


def context_of(settings: ModelSettings) -> int:
    """How many values back a model sees: its window, or as many as it was trained on at one time."""
    assert isinstance(settings.target, Series)
    window = isinstance(settings.decoder, MLPDecoderSettings)
    return settings.decoder.context if window else settings.target.context_length  # type: ignore[union-attr]


class Forecasting:
    """Guess how a series of numbers goes on."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """The scale of the training values."""
        scale = StandardScaler.of(example.target for example in train)
        return Tokenizers(scale, scale)

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> SeriesDataset:
        """Windows of the series; a window of the model's own is full before anything is asked."""
        assert isinstance(recipe.target, Series)
        assert isinstance(tokenizers.source, StandardScaler)
        width = recipe.target.context_length
        shown = recipe.decoder.context - 1 if isinstance(recipe.decoder, MLPDecoderSettings) else 0
        return SeriesDataset(examples, tokenizers.source, width, shown)

    def sample_examples(self, dataset: SeriesDataset, count: int) -> list[Example]:
        """Stretches of the series, and what comes after each."""
        seen = max(dataset.context + 1, SHOWN)
        starts = range(0, len(dataset.ids) - seen - SHOWN, max(1, len(dataset.ids) // count))
        said, ids = dataset.tokenizer.decode, dataset.ids
        return [
            Example(said(ids[at : at + seen]), said(ids[at + seen : at + seen + SHOWN])) for at in list(starts)[:count]
        ]

    def size(self, splits: Splits) -> int:
        """How many values are tested on."""
        return sum(example.target.count("\n") for example in splits["test"])

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """The errors of forecasts, beside those of linear models in closed form and of no change at all."""
        parts = {name: np.array(scaled_values(stored, examples)) for name, examples in splits.items()}
        if not len(parts["test"]):
            raise UserError("There are no values to test on.", hint="Give a longer series, or corpus.test.")
        cut = not getattr(recipe.corpus, "test", ()) and not getattr(recipe.corpus, "valid", ())
        before = [parts["train"], parts["valid"]] if cut else []  # files of their own stand for themselves
        values, first = np.concatenate([*before, parts["test"]]), sum(map(len, before))
        made = Forecasts.of(
            values, first, context_of(stored.config.model), lambda known: _forecast_values(stored, known, on_progress)
        )
        if not made.predictions:
            raise UserError(
                f"There are {len(values)} values to test on: too few for a model that sees {made.context}.",
                hint="Give a longer series to test on.",
            )
        std = stored.tokenizers.source.std  # type: ignore[attr-defined]
        rows = [{"name": "model", "context": made.context, "errors": rescaled_errors(made, values, std)}]
        last = Forecasts.of(values, first, 1, persistence_forecast)
        rows.append({"name": "persistence", "context": 1, "errors": rescaled_errors(last, values, std)})
        for context in (context for context in CONTEXTS if 2 * context + 2 <= len(parts["train"])):
            linear = Forecasts.of(values, first, context, LinearAutoregression.of(parts["train"], context))
            rows.append({"name": "linear", "context": context, "errors": rescaled_errors(linear, values, std)})
        write_forecasts(stored, values, first, made, run)
        return {"series": {"values": len(parts["test"]), "horizons": list(made.predictions), "rows": rows}}


def scaled_values(stored: StoredModel, examples: Sequence[Example]) -> list[float]:
    """The values of a split, scaled."""
    return [value for example in examples for value in stored.tokenizers.source.encode(example.target)]


def rescaled_errors(forecasts: Forecasts, values: Values, std: float) -> dict[str, float]:
    """Errors in the units of the series."""
    return {str(ahead): error * std for ahead, error in forecasts.errors(values).items()}


def _forecast_values(stored: StoredModel, known: Values, on_progress: ProgressCallback) -> Values:
    """The model's forecasts."""
    device, found = device_of(stored.module), []
    for start in range(0, len(known), BATCH_SIZE):
        rows = torch.from_numpy(known[start : start + BATCH_SIZE]).float().to(device)
        found.append(forecast(stored.module, rows, HORIZONS[-1]).double().cpu().numpy())
        on_progress(len(rows))
    return np.concatenate(found)


def write_forecasts(stored: StoredModel, values: Values, first: int, made: Forecasts, run: RunFolder) -> None:
    """A table and an image of the test values and of what was said of them, in the units of the series."""
    from seq2see.inspection.forecast_plot import draw_forecasts  # matplotlib only where it is used

    scale = stored.tokenizers.source
    assert isinstance(scale, StandardScaler)
    truth = values[first:] * scale.std + scale.mean
    columns = {}
    for ahead, (times, said) in made.predictions.items():
        columns[ahead] = np.full(len(truth), np.nan)
        columns[ahead][times - first] = said * scale.std + scale.mean
    rows = [["time", "value", *(f"{ahead} ahead" for ahead in columns)]]
    for time, value in enumerate(truth):
        cells = [column[time] for column in columns.values()]
        rows.append(
            [str(first + time + 1), f"{value:.6g}", *("" if np.isnan(each) else f"{each:.6g}" for each in cells)]
        )
    write_text(run.evaluation / "forecasts.tsv", "".join("\t".join(row) + "\n" for row in rows))
    draw_forecasts(first + 1, truth, columns, run.evaluation / "forecasts.png")
