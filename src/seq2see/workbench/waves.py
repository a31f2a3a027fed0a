"""The task "how does this series go on?": from a column of numbers to forecasts, one step ahead and many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.core.files import write_text
from seq2see.decoding.numbers import forecast
from seq2see.metrics.forecasts import AHEAD, Forecasts, LeastSquares, Values, last_value
from seq2see.models.settings import ModelSettings, Series
from seq2see.models.window import WindowDecoderSettings
from seq2see.sequences.series import Scale, SeriesSet
from seq2see.sources.examples import Example
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.questions import Splits, Watch
from seq2see.workbench.run_folder import RunFolder
from seq2see.workbench.tokenisers import Tokenisers

if TYPE_CHECKING:
    from seq2see.workbench.recipe import Recipe

TAUS = (1, 2, 4, 8, 16, 32)
"""Windows of the linear models that a run is compared with."""
ROWS = 256
"""Forecasts that are made side by side."""
SHOWN = 8
"""Values in a sample: half of them are gone on from, or as many as the model sees."""


def context_of(settings: ModelSettings) -> int:
    """How many values back a model sees: its window, or as many as it was trained on at one time."""
    assert isinstance(settings.target, Series)
    window = isinstance(settings.decoder, WindowDecoderSettings)
    return settings.decoder.tau if window else settings.target.longest  # type: ignore[union-attr]


class GoOn:
    """Guess how a series of numbers goes on."""

    def learn(self, recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
        """The scale of the training values."""
        scale = Scale.of(example.target for example in train)
        return Tokenisers(scale, scale)

    def encode(self, recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> SeriesSet:
        """Windows of the series; a window of the model's own is full before anything is asked."""
        assert isinstance(recipe.target, Series)
        assert isinstance(tokenisers.source, Scale)
        width = recipe.target.longest
        shown = recipe.decoder.tau - 1 if isinstance(recipe.decoder, WindowDecoderSettings) else 0
        return SeriesSet(examples, tokenisers.source, width, shown)

    def shown(self, encoded: SeriesSet, count: int) -> list[Example]:
        """Stretches of the series, and what comes after each."""
        seen = max(encoded.shown + 1, SHOWN)
        starts = range(0, len(encoded.ids) - seen - SHOWN, max(1, len(encoded.ids) // count))
        said, ids = encoded.tokeniser.decode, encoded.ids
        return [
            Example(said(ids[at : at + seen]), said(ids[at + seen : at + seen + SHOWN])) for at in list(starts)[:count]
        ]

    def size(self, splits: Splits) -> int:
        """How many values are tested on."""
        return sum(example.target.count("\n") for example in splits["test"])

    def judge(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, watch: Watch
    ) -> dict[str, Any]:
        """The errors of forecasts, beside those of linear models in closed form and of no change at all."""
        parts = {name: np.array(numbers(stored, examples)) for name, examples in splits.items()}
        if not len(parts["test"]):
            raise UserError("There are no values to test on.", remedy="Give a longer series, or corpus.test.")
        cut = not getattr(recipe.corpus, "test", ()) and not getattr(recipe.corpus, "valid", ())
        before = [parts["train"], parts["valid"]] if cut else []  # files of their own stand for themselves
        values, first = np.concatenate([*before, parts["test"]]), sum(map(len, before))
        made = Forecasts.of(values, first, context_of(stored.config.model), lambda known: _said(stored, known, watch))
        if not made.guesses:
            raise UserError(
                f"There are {len(values)} values to test on: too few for a model that sees {made.context}.",
                remedy="Give a longer series to test on.",
            )
        spread = stored.tokenisers.source.spread  # type: ignore[attr-defined]
        rows = [{"name": "model", "tau": made.context, "errors": told(made, values, spread)}]
        last = Forecasts.of(values, first, 1, last_value)
        rows.append({"name": "last", "tau": 1, "errors": told(last, values, spread)})
        for tau in (tau for tau in TAUS if 2 * tau + 2 <= len(parts["train"])):
            linear = Forecasts.of(values, first, tau, LeastSquares.of(parts["train"], tau))
            rows.append({"name": "linear", "tau": tau, "errors": told(linear, values, spread)})
        keep(stored, values, first, made, run)
        return {"series": {"values": len(parts["test"]), "ahead": list(made.guesses), "rows": rows}}


def numbers(stored: StoredModel, examples: Sequence[Example]) -> list[float]:
    """The values of a split, scaled."""
    return [value for example in examples for value in stored.tokenisers.source.encode(example.target)]


def told(forecasts: Forecasts, values: Values, spread: float) -> dict[str, float]:
    """Errors in the units of the series."""
    return {str(ahead): error * spread for ahead, error in forecasts.errors(values).items()}


def _said(stored: StoredModel, known: Values, watch: Watch) -> Values:
    """The model's forecasts."""
    device, found = device_of(stored.module), []
    for start in range(0, len(known), ROWS):
        rows = torch.from_numpy(known[start : start + ROWS]).float().to(device)
        found.append(forecast(stored.module, rows, AHEAD[-1]).double().cpu().numpy())
        watch(len(rows))
    return np.concatenate(found)


def keep(stored: StoredModel, values: Values, first: int, made: Forecasts, run: RunFolder) -> None:
    """A table and a picture of the test values and of what was said of them, in the units of the series."""
    from seq2see.inspection.forecasts import draw_forecasts  # matplotlib only where it is used

    scale = stored.tokenisers.source
    assert isinstance(scale, Scale)
    truth = values[first:] * scale.spread + scale.mean
    columns = {}
    for ahead, (times, said) in made.guesses.items():
        columns[ahead] = np.full(len(truth), np.nan)
        columns[ahead][times - first] = said * scale.spread + scale.mean
    rows = [["time", "value", *(f"{ahead} ahead" for ahead in columns)]]
    for time, value in enumerate(truth):
        cells = [column[time] for column in columns.values()]
        rows.append(
            [str(first + time + 1), f"{value:.6g}", *("" if np.isnan(each) else f"{each:.6g}" for each in cells)]
        )
    write_text(run.evaluation / "forecasts.tsv", "".join("\t".join(row) + "\n" for row in rows))
    draw_forecasts(first + 1, truth, columns, run.evaluation / "forecasts.png")
