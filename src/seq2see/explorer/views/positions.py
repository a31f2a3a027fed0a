"""The view "Positions": the position encodings of a model, and its predictions for reordered tokens."""

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
from seq2see.runs.reordering import Reordering, reordering, without_position_embeddings
from seq2see.tasks.model import Model

SequenceSide = Literal["source", "target"]
OnOff = Literal["on", "off"]


class PositionTableRequest(RunRequest):
    """A request for the encodings of the first positions of one side of a model."""

    side: SequenceSide
    length: Annotated[int, Field(ge=1, le=MAX_SHOWN_TOKENS)] = 64
    head: Index = 0
    """The head, if the encodings of the heads differ."""


class ReorderRequest(RunRequest):
    """A request about a text with reordered tokens."""

    text: InputText
    order: Annotated[tuple[Index, ...], Field(max_length=MAX_SHOWN_TOKENS)] = ()
    """The movable token at each of their positions; empty for the original order."""
    positions: OnOff = "on"
    """Whether the model uses its position encodings."""


def encodings(workspace: Workspace, request: RunRequest) -> dict[str, Any]:
    """The position encodings of each side of a model, and whether its tokens can be reordered."""
    run = workspace.run(request.run)
    sides = {side: _encoding(run, side) for side in _sides(run)}
    fields = [
        {"side": side, "kind": each.kind, "max_positions": each.max_positions, "heads": each.heads, "grid": each.grid}
        for side, each in sides.items()
    ]
    return {"sides": fields, "reorderable": not run.task.fixed_order}


def _sides(run: OpenRun) -> dict[SequenceSide, str]:
    """From each side of a model to the attribute of its encoder or decoder."""
    bodies: dict[SequenceSide, str] = {"source": "encoder", "target": "decoder"}
    module = run.model.module
    return {side: body for side, body in bodies.items() if hasattr(module, side) and hasattr(module, body)}


def _encoding(run: OpenRun, side: SequenceSide) -> PositionEncoding:
    bodies, module = _sides(run), run.model.module
    if side not in bodies:
        raise UserError(f"This model has no {side}.", location=run.name)
    return find_position_encoding(getattr(module, side), getattr(module, bodies[side]))


def table(workspace: Workspace, request: PositionTableRequest) -> ArrayResponse:
    """(position, number) or (query, key): see `inspection.position_encodings.position_table`."""
    encoding = _checked_encoding(workspace, request)
    return ArrayResponse(position_table(encoding, _length(workspace.run(request.run), encoding, request), request.head))


def similarity(workspace: Workspace, request: PositionTableRequest) -> ArrayResponse:
    """(position, position): the similarity of the encodings of each pair of positions."""
    encoding = _checked_encoding(workspace, request)
    return ArrayResponse(
        position_similarity(encoding, _length(workspace.run(request.run), encoding, request), request.head)
    )


def _checked_encoding(workspace: Workspace, request: PositionTableRequest) -> PositionEncoding:
    encoding = _encoding(workspace.run(request.run), request.side)
    if encoding.kind == "none":
        raise UserError("This side of the model has no position encoding.", location=request.side)
    if request.head >= encoding.heads:
        raise UserError(f"This encoding has {encoding.heads} heads.", location="head")
    return encoding


def _length(run: OpenRun, encoding: PositionEncoding, request: PositionTableRequest) -> int:
    """The requested number of positions; of an image, the number of patches in a row."""
    source: Any = run.settings.source
    if "grid" in encoding.kind:
        return source.image_size // source.embedding.size
    return min(request.length, encoding.max_positions or request.length)


def predict_reordered(workspace: Workspace, request: ReorderRequest) -> dict[str, Any]:
    """The tokens, which of them can be moved, and the prediction of the model for this order."""
    reordered = _reordered(workspace, request)
    text, candidates = reordered.predict()
    return {
        "tokens": reordered.tokens,
        "movable": reordered.movable,
        "text": text,
        "candidates": [[{"text": each.text, "probability": each.probability} for each in one] for one in candidates],
    }


def distances(workspace: Workspace, request: ReorderRequest) -> ArrayResponse:
    """(layer, token): the distance between the vectors of each token in this order and in the original order."""
    return ArrayResponse(_reordered(workspace, request).distances())


def _reordered(workspace: Workspace, request: ReorderRequest) -> Reordering:
    """The tokens of the text in the requested order."""
    run = workspace.run(request.run)
    require_text_model(run)
    if run.task.fixed_order:
        raise UserError(run.task.fixed_order, location=run.name, hint="Choose another run.")
    model = run.model if request.positions == "on" else without_position_encoding(workspace, run)
    reordered = reordering(model, request.text, request.order)
    if len(reordered.ids) > MAX_SHOWN_TOKENS:
        raise UserError(f"The text has {len(reordered.ids):,} tokens, and the maximum is {MAX_SHOWN_TOKENS:,}.")
    if not any(reordered.movable):
        raise UserError("The text is empty.")
    return reordered


def without_position_encoding(workspace: Workspace, run: OpenRun) -> Model:
    """The cached model without position encodings."""
    return workspace.cached(("no-positions", run.id), lambda: without_position_embeddings(run.model))
