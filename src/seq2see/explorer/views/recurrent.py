"""The view "Recurrent": states and gates over time, the influence of a word, and the context vectors of a decoder."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.inputs import TraceRequest, named_batch, record
from seq2see.explorer.schemas import ArrayResponse, Index
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.record import ActivationRecord, Signal, SignalKind
from seq2see.inspection.recurrent_memory import (
    RETENTION_MEASURES,
    ContextComparison,
    compare_contexts,
    memory_retention,
    to_double,
)
from seq2see.models.decoder_attention import BahdanauAttention, ContextVectorAttention, LuongAttention
from seq2see.models.recurrent import RecurrentDecoder

KINDS: tuple[SignalKind, ...] = ("hidden", "gate")
ModulePath = Annotated[str, Field(max_length=80, pattern=r"^[a-z0-9_.]+$")]
"""The name of a module: `encoder.stack.forward_cells.0`."""


class StatesRequest(TraceRequest):
    """A request for one signal of a cell at all time steps."""

    cell: ModulePath
    signal: Annotated[str, Field(max_length=20, pattern=r"^[a-z]+$")] = "hidden"
    """`hidden`, `cell` (the cell state of an LSTM), or the name of a gate."""


class InfluenceRequest(TraceRequest):
    """A request for the influence of a word at each time step."""

    cell: ModulePath
    word: Index = 0


def list_cells(workspace: Workspace, request: TraceRequest) -> dict[str, Any]:
    """The cells of the model with their signals, and the tokens of each side."""
    traced = record(workspace, request, KINDS)
    cells = [_cell_fields(traced, each) for each in traced.of("hidden") if not each.component]
    if not cells:
        raise UserError("This model has no recurrent cells.", location=workspace.run(request.run).name)
    return {"cells": cells, "tokens": traced.tokens, "source_access": source_access_of(workspace.run(request.run))}


def _cell_fields(traced: ActivationRecord, hidden: Signal) -> dict[str, Any]:
    extra_states = [each.component for each in traced.of("hidden") if each.name == hidden.name and each.component]
    gates = [each.component for each in traced.of("gate") if each.name == hidden.name]
    *_, direction, layer = hidden.name.split(".")
    return {
        "name": hidden.name,
        "side": hidden.side,
        "layer": int(layer),
        "direction": "backward" if direction == "backward_cells" else "forward",
        "units": hidden.values.shape[-1],
        "signals": ["hidden", *extra_states, *gates],
    }


def states(workspace: Workspace, request: StatesRequest) -> ArrayResponse:
    """(time, unit): the states of a cell, or one of its gates."""
    traced = record(workspace, request, KINDS)
    if request.signal in ("hidden", "cell"):
        return ArrayResponse(traced.find(request.cell, "hidden", "" if request.signal == "hidden" else "cell").values)
    return ArrayResponse(traced.find(request.cell, "gate", request.signal).values)


def influence(workspace: Workspace, request: InfluenceRequest) -> ArrayResponse:
    """(measure, time): the influence of a word, by the measures of `inspection.recurrent_memory.RETENTION_MEASURES`."""
    run = workspace.run(request.run)
    traced = record(workspace, request, KINDS)
    length = len(traced.find(request.cell, "hidden").values)
    if request.word >= length:
        raise UserError(f"There are {length} tokens.", location="word", hint="They are counted from 0.")
    model = workspace.cached(("double", run.id), lambda: to_double(run.model.module))  # type: ignore[arg-type]
    measures = memory_retention(model, named_batch(workspace, request).batch, request.cell, request.word)
    assert len(measures) == len(RETENTION_MEASURES)
    return ArrayResponse(measures)


def source_access_of(run: OpenRun) -> str:
    """How the decoder uses the source: `attention`, `context-vector` (at every step), `first-state`, or `none`."""
    decoder = getattr(run.model.module, "decoder", None)
    if not run.model.has_source or not isinstance(decoder, RecurrentDecoder):
        return "none"
    if isinstance(decoder.cross_attention, BahdanauAttention | LuongAttention):
        return "attention"
    return "context-vector" if isinstance(decoder.cross_attention, ContextVectorAttention) else "first-state"


def context_vectors(workspace: Workspace, request: TraceRequest) -> ArrayResponse:
    """(1 + target, width): the pooled vector of the source, then the context vector of attention at each step."""
    contexts = _contexts(workspace, request)
    return ArrayResponse(np.concatenate([contexts.fixed_context[None], contexts.attention_contexts]))


def attention_ablation(workspace: Workspace, request: TraceRequest) -> ArrayResponse:
    """(2, target): the probability of each target token, with attention and with the pooled vector instead."""
    contexts = _contexts(workspace, request)
    return ArrayResponse(np.stack([contexts.with_attention, contexts.without_attention]))


def _contexts(workspace: Workspace, request: TraceRequest) -> ContextComparison:
    run = workspace.run(request.run)
    if source_access_of(run) != "attention":
        raise UserError("This decoder has no attention over the source.", location=run.name)
    module: Any = run.model.module
    return workspace.cached(
        ("contexts", request.model_dump_json()), lambda: compare_contexts(module, named_batch(workspace, request).batch)
    )
