"""Forecasting beyond the end of the user's own table, with dates and an interval.

The interval comes from residuals: the model forecasts from many earlier points of the same table, and for each number
of steps ahead the 10 % and 90 % quantiles of the errors it made there are added to the forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.readers.data_report import ErrorPolicy
from seq2see.data.readers.number_series import read_column, read_dates
from seq2see.tasks.forecast import Forecaster, context_of, forecast

ORIGINS = 200
"""The most earlier points from which the errors are measured."""
MIN_RESIDUALS = 10
"""The fewest errors of which quantiles are computed; with fewer of them those of fewer steps ahead are used."""
QUANTILES = (0.1, 0.9)
MONTH_DAYS = (28, 31)


@dataclass(frozen=True)
class FutureValue:
    """A forecast value with its interval; nan without enough earlier values."""

    time: str
    value: float
    low: float
    high: float


def forecast_file(model: Any, path: Path, steps: int, column: str = "") -> list[FutureValue]:
    """The next values of a column, after its last one."""
    if not isinstance(model, Forecaster):
        raise UserError("--steps is for forecasting models.", hint="Leave it out, or name a run of the task forecast.")
    if steps < 1:
        raise UserError(f"--steps is {steps}, and must be at least 1.")
    numbers, report = read_column(path, column)
    report.raise_for_errors(ErrorPolicy())
    context, scale = context_of(model.config.model), model.tokenizers.source
    if len(numbers) < context:
        message = f"There are {len(numbers):,} values, and the model reads {context:,} of them."
        raise UserError(message, location=str(path), hint="Give a longer series.")
    values: Any = (np.array(numbers) - scale.mean) / scale.std  # type: ignore[attr-defined]
    count = min(ORIGINS, len(values) - context)
    origins = np.unique(np.linspace(context, len(values) - 1, count).astype(int))
    contexts = np.stack([values[end - context : end] for end in (*origins, len(values))])
    rows = torch.from_numpy(contexts).float().to(device_of(model.module))
    with torch.inference_mode():
        predicted = forecast(model.module, rows, steps).double().cpu().numpy()
    low, high = _interval(values, origins, predicted[:-1])
    shown = [future * scale.std + scale.mean for future in (predicted[-1], predicted[-1] + low, predicted[-1] + high)]  # type: ignore[attr-defined]
    times = future_times(read_dates(path), len(numbers), steps)
    return [FutureValue(time, *map(float, row)) for time, *row in zip(times, *shown, strict=True)]


def _interval(values: Any, origins: Any, predicted: Any) -> tuple[Any, Any]:
    """The quantiles of the errors at each number of steps ahead."""
    steps, bounds = predicted.shape[1], (np.nan, np.nan)
    low, high = np.empty(steps), np.empty(steps)
    for step in range(steps):
        inside = origins + step < len(values)
        residuals = values[origins[inside] + step] - predicted[inside, step]
        if len(residuals) >= MIN_RESIDUALS:
            bounds = tuple(np.quantile(residuals, QUANTILES))
        low[step], high[step] = bounds
    return low, high


def future_times(dates: Sequence[datetime], count: int, steps: int) -> list[str]:
    """The dates after the last one if the table has a date for each value, at equal distances; else numbers of values.

    >>> future_times([datetime(2024, 1, 31), datetime(2024, 2, 29), datetime(2024, 3, 31)], 3, 2)
    ['2024-04-30', '2024-05-31']
    >>> future_times([], 7, 2)
    ['8', '9']
    """
    distances = {after - before for before, after in pairwise(dates)}
    if len(dates) == count and len(distances) == 1:
        (distance,) = distances
        times = [dates[-1] + distance * (number + 1) for number in range(steps)]
    elif len(dates) == count and distances and all(MONTH_DAYS[0] <= each.days <= MONTH_DAYS[1] for each in distances):
        times = [_add_months(dates[-1], number + 1, max(each.day for each in dates)) for number in range(steps)]
    else:
        return [str(count + number + 1) for number in range(steps)]
    days = all(each.time() == datetime.min.time() for each in times)
    return [each.date().isoformat() if days else each.isoformat(sep=" ") for each in times]


def _add_months(date: datetime, months: int, day: int) -> datetime:
    """The same day some months later, or the last day of a shorter month."""
    month = date.month - 1 + months
    year, month = date.year + month // 12, month % 12 + 1
    last = (datetime(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
    return date.replace(year=year, month=month, day=min(day, last))
