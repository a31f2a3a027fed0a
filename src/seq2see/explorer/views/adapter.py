"""The view "Adapter": what an adapter does to the singular values of each matrix of its base model."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import ArrayResponse, RunRequest
from seq2see.explorer.workspace import Workspace
from seq2see.inspection.singular_values import AdaptedMatrix, resampled
from seq2see.runs.experts import adapted_matrices
from seq2see.runs.load import read_adapted_model


class MatrixRequest(RunRequest):
    """The singular values of one matrix."""

    matrix: Annotated[str, Field(max_length=300)]
    """The name of the matrix, as in `adapter/matrices`."""


def matrices(workspace: Workspace, request: RunRequest) -> dict[str, Any]:
    """The adapter of a run: its kind, its base, the numbers of weights, and the matrices that it changes."""
    run = workspace.run(request.run)
    expert = run.model.stored.expert
    shown = [
        {"name": each.name, "count": len(each.before), "change": each.change} for each in _matrices(workspace, request)
    ]
    assert expert is not None, "`_matrices` refuses runs without an adapter"
    return {
        "kind": expert.config.adapter.kind,
        "base": expert.config.base.rstrip("/").rpartition("/")[2],
        "adapter_weights": sum(each.numel() for each in expert.weights.values()),
        "model_weights": sum(each.numel() for each in run.model.module.parameters()),
        "matrices": shown,
    }


def factors(workspace: Workspace, request: RunRequest) -> ArrayResponse:
    """A row for each matrix: the factors of its singular values, the largest singular value first."""
    return ArrayResponse(np.stack([resampled(each.factors) for each in _matrices(workspace, request)]))


def matrix(workspace: Workspace, request: MatrixRequest) -> dict[str, Any]:
    """The singular values of one matrix without and with the adapter, and their factors."""
    for each in _matrices(workspace, request):
        if each.name == request.matrix:
            return {"before": each.before.tolist(), "after": each.after.tolist(), "factors": each.factors.tolist()}
    raise UserError(f"The adapter has no matrix '{request.matrix}'.", hint="Choose one of the heat map.")


def _matrices(workspace: Workspace, request: RunRequest) -> list[AdaptedMatrix]:
    """The changed matrices of a run, computed once."""
    run = workspace.run(request.run)
    if run.model.stored.expert is None:
        raise UserError("This run has no adapter.", hint="Choose a run that was trained with --set adapter.kind=...")
    key = ("adapter", run.id)
    return workspace.cached(key, lambda: adapted_matrices(read_adapted_model(run.weights).module))
