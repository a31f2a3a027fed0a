"""Traces of a run's model for one input, recorded once and cached for the next requests.

Views request one head at a time, and one forward pass gives all heads. If all attention maps together are too large for
the cache (their size is quadratic in the length), each layer is recorded separately, when it is requested.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import ImageRequest, check_length, prepare_image, recording_of
from seq2see.explorer.schemas import InputRequest, InputText
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.record import ActivationRecord, Signal, SignalKind
from seq2see.inspection.trace import ATTENTION
from seq2see.tasks.model import NamedBatch, trace_batch

QUERIES: tuple[SignalKind, ...] = ("query",)
MAX_ATTENTION_BYTES = 32 << 20
"""The maximum size of the attention weights that are recorded for all layers at once."""


class TraceRequest(InputRequest):
    """A request about the activations of a model for one input and one target."""

    target: InputText | None = None
    """The target, by default the model's own prediction; for language models, the continuation of the text."""


def model_input(workspace: Workspace, request: InputRequest) -> Any:
    """The input of the model: the text, the pixels of an image or a video, or the samples of a recording."""
    run = workspace.run(request.run)
    if run.task.input_kind == "sound":
        return recording_of(run, request.number).samples
    if not run.task.reads_files:
        return request.text
    return prepare_image(
        workspace, ImageRequest(run=request.run, number=request.number, pixels=request.pixels)
    ).model_input


def named_batch(workspace: Workspace, request: TraceRequest) -> NamedBatch:
    """The batch of the input and its target, with the names of its tokens."""
    return workspace.cached((*_key(request), "batch"), lambda: _named_batch(workspace, request))


def record(
    workspace: Workspace, request: TraceRequest, kinds: Collection[SignalKind], module_names: Collection[str] = ()
) -> ActivationRecord:
    """The activation record of these kinds of signals, for all modules or only for `module_names`."""
    key = (*_key(request), tuple(sorted(kinds)), tuple(sorted(module_names)))
    return workspace.cached(
        key, lambda: trace_batch(workspace.run(request.run).model, named_batch(workspace, request), kinds, module_names)
    )


def attention_layers(workspace: Workspace, request: TraceRequest) -> list[Signal]:
    """Every attention layer of the model in order, with its queries as values (its weights may be large)."""
    if workspace.run(request.run).config.members:
        return []  # the members of an ensemble have different attention weights
    return record(workspace, request, QUERIES).of("query")


def attention_weights(workspace: Workspace, request: TraceRequest, layer: int) -> tuple[ActivationRecord, Signal]:
    """The weights of one attention layer, and their record."""
    layers = attention_layers(workspace, request)
    if layer >= len(layers):
        raise UserError(f"This model has {len(layers)} attention layers, and no layer {layer}.")
    tokens = named_batch(workspace, request).tokens
    size = sum(
        4 * len(each.values) * each.values.shape[1] * len(tokens.get(each.key_side or "", "")) for each in layers
    )
    traced = record(workspace, request, ATTENTION, () if size <= MAX_ATTENTION_BYTES else (layers[layer].name,))
    return traced, traced.find(layers[layer].name, "attention")


def _key(request: TraceRequest) -> tuple[Any, ...]:
    return request.run, request.text, request.target, request.number, request.pixels


def _named_batch(workspace: Workspace, request: TraceRequest) -> NamedBatch:
    run, target = workspace.run(request.run), request.target
    if not run.model.has_source:
        target = target or ""  # the text alone, without a continuation
    batch = run.model.named_batch(model_input(workspace, request), target)
    batch = run.task.page_batch(batch)
    for side, tokens in batch.tokens.items():
        check_length(len(tokens), side)
    return batch
