"""A series of numbers, and what a model of it says: of every next value, and of those that nobody has seen yet."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import InputText, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.runs.forecaster import Forecaster
from seq2see.runs.forecasting import context_of
from seq2see.sequences.series_dataset import parse_numbers
from seq2see.sources.examples import Example

MAX_WINDOWS = 12
"""Stretches of the test values that are offered to be read."""


class ForecastRequest(RunRequest):
    """How does a series go on?"""

    text: InputText
    """Its values as they are typed."""
    horizon: Annotated[int, Field(ge=1, le=200)] = 16
    """Values that are forecast, each from those before it and from its own forecasts."""


def forecast_series(workspace: Workspace, request: ForecastRequest) -> dict[str, Any]:
    """The values that the model sees, what it said of each from those before it, and how it goes on."""
    run = workspace.run(request.run)
    model = run.model
    if not isinstance(model, Forecaster):
        raise UserError("This model goes on from no numbers.", location=run.name, hint="Choose a run that forecasts.")
    one_step = model.one_step_forecasts(request.text)
    values = parse_numbers(request.text)[-len(one_step) :]
    forecast = parse_numbers(model(request.text, max_new_tokens=request.horizon).text)
    return {"values": values, "one_step_predictions": one_step, "forecast": forecast}


def test_windows(run: OpenRun) -> list[Example]:
    """Stretches of a run's test values, each as long as its model sees, and what comes behind it."""
    context = context_of(run.settings)
    values = [value for each in run.test_examples for value in each.target.split()]
    starts = range(0, max(1, len(values) - 2 * context), max(1, len(values) // MAX_WINDOWS))
    cut = [(values[at : at + context], values[at + context : at + 2 * context]) for at in starts]
    return [Example(" ".join(before), " ".join(after)) for before, after in cut if len(before) == context]
