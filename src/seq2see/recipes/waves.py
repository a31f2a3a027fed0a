"""Recipes that go on with a series of numbers."""

from __future__ import annotations

from seq2see.decoding.settings import Decoding
from seq2see.models.recurrent import RecurrentDecoderSettings
from seq2see.models.settings import Series
from seq2see.models.window import WindowDecoderSettings
from seq2see.sources.series import Waves
from seq2see.training.objectives import NextValue
from seq2see.training.schedules import Cosine
from seq2see.training.settings import Training
from seq2see.workbench.recipe import Recipe


def waves() -> Recipe:
    """An MLP over the last four values of your own series: `seq2see train waves my.csv`; without a file, of a sine."""
    return Recipe(
        name="waves",
        corpus=Waves(),
        target=Series(longest=32),
        decoder=WindowDecoderSettings(width=4, tau=4, hidden=16, dropout=0.0),
        objective=NextValue(),
        training=Training(steps=800, rate=5e-3, tokens=512, save_every=100, patience=4, schedule=Cosine(warmup=20)),
        decoding=Decoding(max_new_tokens=16),
        metrics=(),
    )


def waves_linear() -> Recipe:
    """The same window without a hidden layer: linear autoregression."""
    return waves().with_(**{"name": "waves-linear", "decoder.depth": 0, "decoder.width": 1})


def waves_gru() -> Recipe:
    """The same series by gated cells, which sum up the past in a state."""
    cells = RecurrentDecoderSettings(width=16, cell="gru", look="first-state", dropout=0.0)
    return waves().model_copy(update={"name": "waves-gru", "decoder": cells})
