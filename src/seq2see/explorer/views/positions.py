"""Where tokens stand: what a model is told of it, and what it makes of the same tokens in another order."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.inputs import refuse_wordless
from seq2see.explorer.messages import MOST_TOKENS, AboutRun, Numbers, Place, Words
from seq2see.inspection.positions import Told, alike, table_of, told_to
from seq2see.models.counting import CountingSettings
from seq2see.models.picture_settings import Picture
from seq2see.models.settings import Tags, Vector
from seq2see.workbench.predict import Model
from seq2see.workbench.reordering import Reordering, reordering, untold

Side = Literal["source", "target"]
ToldOrOff = Literal["told", "off"]


class TableAsked(AboutRun):
    """What is one side of a model told of its first places?"""

    side: Side
    length: Annotated[int, Field(ge=1, le=MOST_TOKENS)] = 64
    head: Place = 0
    """Where heads are told differently."""


class OrderAsked(AboutRun):
    """What becomes of a text in another order?"""

    text: Words
    order: Annotated[tuple[Place, ...], Field(max_length=MOST_TOKENS)] = ()
    """Which of the movable tokens stands at each of their places; none: as they are."""
    positions: ToldOrOff = "told"
    """Whether the model is told where tokens stand, as it has learnt to be, or not."""


def told(bench: Bench, asked: AboutRun) -> dict[str, Any]:
    """How each side of a model is told, and whether it can be left untold."""
    run = bench.run(asked.run)
    sides = {side: _told(run, side) for side in _sides(run)}
    listed = [
        {"side": side, "kind": each.kind, "longest": each.longest, "heads": each.heads, "grid": each.grid}
        for side, each in sides.items()
    ]
    # A tagger is asked about words, which several pieces may be part of: moved alone, they would be of other words.
    # One that gives a vector says nothing that another order could change.
    reorders = not isinstance(run.settings.source, Picture) and not isinstance(run.settings.target, Tags | Vector)
    return {"sides": listed, "reorders": reorders}


def _sides(run: OpenRun) -> dict[Side, str]:
    """What reads each side."""
    pairs: dict[Side, str] = {"source": "encoder", "target": "decoder"}
    module = run.model.module
    return {side: body for side, body in pairs.items() if hasattr(module, side) and hasattr(module, body)}


def _told(run: OpenRun, side: Side) -> Told:
    bodies, module = _sides(run), run.model.module
    if side not in bodies:
        raise UserError(f"This model has no {side}.", where=run.name)
    return told_to(getattr(module, side), getattr(module, bodies[side]))


def table(bench: Bench, asked: TableAsked) -> Numbers:
    """(place, number) or (query, key): see `inspection.positions.table_of`."""
    way = _asked(bench, asked)
    return Numbers(table_of(way, _length(bench.run(asked.run), way, asked), asked.head))


def similar(bench: Bench, asked: TableAsked) -> Numbers:
    """(place, place): how alike two places look."""
    way = _asked(bench, asked)
    return Numbers(alike(way, _length(bench.run(asked.run), way, asked), asked.head))


def _asked(bench: Bench, asked: TableAsked) -> Told:
    way = _told(bench.run(asked.run), asked.side)
    if way.kind == "none":
        raise UserError("This side of the model is not told where tokens stand.", where=asked.side)
    if asked.head >= way.heads:
        raise UserError(f"There are {way.heads} heads that are told differently.", where="head")
    return way


def _length(run: OpenRun, way: Told, asked: TableAsked) -> int:
    """Places asked for; of a picture, those from side to side."""
    source = run.settings.source
    if "grid" in way.kind:
        assert isinstance(source, Picture)
        return source.side // source.frontend.size
    return min(asked.length, way.longest or asked.length)


def answers(bench: Bench, asked: OrderAsked) -> dict[str, Any]:
    """The tokens, which of them can be moved, and what the model says to them in this order."""
    found = _reordered(bench, asked)
    text, guesses = found.answer()
    return {
        "tokens": found.tokens,
        "movable": found.movable,
        "text": text,
        "guesses": [[{"text": each.text, "probability": each.probability} for each in guess] for guess in guesses],
    }


def distances(bench: Bench, asked: OrderAsked) -> Numbers:
    """(station, token): how far the vectors of the same token lie apart, in this order and as the text stands."""
    return Numbers(_reordered(bench, asked).distances())


def _reordered(bench: Bench, asked: OrderAsked) -> Reordering:
    """The tokens of the text as the run's model reads them, in the order that was asked for."""
    run = bench.run(asked.run)
    refuse_wordless(run)
    if isinstance(run.settings.decoder, CountingSettings):
        raise UserError("This model counts, and has no vectors.", where=run.name)
    if isinstance(run.settings.target, Tags):
        raise UserError("This model is asked about words, and their pieces cannot be moved.", where=run.name)
    model = run.model if asked.positions == "told" else unplaced(bench, run)
    found = reordering(model, asked.text, asked.order)
    if len(found.ids) > MOST_TOKENS:
        raise UserError(f"This text has {len(found.ids):,} tokens, and {MOST_TOKENS:,} can be shown.")
    if not any(found.movable):
        raise UserError("There is nothing to read in an empty text.")
    return found


def unplaced(bench: Bench, run: OpenRun) -> Model:
    """The same model when it is not told where anything stands, made once."""
    return bench.kept(("unplaced", run.id), lambda: untold(run.model))
