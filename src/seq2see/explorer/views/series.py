"""Forecasts of a series: one step ahead for every value, and several steps after the last one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.data.series_dataset import parse_numbers
from seq2see.explorer.schemas import InputText, RunRequest
from seq2see.explorer.workspace import Workspace


class ForecastRequest(RunRequest):
    """A request for the forecasts of a series."""

    text: InputText
    """The values as text."""
    horizon: Annotated[int, Field(ge=1, le=200)] = 16
    """The number of values to forecast; each forecast is an input of the next one."""


def forecast_series(workspace: Workspace, request: ForecastRequest) -> dict[str, Any]:
    """The values in the model's context, the forecasts one step ahead, and the forecast after the last value."""
    run = workspace.run(request.run)
    model: Any = run.model
    if run.task.input_kind != "series":
        raise UserError("This model does not forecast.", location=run.name, hint="Choose a run of a series.")
    one_step = model.one_step_forecasts(request.text)
    values = parse_numbers(request.text)[-len(one_step) :]
    forecast = parse_numbers(model(request.text, max_new_tokens=request.horizon).text)
    return {"values": values, "one_step_predictions": one_step, "forecast": forecast}
