"""Inside a recurrent network: states and gates over time, what is left of a word, what it knows of the source."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.messages import Numbers, Place
from seq2see.explorer.records import AboutInput, reading, record
from seq2see.inspection.memories import LEFT, Contexts, contexts, in_double, what_is_left
from seq2see.inspection.record import Kind, Record, Signal
from seq2see.models.recurrent import RecurrentDecoder
from seq2see.models.recurrent_looks import LookAfter, LookAtSummary, LookBefore

KINDS: tuple[Kind, ...] = ("hidden", "gate")
Name = Annotated[str, Field(max_length=80, pattern=r"^[a-z0-9_.]+$")]
"""Of a part of a model: `encoder.reader.ahead.0`."""


class StatesAsked(AboutInput):
    """What one cell did at each time."""

    cell: Name
    shows: Annotated[str, Field(max_length=20, pattern=r"^[a-z]+$")] = "hidden"
    """`hidden`, `cell` (what an LSTM keeps to itself), or a gate by its name."""


class LeftAsked(AboutInput):
    """What is left of a word at each time?"""

    cell: Name
    word: Place = 0


def read(bench: Bench, asked: AboutInput) -> dict[str, Any]:
    """The cells there are, what each shows, and the tokens that they read."""
    seen = record(bench, asked, KINDS)
    cells = [_told(seen, each) for each in seen.of("hidden") if not each.part]
    if not cells:
        raise UserError("This model has no recurrent cells.", where=bench.run(asked.run).name)
    return {"cells": cells, "tokens": seen.tokens, "look": look_of(bench.run(asked.run))}


def _told(seen: Record, hidden: Signal) -> dict[str, Any]:
    kept = [each.part for each in seen.of("hidden") if each.name == hidden.name and each.part]
    gates = [each.part for each in seen.of("gate") if each.name == hidden.name]
    *_, way, layer = hidden.name.split(".")
    return {
        "name": hidden.name,
        "side": hidden.side,
        "layer": int(layer),
        "direction": "back" if way == "back" else "ahead",
        "units": hidden.values.shape[-1],
        "shows": ["hidden", *kept, *gates],
    }


def states(bench: Bench, asked: StatesAsked) -> Numbers:
    """(time, unit): the states of a cell, or one of its gates."""
    seen = record(bench, asked, KINDS)
    if asked.shows in ("hidden", "cell"):
        return Numbers(seen.find(asked.cell, "hidden", "" if asked.shows == "hidden" else "cell").values)
    return Numbers(seen.find(asked.cell, "gate", asked.shows).values)


def left(bench: Bench, asked: LeftAsked) -> Numbers:
    """(way, time): what is left of the word, by the ways of `inspection.memories.LEFT`."""
    run = bench.run(asked.run)
    seen = record(bench, asked, KINDS)
    length = len(seen.find(asked.cell, "hidden").values)
    if asked.word >= length:
        raise UserError(f"There are {length} tokens.", where="word", remedy="They are counted from 0.")
    model = bench.kept(("double", run.id), lambda: in_double(run.model.module))  # type: ignore[arg-type]
    found = what_is_left(model, reading(bench, asked).batch, asked.cell, asked.word)
    assert len(found) == len(LEFT)
    return Numbers(found)


def look_of(run: OpenRun) -> str:
    """How the decoder sees the source: by `attention`, as the same vector at `every` step, `once`, or `never`."""
    decoder = getattr(run.model.module, "decoder", None)
    if not run.model.reads or not isinstance(decoder, RecurrentDecoder):
        return "never"
    if isinstance(decoder.look, LookBefore | LookAfter):
        return "attention"
    return "every" if isinstance(decoder.look, LookAtSummary) else "once"


def given(bench: Bench, asked: AboutInput) -> Numbers:
    """(1 + target, width): the one context vector of the source, and below it what each step was given by attention."""
    found = _contexts(bench, asked)
    return Numbers(np.concatenate([found.summary[None], found.steps]))


def needed(bench: Bench, asked: AboutInput) -> Numbers:
    """(2, target): the probability of each right token; below, if each step were given the context vector instead."""
    found = _contexts(bench, asked)
    return Numbers(np.stack([found.told, found.without]))


def _contexts(bench: Bench, asked: AboutInput) -> Contexts:
    run = bench.run(asked.run)
    if look_of(run) != "attention":
        raise UserError("This decoder has no attention over the source.", where=run.name)
    module: Any = run.model.module
    return bench.kept(("contexts", asked.model_dump_json()), lambda: contexts(module, reading(bench, asked).batch))
