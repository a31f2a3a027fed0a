"""How far forecasts are from what came, one step ahead and several; and the forecasts that need no training.

A k-step forecast of x(t) knows the series up to x(t-k) and reads its own guesses from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
AHEAD = (1, 4, 16, 64)
"""How many steps ahead a series is guessed."""
GoOn = Callable[[Values], Values]
"""From what is known, (origin, context), to the guesses for the next steps, (origin, step)."""


@dataclass(frozen=True)
class Forecasts:
    """What was said of a series' test values: for each k their times and guesses."""

    context: int
    guesses: dict[int, tuple[NDArray[np.int64], Values]]

    @staticmethod
    def of(values: Values, first: int, context: int, go_on: GoOn) -> Forecasts:
        """The forecasts of values[first:], each made from the `context` values up to k before it."""
        origins = np.arange(max(context - 1, first - AHEAD[-1]), len(values) - 1)
        if not len(origins):
            return Forecasts(context, {})
        said = go_on(values[origins[:, None] - np.arange(context)[::-1]])
        guesses = {}
        for ahead in AHEAD:
            wanted = (origins + ahead >= first) & (origins + ahead < len(values))
            if wanted.any():
                guesses[ahead] = (origins[wanted] + ahead, said[wanted, ahead - 1])
        return Forecasts(context, guesses)

    def errors(self, values: Values) -> dict[int, float]:
        """For each k the root of the mean squared error."""
        return {
            ahead: float(np.sqrt(np.mean((values[times] - said) ** 2))) for ahead, (times, said) in self.guesses.items()
        }


def last_value(known: Values) -> Values:
    """Nothing changes: what every forecast has to beat."""
    return np.repeat(known[:, -1:], AHEAD[-1], axis=1)


@dataclass(frozen=True)
class LeastSquares:
    """x(t) = w · (x(t-τ), ..., x(t-1)) + b with the least squared error, in closed form: w* = (XᵀX)⁻¹ Xᵀ y."""

    weights: Values
    bias: float

    @staticmethod
    def of(values: Values, tau: int) -> LeastSquares:
        """The best linear model of the last τ values; where several are, the one with the shortest weights."""
        windows = np.lib.stride_tricks.sliding_window_view(values, tau)[:-1]
        found, *_ = np.linalg.lstsq(np.column_stack([windows, np.ones(len(windows))]), values[tau:], rcond=None)
        return LeastSquares(found[:-1].astype(np.float64), float(found[-1]))

    def __call__(self, known: Values) -> Values:
        """The guesses for the next steps."""
        tau, seen = len(self.weights), known
        for _ in range(AHEAD[-1]):
            seen = np.column_stack([seen, seen[:, -tau:] @ self.weights + self.bias])
        return seen[:, known.shape[1] :]
