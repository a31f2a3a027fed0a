"""How far forecasts are from what came, one step ahead and several; and the forecasts that need no training.

A k-step forecast of x(t) knows the series up to x(t-k) and reads its own guesses from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
HORIZONS = (1, 4, 16, 64)
"""How many steps ahead a series is guessed."""
ForecastFunction = Callable[[Values], Values]
"""From what is known, (origin, context), to the guesses for the next steps, (origin, step)."""


@dataclass(frozen=True)
class Forecasts:
    """What was said of a series' test values: for each k their times and guesses."""

    context: int
    predictions: dict[int, tuple[NDArray[np.int64], Values]]

    @staticmethod
    def of(values: Values, first: int, context: int, forecast_function: ForecastFunction) -> Forecasts:
        """The forecasts of values[first:], each made from the `context` values up to k before it."""
        origins = np.arange(max(context - 1, first - HORIZONS[-1]), len(values) - 1)
        if not len(origins):
            return Forecasts(context, {})
        predicted = forecast_function(values[origins[:, None] - np.arange(context)[::-1]])
        predictions = {}
        for horizon in HORIZONS:
            wanted = (origins + horizon >= first) & (origins + horizon < len(values))
            if wanted.any():
                predictions[horizon] = (origins[wanted] + horizon, predicted[wanted, horizon - 1])
        return Forecasts(context, predictions)

    def errors(self, values: Values) -> dict[int, float]:
        """For each k the root of the mean squared error."""
        return {
            horizon: float(np.sqrt(np.mean((values[times] - predicted) ** 2)))
            for horizon, (times, predicted) in self.predictions.items()
        }


def persistence_forecast(observed: Values) -> Values:
    """Nothing changes: what every forecast has to beat."""
    return np.repeat(observed[:, -1:], HORIZONS[-1], axis=1)


@dataclass(frozen=True)
class LinearAutoregression:
    """x(t) = w · (x(t-τ), ..., x(t-1)) + b with the least squared error, in closed form: w* = (XᵀX)⁻¹ Xᵀ y."""

    weights: Values
    bias: float

    @staticmethod
    def of(values: Values, tau: int) -> LinearAutoregression:
        """The best linear model of the last τ values; where several are, the one with the shortest weights."""
        windows = np.lib.stride_tricks.sliding_window_view(values, tau)[:-1]
        found, *_ = np.linalg.lstsq(np.column_stack([windows, np.ones(len(windows))]), values[tau:], rcond=None)
        return LinearAutoregression(found[:-1].astype(np.float64), float(found[-1]))

    def __call__(self, observed: Values) -> Values:
        """The guesses for the next steps."""
        tau, values_so_far = len(self.weights), observed
        for _ in range(HORIZONS[-1]):
            values_so_far = np.column_stack([values_so_far, values_so_far[:, -tau:] @ self.weights + self.bias])
        return values_so_far[:, observed.shape[1] :]
