"""The view "Runs": training curves and samples of a run, also during the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.schemas import RunRequest
from seq2see.explorer.workspace import OpenRun, Workspace
from seq2see.inspection.downsampling import MetricsRow, downsample
from seq2see.models.image_settings import ImageSource
from seq2see.runs.report_examples import diff_parts
from seq2see.runs.run_folder import RunFolder
from seq2see.sources.image_examples import short_name

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
    (see `inspection/downsampling.py`).
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
    if isinstance(run.settings.source, ImageSource):
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
