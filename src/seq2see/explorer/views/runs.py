"""The view "Runs": training curves and samples of a run, also during the training.

Downsampling of long training curves: no screen has a pixel for each of a million steps.

The rows are divided into segments of equal length. Of each segment, the rows with the minimum and the maximum of each
metric are kept, so that no spike is lost. The mean of these extremes is not the mean of the segment, so the mean of
every segment is returned as well.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from seq2see.core.documents import read_regular
from seq2see.core.errors import UserError
from seq2see.data.examples import short_name
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.runs.report import diff_parts
from seq2see.runs.run_folder import RunFolder

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
    _folder(run).refuse_links()
    text = read_regular(path).decode("utf-8", errors="replace")
    columns, *rows = [line.split("\t") for line in text.split("\n")[:-1]] or [[]]
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
