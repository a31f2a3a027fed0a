"""Where tokens stand: what a model is told of it, and what it makes of the same tokens in another order."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import require_text_model
from seq2see.explorer.schemas import MAX_SHOWN_TOKENS, ArrayResponse, Index, InputText, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.position_encodings import (
    PositionEncoding,
    find_position_encoding,
    position_similarity,
    position_table,
)
from seq2see.models.image_settings import ImageSource
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import EmbeddingTarget, Tags
from seq2see.runs.model import Model
from seq2see.runs.reordering import Reordering, reordering, without_position_embeddings

SequenceSide = Literal["source", "target"]
OnOff = Literal["on", "off"]


class PositionTableRequest(RunRequest):
    """What is one side of a model told of its first places?"""

    side: SequenceSide
    length: Annotated[int, Field(ge=1, le=MAX_SHOWN_TOKENS)] = 64
    head: Index = 0
    """Where heads are told differently."""


class ReorderRequest(RunRequest):
    """What becomes of a text in another order?"""

    text: InputText
    order: Annotated[tuple[Index, ...], Field(max_length=MAX_SHOWN_TOKENS)] = ()
    """Which of the movable tokens stands at each of their places; none: as they are."""
    positions: OnOff = "on"
    """Whether the model is told where tokens stand, as it has learned to be, or not."""


def encodings(workspace: Workspace, request: RunRequest) -> dict[str, Any]:
    """How each side of a model is told, and whether it can be left untold."""
    run = workspace.run(request.run)
    sides = {side: _encoding(run, side) for side in _sides(run)}
    listed = [
        {"side": side, "kind": each.kind, "max_positions": each.max_positions, "heads": each.heads, "grid": each.grid}
        for side, each in sides.items()
    ]
    # A tagger is asked about words, which several pieces may be part of: moved alone, they would be of other words.
    # One that gives a vector says nothing that another order could change.
    reorders = not isinstance(run.settings.source, ImageSource) and not isinstance(
        run.settings.target, Tags | EmbeddingTarget
    )
    return {"sides": listed, "reorderable": reorders}


def _sides(run: OpenRun) -> dict[SequenceSide, str]:
    """What reads each side."""
    pairs: dict[SequenceSide, str] = {"source": "encoder", "target": "decoder"}
    module = run.model.module
    return {side: body for side, body in pairs.items() if hasattr(module, side) and hasattr(module, body)}


def _encoding(run: OpenRun, side: SequenceSide) -> PositionEncoding:
    bodies, module = _sides(run), run.model.module
    if side not in bodies:
        raise UserError(f"This model has no {side}.", location=run.name)
    return find_position_encoding(getattr(module, side), getattr(module, bodies[side]))


def table(workspace: Workspace, request: PositionTableRequest) -> ArrayResponse:
    """(place, number) or (query, key): see `inspection.positions.position_table`."""
    encoding = _checked_encoding(workspace, request)
    return ArrayResponse(position_table(encoding, _length(workspace.run(request.run), encoding, request), request.head))


def similarity(workspace: Workspace, request: PositionTableRequest) -> ArrayResponse:
    """(place, place): how alike two places look."""
    encoding = _checked_encoding(workspace, request)
    return ArrayResponse(
        position_similarity(encoding, _length(workspace.run(request.run), encoding, request), request.head)
    )


def _checked_encoding(workspace: Workspace, request: PositionTableRequest) -> PositionEncoding:
    encoding = _encoding(workspace.run(request.run), request.side)
    if encoding.kind == "none":
        raise UserError("This side of the model is not told where tokens stand.", location=request.side)
    if request.head >= encoding.heads:
        raise UserError(f"There are {encoding.heads} heads that are told differently.", location="head")
    return encoding


def _length(run: OpenRun, encoding: PositionEncoding, request: PositionTableRequest) -> int:
    """Places asked for; of an image, those from side to side."""
    source = run.settings.source
    if "grid" in encoding.kind:
        assert isinstance(source, ImageSource)
        return source.image_size // source.embedding.size
    return min(request.length, encoding.max_positions or request.length)


def predict_reordered(workspace: Workspace, request: ReorderRequest) -> dict[str, Any]:
    """The tokens, which of them can be moved, and what the model says to them in this order."""
    found = _reordered(workspace, request)
    text, candidates = found.predict()
    return {
        "tokens": found.tokens,
        "movable": found.movable,
        "text": text,
        "candidates": [[{"text": each.text, "probability": each.probability} for each in one] for one in candidates],
    }


def distances(workspace: Workspace, request: ReorderRequest) -> ArrayResponse:
    """(station, token): how far the vectors of the same token lie apart, in this order and as the text stands."""
    return ArrayResponse(_reordered(workspace, request).distances())


def _reordered(workspace: Workspace, request: ReorderRequest) -> Reordering:
    """The tokens of the text as the run's model reads them, in the order that was asked for."""
    run = workspace.run(request.run)
    require_text_model(run)
    if isinstance(run.settings.decoder, NgramSettings):
        raise UserError("This model counts, and has no vectors.", location=run.name)
    if isinstance(run.settings.target, Tags):
        raise UserError("This model is asked about words, and their pieces cannot be moved.", location=run.name)
    model = run.model if request.positions == "on" else without_position_encoding(workspace, run)
    found = reordering(model, request.text, request.order)
    if len(found.ids) > MAX_SHOWN_TOKENS:
        raise UserError(f"This text has {len(found.ids):,} tokens, and {MAX_SHOWN_TOKENS:,} can be shown.")
    if not any(found.movable):
        raise UserError("The text is empty.")
    return found


def without_position_encoding(workspace: Workspace, run: OpenRun) -> Model:
    """The same model when it is not told where anything stands, made once."""
    return workspace.cached(("unplaced", run.id), lambda: without_position_embeddings(run.model))
