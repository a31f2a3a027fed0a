"""The view "Mistakes": the tables of an evaluation, the worst rows first.

Nothing is computed here: the view shows the files that `seq2see eval` has written, or an error if they are missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.data.examples import short_name
from seq2see.explorer.schemas import ArrayResponse, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.runs.evaluate import (
    SORT_KEYS,
    confusion,
    evaluated_rows,
    filter_rows,
    splits,
)
from seq2see.runs.report import diff_parts
from seq2see.runs.run_folder import RunFolder
from seq2see.tasks.model import Model
from seq2see.tasks.task import EvaluatedRow

SplitName = Annotated[str, Field(max_length=100)]
LabelText = Annotated[str, Field(max_length=1_000)]


class SplitsRequest(RunRequest):
    """A request for the evaluated splits of a run."""


class SplitRequest(RunRequest):
    """A request for the confusion matrix or the forecasts of a split."""

    split: SplitName


class RowsRequest(RunRequest):
    """A request for some rows of an evaluation."""

    split: SplitName
    sort: Literal["worst", "best", "most-confident", "least-confident", "file"] = "worst"
    search: LabelText = ""
    cell: Annotated[tuple[LabelText, ...], Field(min_length=2, max_length=2)] | None = None
    """If set, only rows with this true and this predicted label."""
    start: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    count: Annotated[int, Field(ge=1, le=200)] = 25


def list_splits(workspace: Workspace, request: SplitsRequest) -> dict[str, Any]:
    """The evaluated splits of a run and the kind of each table; empty before the evaluation."""
    run = workspace.run(request.run)
    tables = splits(_folder(run))
    labels, images = list(run.model.tokenizers.labels), has_images(run.model)
    return {
        "splits": [{"name": name, "kind": run.task.row_kind} for name in tables],
        "labels": labels,
        "images": images,
    }


def confusion_matrix(workspace: Workspace, request: SplitRequest) -> ArrayResponse:
    """(true label, predicted label): the confusion matrix."""
    run = workspace.run(request.run)
    return ArrayResponse(np.array(confusion(_rows(workspace, run, request.split), run.model).counts))


def forecasts(workspace: Workspace, request: SplitRequest) -> ArrayResponse:
    """(3, time): the time, the true value and the forecast one step ahead, in the order of time."""
    run = workspace.run(request.run)
    evaluated = _rows(workspace, run, request.split)
    if run.task.row_kind != "forecasts":
        raise UserError("This model does not forecast.", location=run.name, hint="Choose a run of a series.")
    return ArrayResponse(
        np.array([[float(each) for each in (row.text, row.truth, row.prediction)] for row in evaluated]).T
    )


def rows(workspace: Workspace, request: RowsRequest) -> dict[str, Any]:
    """Some rows of an evaluation, filtered and sorted, and the number of all filtered rows."""
    run = workspace.run(request.run)
    cell = (request.cell[0], request.cell[1]) if request.cell else None
    filtered = filter_rows(_rows(workspace, run, request.split), run.model, cell, request.search)
    filtered = sorted(filtered, key=SORT_KEYS[request.sort])
    return {
        "total": len(filtered),
        "rows": [row_fields(row) for row in filtered[request.start : request.start + request.count]],
    }


def _folder(run: OpenRun) -> RunFolder:
    if run.folder is None:
        raise UserError("These are pretrained weights, which have no evaluation.", location=run.name)
    return run.folder


def _rows(workspace: Workspace, run: OpenRun, split: str) -> list[EvaluatedRow]:
    """The cached rows of a split; they are read again if the file has changed."""
    folder = _folder(run)
    path = splits(folder).get(split)
    key = ("evaluated_rows", run.id, split, path and path.stat().st_mtime_ns)
    return workspace.cached(key, lambda: without_paths(evaluated_rows(folder, run.model, split), run.model))


def without_paths(rows: list[EvaluatedRow], model: Model) -> list[EvaluatedRow]:
    """The rows with short names of images (folder and file) in place of paths on this machine."""
    return [replace(row, text=short_name(row.text)) for row in rows] if has_images(model) else rows


def has_images(model: Model) -> bool:
    """Whether the source are images, which the tables contain as file names."""
    return bool(model.task.reads_files)


def row_fields(row: EvaluatedRow) -> dict[str, Any]:
    """A row for the page, with the differences between answer and truth marked."""
    return {
        "number": row.number,
        "text": row.text,
        "truth": row.truth,
        "answer": [(row.prediction, False)]
        if row.tokens
        else diff_parts(row.prediction, row.truth),  # a series has no differences
        "correct": row.truth == row.prediction,
        "score": row.quality,
        "confidence": row.confidence,
        "tokens": row.tokens,
        "losses": row.losses,
    }
