"""forecast: the next values of a series of numbers, one step and many steps ahead.

A forecast of many steps is autoregressive: each prediction is the next input of the model. Compare `engine.py`: there a
sampler selects one of many tokens; here the prediction is the next value itself, so there is no selection. The error of
one prediction is part of the input of the following ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.examples import Example
from seq2see.data.readers.number_series import NoisySine, UserSeries
from seq2see.data.series_dataset import SeriesDataset, StandardScaler
from seq2see.data.windows import WindowSampler
from seq2see.decoding.engine import check_cancelled
from seq2see.metrics.forecast_errors import HORIZONS, Forecasts, LinearAutoregression, Values, persistence_forecast
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import ModelSettings, Series
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.generative import evaluate_series
from seq2see.tasks.model import Model, NamedBatch, Output, Prediction, TextAttention, checked_inputs, reject_settings
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.report_parts import (
    ReportPart,
    ReportSection,
    ReportTable,
    RunResults,
    Tree,
    Words,
    figure_section,
    note,
    section,
    words,
)
from seq2see.tasks.task import (
    BatchAt,
    Capture,
    Comparison,
    EvaluatedRow,
    Evaluation,
    RowKind,
    SplitProgress,
    Splits,
    Task,
    error_context,
    plain,
    split_sizes,
)
from seq2see.training.objectives import NextValue

ProgressCallback = Callable[[int], Any]
"""Receives the number of forecasts made since the last call."""
CONTEXTS = (1, 2, 4, 8, 16, 32)
"""Context lengths of the linear autoregressive baselines."""
BATCH_SIZE = 256
"""Forecasts per batch."""
MAX_WINDOWS = 12
"""The number of windows of the test values that the explorer offers as examples."""
SHOWN = 8
"""Values of a sample that are predicted; the context of a sample has at least as many values."""


def context_of(settings: ModelSettings) -> int:
    """The context length of a model in values: its window, or the length of its training windows."""
    assert isinstance(settings.target, Series)
    decoder = settings.decoder
    return decoder.context if isinstance(decoder, MLPDecoderSettings) else settings.target.context_length


class ForecastLength(Settings):
    """How a forecaster predicts."""

    max_new_tokens: int = Field(16, ge=1)
    """The number of values that are forecast."""


class ForecastRecipe(Recipe):
    """A recipe of the task forecast: a decoder of a series of numbers."""

    task: Literal["forecast"] = "forecast"
    corpus: Annotated[NoisySine | UserSeries, Field(discriminator="kind")]
    """The source of the values."""
    target: Series = Series()
    decoder: Annotated[TransformerSettings | RecurrentDecoderSettings | MLPDecoderSettings, Field(discriminator="kind")]
    """The decoder of the series."""
    objective: NextValue = NextValue()
    decoding: ForecastLength = ForecastLength()

    @model_validator(mode="after")
    def check_batches(self) -> ForecastRecipe:
        """Refuse batches of texts."""
        if self.training.batches != "bucketed":
            raise ValueError(f"{self.training.batches} batches are for texts: set training.batches=bucketed")
        return self


class Forecast(Task):
    """Predict the continuation of a series of numbers."""

    name: ClassVar[str] = "forecast"
    recipe: ClassVar[type[Recipe]] = ForecastRecipe
    input_kind: ClassVar[str] = "series"
    views: ClassVar[tuple[str, ...]] = (
        "runs", "attention", "single-head", "recurrent", "compare", "mistakes", "architecture",
    )  # fmt: skip
    fixed_order: ClassVar[str] = "The tokens of this model cannot be reordered."
    default_input: ClassVar[str] = " ".join(f"{math.sin(time / 4):.3f}" for time in range(64))
    comparison: ClassVar[Comparison] = "errors"
    row_kind: ClassVar[RowKind] = "forecasts"

    def corpus(self, paths: tuple[str, ...]) -> UserSeries:
        """The user's own tables of numbers."""
        return UserSeries(paths=paths)

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Compute mean and standard deviation of the training values, or take those of a pretrained model."""
        if pretrained is not None:
            return pretrained.tokenizers
        scale = StandardScaler.of(example.target for example in train)
        return Tokenizers(scale, scale)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> SeriesDataset:
        """Split the series into windows; the first prediction of a window has a full context."""
        assert isinstance(tokenizers.source, StandardScaler)
        width = recipe.target.context_length
        context = recipe.decoder.context - 1 if isinstance(recipe.decoder, MLPDecoderSettings) else 0
        return SeriesDataset(examples, tokenizers.source, width, context)

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of shuffled windows."""
        windows = WindowSampler(dataset, recipe.training.batch_tokens, recipe.training.seed)
        return lambda step: windows.batch_at(step - 1)

    def check_dataset(self, recipe: Any, dataset: Any) -> None:
        """Raise an error for a series that is shorter than one batch."""
        self.batches(recipe, dataset)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of values."""
        return split_sizes(splits, lambda example: example.target.count("\n")) + " values"

    def describe_examples(self, dataset: Any, examples: Any, indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        return "windows", "; ".join(f"near {dataset.text_at(index)[:40]!r}" for index in indices)

    def evaluation_examples(self, recipe: Any) -> Sequence[Example]:
        """The test values; they follow the training values, so the whole series is generated."""
        splits, _ = self.read(recipe)
        return splits.get("test") or splits["valid"]

    def page_examples(self, settings: ModelSettings, examples: Sequence[Example]) -> list[Example]:
        """Windows of the test values, each with the length of the model's context, and the values after each."""
        context, values = context_of(settings), [value for each in examples for value in each.target.split()]
        starts = range(0, max(1, len(values) - 2 * context), max(1, len(values) // MAX_WINDOWS))
        pairs = [(values[start : start + context], values[start + context : start + 2 * context]) for start in starts]
        return [Example(" ".join(inputs), " ".join(future)) for inputs, future in pairs if len(inputs) == context]

    def page_batch(self, batch: NamedBatch) -> NamedBatch:
        """The batch with time steps as the names of its tokens; each label is the next time step.

        The values themselves have too many digits for names; a chart shows them.
        """
        count = len(batch.tokens["target"])
        times = [str(time + 1) for time in range(count + 1)]
        return replace(batch, tokens={"target": times[:count], "labels": times[1:]})

    def validate(self, module: nn.Module, valid: Any, check: Callable[[], Any]) -> tuple[float, dict[str, float]]:
        """The mean squared error of one-step forecasts."""
        return evaluate_series(module, valid, check), {}

    def open(self, stored: StoredModel, engine: Any) -> Forecaster:
        """The Python interface of a forecasting model."""
        return Forecaster(stored, engine, self)

    def samples(self, dataset: SeriesDataset, examples: Sequence[Example], count: int) -> list[Example]:
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
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """The errors of the forecasts, of linear autoregression (least squares) and of persistence forecasts."""
        stored, progress = model.stored, partial(on_progress, "test")
        parts = {name: np.array(scaled_values(stored, examples)) for name, examples in splits.items()}
        if not len(parts["test"]):
            raise UserError("There are no test values.", hint="Provide a longer series, or set corpus.test.")
        one_series = not getattr(recipe.corpus, "test", ()) and not getattr(recipe.corpus, "valid", ())
        # Held-out values follow the training values; separate files are separate series.
        before = [parts["train"], parts["valid"]] if one_series else []
        values, first = np.concatenate([*before, parts["test"]]), sum(map(len, before))
        forecasts = Forecasts.of(
            values, first, context_of(stored.config.model), lambda contexts: _forecast(stored, contexts, progress)
        )
        if not forecasts.predictions:
            raise UserError(
                f"There are {len(values)} test values: too few for a model with a context of {forecasts.context}.",
                hint="Provide a longer test series.",
            )
        std = stored.tokenizers.source.std
        rows = [{"name": "model", "context": forecasts.context, "errors": rescaled_errors(forecasts, values, std)}]
        persistence = Forecasts.of(values, first, 1, persistence_forecast)
        rows.append({"name": "persistence", "context": 1, "errors": rescaled_errors(persistence, values, std)})
        for context in (context for context in CONTEXTS if 2 * context + 2 <= len(parts["train"])):
            linear = Forecasts.of(values, first, context, LinearAutoregression.of(parts["train"], context))
            rows.append({"name": "linear", "context": context, "errors": rescaled_errors(linear, values, std)})
        table, figure = forecast_table(stored, values, first, forecasts)
        scores = {"series": {"values": len(parts["test"]), "horizons": list(forecasts.predictions), "rows": rows}}
        return Evaluation(scores, {"forecasts": table}, figures={"eval/forecasts.png": figure})

    def evaluated_rows(self, model: Any, rows: Any) -> list[EvaluatedRow]:
        """The values that were forecast one step ahead, each with its context; others are skipped."""
        context, values, evaluated = context_of(model.config.model), [row[1] for row in rows], []
        for number, (time, value, predicted, *_) in enumerate(rows):
            before = tuple(values[max(number - context, 0) : number])
            if predicted and len(before) == context:
                error = abs(float(value) - float(predicted))
                evaluated.append(EvaluatedRow(number, time, value, predicted, -error, -error, before))
        return evaluated

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The errors of the model and of each baseline, and the test values with their forecasts."""
        return [
            section("scores", *error_parts(results.scores)),
            figure_section(results, "eval/forecasts.png", "forecasts"),
        ]

    def score_lines(self, scores: Tree) -> Iterator[str | ReportTable]:
        """The errors of the forecasts, by method and horizon."""
        if series := scores.get("series"):
            horizons = [f"{horizon} ahead" for horizon in series["horizons"]]
            rows = [[words(f"forecast_{row['name']}")[0], *_error_cells(series, row)] for row in series["rows"]]
            yield ReportTable(["forecast by", "context", *horizons], rows)
            yield f"root mean squared error on {series['values']:,} test values"

    def headline(self, scores: Tree) -> str:
        """The error of the forecasts one step ahead."""
        return f"RMSE {next(iter(scores['series']['rows'][0]['errors'].values())):.4g}" if "series" in scores else ""


def error_parts(scores: Tree) -> list[ReportPart]:
    """A row for the model, and one for each baseline."""
    series = scores.get("series")
    if not series:
        return []
    header: list[Words] = [words("forecast_by"), "τ"]
    header += [words("ahead", steps=str(horizon)) for horizon in series["horizons"]]
    rows: list[list[Words]] = [[words(f"forecast_{row['name']}"), *_error_cells(series, row)] for row in series["rows"]]
    return [ReportTable(header, rows), note("errors_note", values=f"{series['values']:,}")]


def _error_cells(series: Tree, row: Tree) -> list[str]:
    """The context length of a method, and its error for each horizon."""
    errors = [row["errors"].get(str(horizon)) for horizon in series["horizons"]]
    return [str(row["context"]), *("" if error is None else f"{error:.4g}" for error in errors)]


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


def forecast_table(
    stored: StoredModel, values: Values, first: int, forecasts: Forecasts
) -> tuple[list[list[str]], Callable[[Path], Any]]:
    """A table and a plot of the test values and their forecasts, in the units of the series."""
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
    return rows, partial(_draw, first + 1, truth, columns)


def _draw(first: int, truth: Values, columns: dict[int, Values], path: Path) -> None:
    from seq2see.inspection.plotting import draw_forecasts  # matplotlib only where it is used

    draw_forecasts(first, truth, columns, path)


class Forecaster(Model):
    """A trained forecasting model: `model("0.1 0.2 0.35", max_new_tokens=8).text` are the next eight values."""

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
        texts = checked_inputs(texts, "series")
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


@torch.inference_mode()
def forecast(model: Any, observed: Float[Tensor, "row time"], horizon: int) -> Float[Tensor, "row {horizon}"]:
    """Predict the next `horizon` values of each row with a model whose `step` returns values instead of logits."""
    state = model.start(None, observed.size(0), observed.size(1) + horizon)
    predictions, inputs = [], observed
    for _ in range(horizon):
        check_cancelled()
        output, state = model.step(inputs, state)
        inputs = output[:, -1]
        predictions.append(inputs)
    return torch.cat(predictions, dim=1)
