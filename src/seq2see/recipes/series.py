"""Recipes for forecasting series."""

from __future__ import annotations

from seq2see.data.readers.number_series import NoisySine
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import Series
from seq2see.tasks.forecast import ForecastRecipe
from seq2see.training.objectives import NextValue
from seq2see.training.optimizers import Cosine
from seq2see.training.settings import Training


def forecast() -> ForecastRecipe:
    """An MLP over the last four values of your own series: `seq2see train forecast my.csv`; by default of a sine."""
    return ForecastRecipe(
        name="forecast",
        corpus=NoisySine(),
        target=Series(context_length=32),
        decoder=MLPDecoderSettings(width=4, context=4, hidden=16, dropout=0.0),
        objective=NextValue(),
        training=Training(
            steps=800, learning_rate=5e-3, batch_tokens=512, evaluate_every=100, patience=4, schedule=Cosine(warmup=20)
        ),
    )


def forecast_autoregressive() -> ForecastRecipe:
    """Linear autoregression on the last four values."""
    return forecast().with_(**{"name": "forecast-autoregressive", "decoder.depth": 0, "decoder.width": 1})


def forecast_gru() -> ForecastRecipe:
    """A GRU, whose state summarizes all past values."""
    decoder = RecurrentDecoderSettings(width=16, cell="gru", attention="none", dropout=0.0)
    return forecast().model_copy(update={"name": "forecast-gru", "decoder": decoder})
