"""Curves and samples of a run, also while it is being trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from seq2see.core.errors import UserError
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.messages import AboutRun
from seq2see.inspection.thinning import Line, thinned
from seq2see.models.picture_settings import Picture
from seq2see.sources.picture_examples import called
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

    A run that was resumed forgets what it noted after its last checkpoint; then all lines are given again. Of very many
    lines those are given that make the curves what they are, and the means of all: see `inspection/thinning.py`.
    """
    run = bench.run(asked.run)
    folder = _folder(run)
    written = _written(folder.metrics)
    first = asked.since if asked.since <= len(written) else 0
    lines, means = thinned(_read(folder.metrics, written, first, run.name))
    timing = folder.path / "timing.jsonl"
    return {
        "first": first,
        "lines": lines,
        "means": means,
        "next": len(written),
        "timing": thinned(_read(timing, _written(timing), 0, run.name))[0],
        "samples": sorted(_step(path) for path in folder.samples.glob("step-*.tsv")),
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


def _written(path: Path) -> list[bytes]:
    """The whole lines of a file that is being written, or not there yet; the last may be half there."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _read(path: Path, written: list[bytes], first: int, name: str) -> list[Line]:
    """What the lines say, from a number on: those before were read the last time."""
    found = []
    for number, line in enumerate(written[first:], first + 1):
        try:
            told = json.loads(line)
            int(told["step"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise UserError(f"Line {number:,} of {path.name} is damaged.", where=name) from None
        found.append(told)
    return found


def _step(path: Path) -> int:
    digits = path.stem.removeprefix("step-")
    return int(digits) if digits.isdecimal() else 0
