"""What a run's model makes of one input, recorded once and kept for the questions that follow.

Views ask for one head at a time, and all heads of one text come from one pass. Where all of them together would be too
much to keep (a matrix has a number for every two tokens), each layer is recorded by itself, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench
from seq2see.explorer.inputs import refuse_long
from seq2see.explorer.messages import AboutGiven, Words
from seq2see.explorer.views.pictures import PictureAsked, shown
from seq2see.inspection.record import Kind, Record, Signal
from seq2see.inspection.trace import ATTENTION
from seq2see.models.picture_settings import Picture
from seq2see.models.settings import Series
from seq2see.workbench.look import Reading, look_at

QUERIES: tuple[Kind, ...] = ("query",)
MOST_BYTES = 32 << 20
"""Of attention that is kept for one input; beyond it, for one layer."""


class AboutInput(AboutGiven):
    """A question about what happens inside a model while it reads one thing and writes another."""

    target: Words | None = None
    """What it shall write; its own answer, if nothing is said. A language model goes on from the text by it."""


def given(bench: Bench, asked: AboutGiven) -> Any:
    """What the model is given: the text as it is typed, or the pixels of a picture or a film."""
    if not isinstance(bench.run(asked.run).settings.source, Picture):
        return asked.text
    return shown(bench, PictureAsked(run=asked.run, number=asked.number, pixels=asked.pixels)).given


def reading(bench: Bench, asked: AboutInput) -> Reading:
    """The input as the model reads it in one pass, with the answer that it is to write."""
    return bench.kept((*_key(asked), "reading"), lambda: _reading(bench, asked))


def record(bench: Bench, asked: AboutInput, kinds: Collection[Kind], only: Collection[str] = ()) -> Record:
    """What passed through the model, of some kinds, and of some parts only if any are named."""
    key = (*_key(asked), tuple(sorted(kinds)), tuple(sorted(only)))
    return bench.kept(key, lambda: look_at(bench.run(asked.run).model, reading(bench, asked), kinds, only))


def layers(bench: Bench, asked: AboutInput) -> list[Signal]:
    """Every attention of the model, in order; instead of their weights, which may be many, they have their queries."""
    if bench.run(asked.run).config.members:
        return []  # the members of an ensemble look at different places
    return record(bench, asked, QUERIES).of("query")


def attention(bench: Bench, asked: AboutInput, layer: int) -> tuple[Record, Signal]:
    """The weights of one attention, and the record they are in."""
    found = layers(bench, asked)
    if layer >= len(found):
        raise UserError(f"This model has {len(found)} attentions, and there is no number {layer}.")
    tokens = reading(bench, asked).tokens
    size = sum(4 * len(each.values) * each.values.shape[1] * len(tokens.get(each.looks_at or "", "")) for each in found)
    seen = record(bench, asked, ATTENTION, () if size <= MOST_BYTES else (found[layer].name,))
    return seen, seen.find(found[layer].name, "attention")


def _key(asked: AboutInput) -> tuple[Any, ...]:
    return asked.run, asked.text, asked.target, asked.number, asked.pixels


def _reading(bench: Bench, asked: AboutInput) -> Reading:
    run, target = bench.run(asked.run), asked.target
    if not run.model.reads:
        target = target or ""  # a text is looked at as it stands
    found = run.model.reading(given(bench, asked), target)
    if isinstance(run.settings.target, Series):
        found = by_time(found)
    for side, tokens in found.tokens.items():
        refuse_long(len(tokens), side)
    return found


def by_time(read: Reading) -> Reading:
    """A series as it is read, its places called by their times; at each the model guesses the value of the next.

    Numbers with all their digits would not fit where places are named; a chart shows them better.
    """
    count = len(read.tokens["target"])
    times = [str(time + 1) for time in range(count + 1)]
    return replace(read, tokens={"target": times[:count], "written": times[1:]})
