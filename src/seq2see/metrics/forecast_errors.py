"""Errors of forecasts with several horizons, and baselines without training.

A k-step forecast of x(t) uses the series up to x(t-k), and its own predictions for the later steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
HORIZONS = (1, 4, 16, 64)
"""The forecast horizons, in steps."""
ForecastFunction = Callable[[Values], Values]
"""From observed values (origin, context) to predictions of the next steps (origin, step)."""


@dataclass(frozen=True)
class Forecasts:
    """Predictions of the test values of a series: for each horizon k the times and the predicted values."""

    context: int
    predictions: dict[int, tuple[NDArray[np.int64], Values]]

    @staticmethod
    def of(values: Values, first: int, context: int, forecast_function: ForecastFunction) -> Forecasts:
        """Forecast values[first:]; each k-step forecast uses `context` values, the last of them k steps earlier."""
        origins = np.arange(max(context - 1, first - HORIZONS[-1]), len(values) - 1)
        if not len(origins):
            return Forecasts(context, {})
        predicted = forecast_function(values[origins[:, None] - np.arange(context)[::-1]])
        predictions = {}
        for horizon in HORIZONS:
            is_test = (origins + horizon >= first) & (origins + horizon < len(values))
            if is_test.any():
                predictions[horizon] = (origins[is_test] + horizon, predicted[is_test, horizon - 1])
        return Forecasts(context, predictions)

    def errors(self, values: Values) -> dict[int, float]:
        """The root mean squared error of each horizon k."""
        return {
            horizon: float(np.sqrt(np.mean((values[times] - predicted) ** 2)))
            for horizon, (times, predicted) in self.predictions.items()
        }


def persistence_forecast(observed: Values) -> Values:
    """The persistence baseline: every prediction is the last observed value."""
    return np.repeat(observed[:, -1:], HORIZONS[-1], axis=1)


@dataclass(frozen=True)
class LinearAutoregression:
    """Linear autoregression x(t) = w · (x(t-τ), ..., x(t-1)) + b by least squares, w* = (XᵀX)⁻¹ Xᵀ y."""

    weights: Values
    bias: float

    @staticmethod
    def of(values: Values, tau: int) -> LinearAutoregression:
        """Fit the model of the last τ values; if several fit equally well, the one with the smallest weights (norm)."""
        windows = np.lib.stride_tricks.sliding_window_view(values, tau)[:-1]
        solution, *_ = np.linalg.lstsq(np.column_stack([windows, np.ones(len(windows))]), values[tau:], rcond=None)
        return LinearAutoregression(solution[:-1].astype(np.float64), float(solution[-1]))

    def __call__(self, observed: Values) -> Values:
        """Predict the next steps."""
        tau, series = len(self.weights), observed
        for _ in range(HORIZONS[-1]):
            series = np.column_stack([series, series[:, -tau:] @ self.weights + self.bias])
        return series[:, observed.shape[1] :]
