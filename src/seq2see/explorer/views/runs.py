"""Curves and samples of a run, also while it is being trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun, called
from seq2see.explorer.messages import AboutRun
from seq2see.models.picture_settings import Picture
from seq2see.workbench.report_texts import differing
from seq2see.workbench.run_folder import RunFolder

Step = Annotated[int, Field(ge=0, le=1_000_000_000)]


class MetricsAsked(AboutRun):
    """What a run has noted since the last time."""

    since: Step = 0
    """Lines that are known already."""


class SamplesAsked(AboutRun):
    """What a run answered at one step of its training."""

    step: Step


def metrics(bench: Bench, asked: MetricsAsked) -> dict[str, Any]:
    """The lines of metrics.jsonl from a number on, how fast it went, and at which steps there are samples.

    A run that was resumed forgets what it noted after its last checkpoint; then all lines are given again.
    """
    run = bench.run(asked.run)
    folder = _folder(run)
    lines = _read(folder.metrics, run.name)
    first = asked.since if asked.since <= len(lines) else 0
    timing = _read(folder.path / "timing.jsonl", run.name)
    steps = sorted(_step(path) for path in folder.samples.glob("step-*.tsv"))
    return {
        "first": first,
        "lines": lines[first:],
        "next": len(lines),
        "timing": timing,
        "samples": steps,
        "finished": folder.finished,
    }


def samples(bench: Bench, asked: SamplesAsked) -> dict[str, Any]:
    """Source, reference and output of the same few examples, and which parts of an output its reference has not."""
    run = bench.run(asked.run)
    path = _folder(run).samples / f"step-{asked.step:06d}.tsv"
    if not path.is_file():
        raise UserError(f"There are no samples of step {asked.step:,}.", where=run.name)
    columns, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]]
    rows = [row for row in rows if len(row) == 3]
    if isinstance(run.settings.source, Picture):
        rows = [[called(name), *rest] for name, *rest in rows]
    marked = [differing(output, reference) for _, reference, output in rows]
    return {"columns": columns, "rows": rows, "marked": marked}


def _folder(run: OpenRun) -> RunFolder:
    if run.folder is None:
        raise UserError("These are real weights, so nothing says how they were trained.", where=run.name)
    return run.folder


def _read(path: Path, name: str) -> list[dict[str, Any]]:
    """The whole lines of a file that is being written; the last may be half there."""
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            found.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            raise UserError(f"Line {number:,} of {path.name} is damaged.", where=name) from None
    return found


def _step(path: Path) -> int:
    digits = path.stem.removeprefix("step-")
    return int(digits) if digits.isdecimal() else 0
