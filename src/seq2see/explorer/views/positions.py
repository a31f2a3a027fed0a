"""Where tokens stand: what a model is told of it, and what it makes of the same tokens in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.inputs import refuse_wordless
from seq2see.explorer.messages import MOST_TOKENS, AboutRun, Numbers, Place, Words
from seq2see.inspection.orders import moved
from seq2see.inspection.positions import Told, alike, table_of, told_to, without_positions
from seq2see.models.counting import CountingSettings
from seq2see.models.picture_settings import Picture
from seq2see.models.settings import Tags
from seq2see.sequences.tokenisers import BOS, EOS, MASK_TEXT, PAD
from seq2see.workbench.ask import Asker
from seq2see.workbench.engines import Asked
from seq2see.workbench.fill import Fill
from seq2see.workbench.model_folder import StoredModel
from seq2see.workbench.predict import Model, opened
from seq2see.workbench.questions import Seen, batch_of

LONGEST_ANSWER = 40
"""Tokens that a model goes on by when it shows what another order makes of its answer."""
LIKELY = 5
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
    reorders = not isinstance(run.settings.source, Picture) and not isinstance(run.settings.target, Tags)
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
    run, ids = _read(bench, asked)
    model = run.model if asked.positions == "told" else unplaced(bench, run)
    order = whole_order(ids, asked.order)
    text, guesses = said(model, asked.text, ids, order)
    return {
        "tokens": model.tokenisers.source.pieces(ids),
        "movable": [number not in (PAD, BOS, EOS) for number in ids],
        "text": text,
        "guesses": guesses,
    }


def distances(bench: Bench, asked: OrderAsked) -> Numbers:
    """(station, token): how far the vectors of the same token lie apart, in this order and as the text stands."""
    run, ids = _read(bench, asked)
    model = run.model if asked.positions == "told" else unplaced(bench, run)
    return Numbers(moved(model.module, ids, whole_order(ids, asked.order))[1])


def _read(bench: Bench, asked: OrderAsked) -> tuple[OpenRun, list[int]]:
    """The run, and the tokens of the text as its model reads them."""
    run = bench.run(asked.run)
    refuse_wordless(run)
    if isinstance(run.settings.decoder, CountingSettings):
        raise UserError("This model counts, and has no vectors.", where=run.name)
    if isinstance(run.settings.target, Tags):
        raise UserError("This model is asked about words, and their pieces cannot be moved.", where=run.name)
    ids = _seen_by(run.model, asked.text)
    if len(ids) > MOST_TOKENS:
        raise UserError(f"This text has {len(ids):,} tokens, and {MOST_TOKENS:,} can be shown.")
    if not any(number not in (PAD, BOS, EOS) for number in ids):
        raise UserError("There is nothing to read in an empty text.")
    return run, ids


def _seen_by(model: Model, text: str) -> list[int]:
    if isinstance(model, Asker):
        return _seen(model, text).ids
    return model.read(text) if model.reads else [BOS, *model.read(text)]


def _seen(model: Asker, text: str) -> Seen:
    """A text as a model reads it that answers nothing but questions; without a [MASK] none is asked, and it is read."""
    if isinstance(model.question, Fill) and MASK_TEXT not in text:
        return Seen(text, [BOS, *model.tokenisers.source.encode(text), EOS], False)
    return model.question.read(model.stored, text)


def whole_order(ids: list[int], order: Sequence[int]) -> list[int]:
    """An order of the movable tokens as one of all: <bos> and <eos> stay where they are."""
    places = [place for place, number in enumerate(ids) if number not in (PAD, BOS, EOS)]
    order = order or range(len(places))
    if sorted(order) != list(range(len(places))):
        raise UserError(f"An order of these {len(places)} tokens names each of them once.", where="order")
    whole = list(range(len(ids)))
    for place, token in zip(places, order, strict=True):
        whole[place] = places[token]
    return whole


@torch.inference_mode()
def said(model: Model, text: str, ids: list[int], order: list[int]) -> tuple[str, list[list[dict[str, Any]]]]:
    """What a model answers to tokens in an order; one that only reads, also what else is likely."""
    turned = [ids[place] for place in order]
    if isinstance(model, Asker):
        seen = _seen(model, text)
        seen = replace(seen, ids=turned)
        scores = model.module(batch_of([seen]).to(model.device)).float().log_softmax(-1)[0].cpu()
        found = model.question.answer(model.stored, seen, scores, LIKELY)
        told_of = [[{"text": each.text, "probability": each.probability} for each in guess] for guess in found.guesses]
        return found.text, told_of
    most = min(model.config.decoding.max_new_tokens, LONGEST_ANSWER)
    given = turned if model.reads else turned[1:]
    asked = Asked([given], [0], model.config.decoding.with_(max_new_tokens=most))
    return model.tokenisers.target.decode(model.engine.answer(asked, lambda count: None)[0][0].tokens), []


def unplaced(bench: Bench, run: OpenRun) -> Model:
    """The same model when it is not told where anything stands; it shares all weights."""

    def blind() -> Model:
        model: Any = run.model
        return opened(StoredModel(model.config, without_positions(model.module), model.tokenisers))  # type: ignore[arg-type]

    return bench.kept(("unplaced", run.id), blind)
