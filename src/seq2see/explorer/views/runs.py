"""The views of the files of a run: "Runs" with its training curves and samples, and "Mistakes" with its evaluation.

Nothing is computed by a model here. "Runs" can be displayed during the training. "Mistakes" has the tables that
`seq2see eval` has written, the worst rows first, or an error if they are missing.

Long training curves are downsampled: no screen has a pixel for each of a million steps. The rows are divided into
segments of equal length. Of each segment, the rows with the minimum and the maximum of each metric are kept, so that no
spike is lost. The mean of these extremes is not the mean of the segment, so the mean of every segment is returned as
well.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
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

StepNumber = Annotated[int, Field(ge=0, le=1_000_000_000)]


class MetricsRequest(RunRequest):
    """A request for new lines of the metrics log."""

    since: StepNumber = 0
    """The number of lines that the page has already."""


class SamplesRequest(RunRequest):
    """A request for the samples of one step of the training."""

    step: StepNumber


def metrics(workspace: Workspace, request: MetricsRequest) -> dict[str, Any]:
    """The lines of metrics.jsonl from a line number on, the timing, and the steps with samples.

    A resumed run removes the lines after its last checkpoint; then all lines are sent again. Many lines are downsampled
    (see `explorer/views/runs.py`).
    """
    run = workspace.run(request.run)
    folder = _folder(run)
    raw_lines = _complete_lines(folder.metrics)
    first = request.since if request.since <= len(raw_lines) else 0
    lines, means = downsample(_parse_lines(folder.metrics, raw_lines, first, run.name))
    timing = folder.path / "timing.jsonl"
    return {
        "first": first,
        "lines": lines,
        "means": means,
        "next": len(raw_lines),
        "timing": downsample(_parse_lines(timing, _complete_lines(timing), 0, run.name))[0],
        "samples": sorted(_step(path) for path in folder.samples.glob("step-*.tsv")),
        "finished": folder.finished,
    }


def samples(workspace: Workspace, request: SamplesRequest) -> dict[str, Any]:
    """Source, reference and output of a few examples, with the differences between output and reference marked."""
    run = workspace.run(request.run)
    path = _folder(run).samples / f"step-{request.step:06d}.tsv"
    if not path.is_file():
        raise UserError(f"There are no samples of step {request.step:,}.", location=run.name)
    columns, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]]
    rows = [row for row in rows if len(row) == 3]
    if run.task.reads_files:
        rows = [[short_name(name), *rest] for name, *rest in rows]
    marked = [diff_parts(output, reference) for _, reference, output in rows]
    return {"columns": columns, "rows": rows, "marked": marked}


def _folder(run: OpenRun) -> RunFolder:
    if run.folder is None:
        raise UserError("These are pretrained weights, which have no metrics log.", location=run.name)
    return run.folder


def _complete_lines(path: Path) -> list[bytes]:
    """The complete lines of a file that may be missing, or whose last line may be incomplete."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _parse_lines(path: Path, raw_lines: list[bytes], first: int, name: str) -> list[MetricsRow]:
    """The parsed lines from index `first` on."""
    rows = []
    for number, line in enumerate(raw_lines[first:], first + 1):
        try:
            row = json.loads(line)
            int(row["step"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise UserError(f"Line {number:,} of {path.name} is damaged.", location=name) from None
        rows.append(row)
    return rows


def _step(path: Path) -> int:
    digits = path.stem.removeprefix("step-")
    return int(digits) if digits.isdecimal() else 0


MetricsRow = dict[str, Any]
"""One row of `metrics.jsonl`: the metrics of one step, by name."""

MAX_POINTS = 4_000
"""Up to this number of rows, nothing is removed."""
SEGMENTS = 1_000


def downsample(lines: list[MetricsRow]) -> tuple[list[MetricsRow], list[MetricsRow] | None]:
    """The rows with the extreme values of each segment, and the means of all segments (None if no row is removed).

    >>> spike = [{"step": step, "loss": 9.0 if step == 5_000 else 1.0} for step in range(100_000)]
    >>> rows, means = downsample(spike)
    >>> len(rows) <= 2 * SEGMENTS + 1, {"step": 5_000, "loss": 9.0} in rows, rows[-1]["step"], len(means)
    (True, True, 99999, 1000)
    """
    if len(lines) <= MAX_POINTS:
        return lines, None
    indices, means = {len(lines) - 1}, []
    edges = [len(lines) * number // SEGMENTS for number in range(SEGMENTS + 1)]
    for start, end in pairwise(edges):
        metrics = _metrics_by_name(lines, start, end)
        for values in metrics.values():
            indices |= {min(values, key=values.__getitem__), max(values, key=values.__getitem__)}
        mean = {name: math.fsum(values.values()) / len(values) for name, values in metrics.items()}
        means.append(mean | {"step": lines[(start + end) // 2]["step"]})
    return [lines[index] for index in sorted(indices)], means


def _metrics_by_name(lines: list[MetricsRow], start: int, end: int) -> dict[str, dict[int, float]]:
    """The values of each metric in a segment, by row index; values that are no finite numbers are skipped."""
    metrics: dict[str, dict[int, float]] = {}
    for index in range(start, end):
        for name, value in lines[index].items():
            if name != "step" and isinstance(value, int | float) and math.isfinite(value):
                metrics.setdefault(name, {})[index] = value
    return metrics


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
    tables = splits(_evaluated_folder(run))
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


def _evaluated_folder(run: OpenRun) -> RunFolder:
    if run.folder is None:
        raise UserError("These are pretrained weights, which have no evaluation.", location=run.name)
    return run.folder


def _rows(workspace: Workspace, run: OpenRun, split: str) -> list[EvaluatedRow]:
    """The cached rows of a split; they are read again if the file has changed."""
    folder = _evaluated_folder(run)
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
