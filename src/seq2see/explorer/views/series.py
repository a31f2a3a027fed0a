"""A series of numbers, and what a model of it says: of every next value, and of those that nobody has seen yet."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.messages import AboutRun, Words
from seq2see.sequences.series import numbers_of
from seq2see.sources.examples import Example
from seq2see.workbench.forecast import Forecaster
from seq2see.workbench.waves import context_of

STRETCHES = 12
"""Stretches of the test values that are offered to be read."""


class SeriesAsked(AboutRun):
    """How does a series go on?"""

    text: Words
    """Its values as they are typed."""
    ahead: Annotated[int, Field(ge=1, le=200)] = 16
    """Values that are forecast, each from those before it and from its own forecasts."""


def said(bench: Bench, asked: SeriesAsked) -> dict[str, Any]:
    """The values that the model sees, what it said of each from those before it, and how it goes on."""
    run = bench.run(asked.run)
    model = run.model
    if not isinstance(model, Forecaster):
        raise UserError("This model goes on from no numbers.", where=run.name, remedy="Choose a run that forecasts.")
    guesses = model.along(asked.text)
    seen = numbers_of(asked.text)[-len(guesses) :]
    ahead = numbers_of(model(asked.text, max_new_tokens=asked.ahead).text)
    return {"values": seen, "guesses": guesses, "ahead": ahead}


def stretches(run: OpenRun) -> list[Example]:
    """Stretches of a run's test values, each as long as its model sees, and what comes behind it."""
    context = context_of(run.settings)
    values = [value for each in run.tested_on for value in each.target.split()]
    starts = range(0, max(1, len(values) - 2 * context), max(1, len(values) // STRETCHES))
    cut = [(values[at : at + context], values[at + context : at + 2 * context]) for at in starts]
    return [Example(" ".join(before), " ".join(after)) for before, after in cut if len(before) == context]
