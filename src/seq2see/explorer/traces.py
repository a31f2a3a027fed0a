"""What a run's model makes of one input, recorded once and kept for the questions that follow.

Views ask for one head at a time, and all heads of one text come from one pass. Where all of them together would be too
much to keep (a matrix has a number for every two tokens), each layer is recorded by itself, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import check_length
from seq2see.explorer.schemas import InputRequest, InputText
from seq2see.explorer.views.image_input import ImageRequest, prepare_image
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.record import ActivationRecord, Signal, SignalKind
from seq2see.inspection.trace import ATTENTION
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import Series
from seq2see.runs.tracing import NamedBatch, trace_batch

QUERIES: tuple[SignalKind, ...] = ("query",)
MAX_ATTENTION_BYTES = 32 << 20
"""Of attention that is kept for one input; beyond it, for one layer."""


class TraceRequest(InputRequest):
    """A question about what happens inside a model while it reads one thing and writes another."""

    target: InputText | None = None
    """What it shall write; its own answer, if nothing is said. A language model goes on from the text by it."""


def model_input(workspace: Workspace, request: InputRequest) -> Any:
    """What the model is given: the text as it is typed, or the pixels of an image or a video."""
    if not isinstance(workspace.run(request.run).settings.source, ImageSource):
        return request.text
    return prepare_image(
        workspace, ImageRequest(run=request.run, number=request.number, pixels=request.pixels)
    ).model_input


def reading(workspace: Workspace, request: TraceRequest) -> NamedBatch:
    """The input as the model reads it in one pass, with the answer that it is to write."""
    return workspace.cached((*_key(request), "reading"), lambda: _reading(workspace, request))


def record(
    workspace: Workspace, request: TraceRequest, kinds: Collection[SignalKind], module_names: Collection[str] = ()
) -> ActivationRecord:
    """What passed through the model, of some kinds, and of some parts only if any are named."""
    key = (*_key(request), tuple(sorted(kinds)), tuple(sorted(module_names)))
    return workspace.cached(
        key, lambda: trace_batch(workspace.run(request.run).model, reading(workspace, request), kinds, module_names)
    )


def attention_layers(workspace: Workspace, request: TraceRequest) -> list[Signal]:
    """Every attention of the model, in order; instead of their weights, which may be many, they have their queries."""
    if workspace.run(request.run).config.members:
        return []  # the members of an ensemble look at different places
    return record(workspace, request, QUERIES).of("query")


def attention_weights(workspace: Workspace, request: TraceRequest, layer: int) -> tuple[ActivationRecord, Signal]:
    """The weights of one attention, and the record they are in."""
    found = attention_layers(workspace, request)
    if layer >= len(found):
        raise UserError(f"This model has {len(found)} attentions, and there is no number {layer}.")
    tokens = reading(workspace, request).tokens
    size = sum(4 * len(each.values) * each.values.shape[1] * len(tokens.get(each.key_side or "", "")) for each in found)
    seen = record(workspace, request, ATTENTION, () if size <= MAX_ATTENTION_BYTES else (found[layer].name,))
    return seen, seen.find(found[layer].name, "attention")


def _key(request: TraceRequest) -> tuple[Any, ...]:
    return request.run, request.text, request.target, request.number, request.pixels


def _reading(workspace: Workspace, request: TraceRequest) -> NamedBatch:
    run, target = workspace.run(request.run), request.target
    if not run.model.has_source:
        target = target or ""  # a text is looked at as it stands
    found = run.model.named_batch(model_input(workspace, request), target)
    if isinstance(run.settings.target, Series):
        found = label_by_time(found)
    for side, tokens in found.tokens.items():
        check_length(len(tokens), side)
    return found


def label_by_time(read: NamedBatch) -> NamedBatch:
    """A series as it is read, its places called by their times; at each the model guesses the value of the next.

    Numbers with all their digits would not fit where places are named; a chart shows them better.
    """
    count = len(read.tokens["target"])
    times = [str(time + 1) for time in range(count + 1)]
    return replace(read, tokens={"target": times[:count], "labels": times[1:]})
