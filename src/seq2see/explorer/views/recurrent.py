"""Inside a recurrent network: states and gates over time, what is left of a word, what it knows of the source."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import ArrayResponse, Index
from seq2see.explorer.traces import TraceRequest, reading, record
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
"""Of a part of a model: `encoder.reader.ahead.0`."""


class StatesRequest(TraceRequest):
    """What one cell did at each time."""

    cell: ModulePath
    signal: Annotated[str, Field(max_length=20, pattern=r"^[a-z]+$")] = "hidden"
    """`hidden`, `cell` (what an LSTM keeps to itself), or a gate by its name."""


class InfluenceRequest(TraceRequest):
    """What is left of a word at each time?"""

    cell: ModulePath
    word: Index = 0


def list_cells(workspace: Workspace, request: TraceRequest) -> dict[str, Any]:
    """The cells there are, what each shows, and the tokens that they read."""
    seen = record(workspace, request, KINDS)
    cells = [_cell_fields(seen, each) for each in seen.of("hidden") if not each.component]
    if not cells:
        raise UserError("This model has no recurrent cells.", location=workspace.run(request.run).name)
    return {"cells": cells, "tokens": seen.tokens, "source_access": source_access_of(workspace.run(request.run))}


def _cell_fields(seen: ActivationRecord, hidden: Signal) -> dict[str, Any]:
    extra_states = [each.component for each in seen.of("hidden") if each.name == hidden.name and each.component]
    gates = [each.component for each in seen.of("gate") if each.name == hidden.name]
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
    seen = record(workspace, request, KINDS)
    if request.signal in ("hidden", "cell"):
        return ArrayResponse(seen.find(request.cell, "hidden", "" if request.signal == "hidden" else "cell").values)
    return ArrayResponse(seen.find(request.cell, "gate", request.signal).values)


def influence(workspace: Workspace, request: InfluenceRequest) -> ArrayResponse:
    """(way, time): what is left of the word, by the ways of `inspection.memories.RETENTION_MEASURES`."""
    run = workspace.run(request.run)
    seen = record(workspace, request, KINDS)
    length = len(seen.find(request.cell, "hidden").values)
    if request.word >= length:
        raise UserError(f"There are {length} tokens.", location="word", hint="They are counted from 0.")
    model = workspace.cached(("double", run.id), lambda: to_double(run.model.module))  # type: ignore[arg-type]
    found = memory_retention(model, reading(workspace, request).batch, request.cell, request.word)
    assert len(found) == len(RETENTION_MEASURES)
    return ArrayResponse(found)


def source_access_of(run: OpenRun) -> str:
    """How the decoder reads the source: by `attention`, a `context-vector` at every step, its `first-state`, or not."""
    decoder = getattr(run.model.module, "decoder", None)
    if not run.model.has_source or not isinstance(decoder, RecurrentDecoder):
        return "none"
    if isinstance(decoder.attention, BahdanauAttention | LuongAttention):
        return "attention"
    return "context-vector" if isinstance(decoder.attention, ContextVectorAttention) else "first-state"


def context_vectors(workspace: Workspace, request: TraceRequest) -> ArrayResponse:
    """(1 + target, width): the one context vector of the source, and below it what each step was given by attention."""
    found = _contexts(workspace, request)
    return ArrayResponse(np.concatenate([found.fixed_context[None], found.attention_contexts]))


def attention_ablation(workspace: Workspace, request: TraceRequest) -> ArrayResponse:
    """(2, target): the probability of each right token; below, if each step were given the context vector instead."""
    found = _contexts(workspace, request)
    return ArrayResponse(np.stack([found.with_attention, found.without_attention]))


def _contexts(workspace: Workspace, request: TraceRequest) -> ContextComparison:
    run = workspace.run(request.run)
    if source_access_of(run) != "attention":
        raise UserError("This decoder has no attention over the source.", location=run.name)
    module: Any = run.model.module
    return workspace.cached(
        ("contexts", request.model_dump_json()), lambda: compare_contexts(module, reading(workspace, request).batch)
    )
