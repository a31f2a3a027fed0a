"""What a run got wrong: the tables that an evaluation left behind, the worst rows first.

Nothing is computed anew here: what is shown is what `seq2see eval` wrote, and what it wrote is said to be missing if it
is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import ArrayResponse, RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import Series
from seq2see.runs.evaluated_rows import (
    SORT_KEYS,
    EvaluatedRow,
    confusion,
    evaluated_rows,
    filter_rows,
    has_tags,
    splits,
    table_kind,
)
from seq2see.runs.model import Model
from seq2see.runs.report_examples import diff_parts
from seq2see.runs.run_folder import RunFolder
from seq2see.sources.image_examples import short_name

SplitName = Annotated[str, Field(max_length=100)]
LabelText = Annotated[str, Field(max_length=1_000)]


class SplitsRequest(RunRequest):
    """Which splits a run was judged on."""


class SplitRequest(RunRequest):
    """All answers of a split together: which label was taken for which, or a series and its forecasts."""

    split: SplitName


class RowsRequest(RunRequest):
    """Some rows of an evaluation."""

    split: SplitName
    sort: Literal["worst", "best", "most-confident", "least-confident", "file"] = "worst"
    search: LabelText = ""
    cell: Annotated[tuple[LabelText, ...], Field(min_length=2, max_length=2)] | None = None
    """Only rows in which the first label was taken for the second."""
    start: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    count: Annotated[int, Field(ge=1, le=200)] = 25


def list_splits(workspace: Workspace, request: SplitsRequest) -> dict[str, Any]:
    """The splits that a run was judged on, and what kind of answers each has; none, if it was not judged yet."""
    run = workspace.run(request.run)
    found = splits(_folder(run))
    labels, images = list(run.model.tokenizers.labels), has_images(run.model)
    tags = has_tags(run.model)
    return {
        "splits": [{"name": name, "kind": "tags" if tags else table_kind(path)} for name, path in found.items()],
        "labels": labels,
        "images": images,
    }


def confusion_matrix(workspace: Workspace, request: SplitRequest) -> ArrayResponse:
    """(truth, answer): how often each label was taken for each."""
    run = workspace.run(request.run)
    return ArrayResponse(np.array(confusion(_rows(workspace, run, request.split), run.model).counts))


def forecasts(workspace: Workspace, request: SplitRequest) -> ArrayResponse:
    """(3, time): when, which value there was, and what was said of it one step ahead, in the order of time."""
    run = workspace.run(request.run)
    found = _rows(workspace, run, request.split)
    if not isinstance(run.settings.target, Series):
        raise UserError("This model forecasts nothing.", location=run.name, hint="Choose a run of a series.")
    return ArrayResponse(np.array([[float(each) for each in (row.text, row.truth, row.answer)] for row in found]).T)


def rows(workspace: Workspace, request: RowsRequest) -> dict[str, Any]:
    """Some rows of an evaluation, sorted, and how many there are of the kind that was asked for."""
    run = workspace.run(request.run)
    cell = (request.cell[0], request.cell[1]) if request.cell else None
    found = filter_rows(_rows(workspace, run, request.split), run.model, cell, request.search)
    found = sorted(found, key=SORT_KEYS[request.sort])
    return {
        "total": len(found),
        "rows": [row_fields(row) for row in found[request.start : request.start + request.count]],
    }


def _folder(run: OpenRun) -> RunFolder:
    if run.folder is None:
        raise UserError("These are real weights, which were not judged on anything.", location=run.name)
    return run.folder


def _rows(workspace: Workspace, run: OpenRun, split: str) -> list[EvaluatedRow]:
    """The rows of a split; they are read anew when another evaluation has written them anew."""
    folder = _folder(run)
    path = splits(folder).get(split)
    key = ("judged", run.id, split, path and path.stat().st_mtime_ns)
    return workspace.cached(key, lambda: without_paths(evaluated_rows(folder, run.model, split), run.model))


def without_paths(rows: list[EvaluatedRow], model: Model) -> list[EvaluatedRow]:
    """Images by their folder and their file: where on this machine they lie is nobody's business."""
    return [replace(row, text=short_name(row.text)) for row in rows] if has_images(model) else rows


def has_images(model: Model) -> bool:
    """Whether what is read are images, which tables name by their files."""
    return isinstance(model.config.model.source, ImageSource)


def row_fields(row: EvaluatedRow) -> dict[str, Any]:
    """A row as the page gets it, with what differs from the truth marked."""
    return {
        "number": row.number,
        "text": row.text,
        "truth": row.truth,
        "answer": [(row.answer, False)] if row.tokens else diff_parts(row.answer, row.truth),  # digits are no letters
        "correct": row.truth == row.answer,
        "score": row.quality,
        "confidence": row.confidence,
        "tokens": row.tokens,
        "losses": row.losses,
    }
