"""What a run's model makes of one input, recorded once and kept for the questions that follow.

Views ask for one head at a time, and all heads of one text come from one pass. Where all of them together would be too
much to keep (a matrix has a number for every two tokens), each layer is recorded by itself, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.examples import example_of
from seq2see.explorer.inputs import refuse_long
from seq2see.explorer.messages import AboutRun, Place, Words
from seq2see.explorer.views.pictures import PictureAsked, Pixels, shown
from seq2see.inspection.record import Kind, Record, Signal
from seq2see.inspection.trace import ATTENTION
from seq2see.models.picture_settings import Film, Picture
from seq2see.workbench.look import Reading, look_at

QUERIES: tuple[Kind, ...] = ("query",)
MOST_BYTES = 32 << 20
"""Of attention that is kept for one input; beyond it, for one layer."""


class AboutInput(AboutRun):
    """A question about what a model makes of one text, or of one picture."""

    text: Words = ""
    target: Words | None = None
    """What it shall write; its own answer, if nothing is said. A language model goes on from the text by it."""
    number: Place = 0
    """Of a model of pictures: one of its own test pictures."""
    pixels: Pixels = ""
    """The same: a picture as the page has it; see `vit/picture`."""


def reading(bench: Bench, asked: AboutInput) -> Reading:
    """The input as the model reads it in one pass, with the answer that it is to write."""
    return bench.kept((*_key(asked), "reading"), lambda: _reading(bench, asked))


def record(bench: Bench, asked: AboutInput, kinds: Collection[Kind], only: Collection[str] = ()) -> Record:
    """What passed through the model, of some kinds, and of some parts only if any are named."""
    key = (*_key(asked), tuple(sorted(kinds)), tuple(sorted(only)))
    return bench.kept(key, lambda: look_at(bench.run(asked.run).model, reading(bench, asked), kinds, only))


def layers(bench: Bench, asked: AboutInput) -> list[Signal]:
    """Every attention of the model, in order; instead of their weights, which may be many, they have their queries."""
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
    run = bench.run(asked.run)
    given, target = _given(bench, run, asked), asked.target
    if not run.model.reads:
        target = target or ""  # a text is looked at as it stands
    found = run.model.reading(given, target)
    for side, tokens in found.tokens.items():
        refuse_long(len(tokens), side)
    return found


def _given(bench: Bench, run: OpenRun, asked: AboutInput) -> Any:
    """The text, or the picture; a grey film stands in for any."""
    if not isinstance(run.settings.source, Picture):
        return asked.text
    if isinstance(run.settings.source, Film):
        return example_of(run)
    return shown(bench, PictureAsked(run=asked.run, number=asked.number, pixels=asked.pixels)).pixels
