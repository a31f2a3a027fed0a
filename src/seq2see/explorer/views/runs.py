"""Curves and samples of a run, also while it is being trained."""

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
    """What a run has noted since the last time."""

    since: StepNumber = 0
    """Lines that are known already."""


class SamplesRequest(RunRequest):
    """What a run answered at one step of its training."""

    step: StepNumber


def metrics(workspace: Workspace, request: MetricsRequest) -> dict[str, Any]:
    """The lines of metrics.jsonl from a number on, how fast it went, and at which steps there are samples.

    A run that was resumed forgets what it noted after its last checkpoint; then all lines are given again. Of very many
    lines those are given that make the curves what they are, and the means of all: see `inspection/downsampling.py`.
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
    """Source, reference and output of the same few examples, and which parts of an output its reference has not."""
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
        raise UserError("These are real weights, so nothing says how they were trained.", location=run.name)
    return run.folder


def _complete_lines(path: Path) -> list[bytes]:
    """The whole lines of a file that is being written, or not there yet; the last may be half there."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _parse_lines(path: Path, raw_lines: list[bytes], first: int, name: str) -> list[MetricsRow]:
    """What the lines say, from a number on: those before were read the last time."""
    found = []
    for number, line in enumerate(raw_lines[first:], first + 1):
        try:
            told = json.loads(line)
            int(told["step"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise UserError(f"Line {number:,} of {path.name} is damaged.", location=name) from None
        found.append(told)
    return found


def _step(path: Path) -> int:
    digits = path.stem.removeprefix("step-")
    return int(digits) if digits.isdecimal() else 0
