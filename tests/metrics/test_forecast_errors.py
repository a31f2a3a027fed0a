"""Forecasts: their inputs, their errors, and linear autoregression."""

from __future__ import annotations

import numpy as np
import pytest

from seq2see.metrics.forecast_errors import HORIZONS, Forecasts, LinearAutoregression, persistence_forecast

VALUES = np.arange(200.0) ** 2


def test_a_k_step_forecast_uses_the_series_up_to_k_steps_before():
    forecasts = Forecasts.of(VALUES, 120, 3, persistence_forecast)
    for horizon in HORIZONS:
        times, predicted = forecasts.predictions[horizon]
        assert times.tolist() == list(range(120, 200))
        np.testing.assert_array_equal(predicted, VALUES[times - horizon])


def test_values_without_a_full_context_are_not_predicted():
    forecasts = Forecasts.of(VALUES[:30], 0, 5, persistence_forecast)
    assert list(forecasts.predictions) == [1, 4, 16]
    assert forecasts.predictions[1][0][0] == 5
    assert forecasts.predictions[4][0][0] == 8
    assert Forecasts.of(VALUES[:5], 0, 5, persistence_forecast).predictions == {}


def test_an_error_is_the_root_of_the_mean_square():
    values = np.array([0.0, 3.0, 0.0, 3.0])
    forecasts = Forecasts.of(values, 1, 1, persistence_forecast)
    assert forecasts.errors(values)[1] == pytest.approx(3)


def test_contexts_are_read_oldest_first():
    contexts = []
    Forecasts.of(VALUES, 190, 3, lambda observed: (contexts.append(observed), persistence_forecast(observed))[1])
    assert contexts[0][0].tolist() == VALUES[124:127].tolist()


def test_least_squares_finds_the_coefficients_of_a_series():
    """x(t) = 1.6 x(t-1) - 0.9 x(t-2) + 2."""
    values = [0.3, 1.0]
    for _ in range(150):
        values.append(1.6 * values[-1] - 0.9 * values[-2] + 2)
    values = np.array(values)
    model = LinearAutoregression.of(values[:60], 2)
    np.testing.assert_allclose([*model.weights, model.bias], [-0.9, 1.6, 2], rtol=1e-6)
    errors = Forecasts.of(values, 60, 2, model).errors(values)
    assert max(errors.values()) < 1e-6
    assert list(errors) == list(HORIZONS)
