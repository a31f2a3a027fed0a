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
from seq2see.explorer.bench import Bench, OpenRun
from seq2see.explorer.messages import AboutRun, Numbers
from seq2see.models.picture_settings import Picture
from seq2see.models.settings import Series
from seq2see.sources.picture_examples import called
from seq2see.workbench.judged import ORDERS, Judged, chosen, confusion, has_tags, judged, kind_of, splits
from seq2see.workbench.predict import Model
from seq2see.workbench.report_texts import differing
from seq2see.workbench.run_folder import RunFolder

SplitName = Annotated[str, Field(max_length=100)]
Name = Annotated[str, Field(max_length=1_000)]


class SplitsAsked(AboutRun):
    """Which splits a run was judged on."""


class SplitAsked(AboutRun):
    """All answers of a split together: which label was taken for which, or a series and its forecasts."""

    split: SplitName


class RowsAsked(AboutRun):
    """Some rows of an evaluation."""

    split: SplitName
    sort: Literal["worst", "best", "surest", "doubtful", "file"] = "worst"
    search: Name = ""
    cell: Annotated[tuple[Name, ...], Field(min_length=2, max_length=2)] | None = None
    """Only rows in which the first label was taken for the second."""
    start: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    count: Annotated[int, Field(ge=1, le=200)] = 25


def listed(bench: Bench, asked: SplitsAsked) -> dict[str, Any]:
    """The splits that a run was judged on, and what kind of answers each has; none, if it was not judged yet."""
    run = bench.run(asked.run)
    found = splits(_folder(run))
    labels, pictures = list(run.model.tokenisers.labels), has_pictures(run.model)
    tags = has_tags(run.model)
    return {
        "splits": [{"name": name, "kind": "tags" if tags else kind_of(path)} for name, path in found.items()],
        "labels": labels,
        "pictures": pictures,
    }


def confused(bench: Bench, asked: SplitAsked) -> Numbers:
    """(truth, answer): how often each label was taken for each."""
    run = bench.run(asked.run)
    return Numbers(np.array(confusion(_rows(bench, run, asked.split), run.model).counts))


def forecast(bench: Bench, asked: SplitAsked) -> Numbers:
    """(3, time): when, which value there was, and what was said of it one step ahead, in the order of time."""
    run = bench.run(asked.run)
    found = _rows(bench, run, asked.split)
    if not isinstance(run.settings.target, Series):
        raise UserError("This model forecasts nothing.", where=run.name, remedy="Choose a run of a series.")
    return Numbers(np.array([[float(each) for each in (row.text, row.truth, row.answer)] for row in found]).T)


def rows(bench: Bench, asked: RowsAsked) -> dict[str, Any]:
    """Some rows of an evaluation, sorted, and how many there are of the kind that was asked for."""
    run = bench.run(asked.run)
    cell = (asked.cell[0], asked.cell[1]) if asked.cell else None
    found = chosen(_rows(bench, run, asked.split), run.model, cell, asked.search)
    found = sorted(found, key=ORDERS[asked.sort])
    return {"total": len(found), "rows": [told(row) for row in found[asked.start : asked.start + asked.count]]}


def _folder(run: OpenRun) -> RunFolder:
    if run.folder is None:
        raise UserError("These are real weights, which were not judged on anything.", where=run.name)
    return run.folder


def _rows(bench: Bench, run: OpenRun, split: str) -> list[Judged]:
    """The rows of a split; they are read anew when another evaluation has written them anew."""
    folder = _folder(run)
    path = splits(folder).get(split)
    key = ("judged", run.id, split, path and path.stat().st_mtime_ns)
    return bench.kept(key, lambda: placeless(judged(folder, run.model, split), run.model))


def placeless(rows: list[Judged], model: Model) -> list[Judged]:
    """Pictures by their folder and their file: where on this machine they lie is nobody's business."""
    return [replace(row, text=called(row.text)) for row in rows] if has_pictures(model) else rows


def has_pictures(model: Model) -> bool:
    """Whether what is read are pictures, which tables name by their files."""
    return isinstance(model.config.model.source, Picture)


def told(row: Judged) -> dict[str, Any]:
    """A row as the page gets it, with what differs from the truth marked."""
    return {
        "number": row.number,
        "text": row.text,
        "truth": row.truth,
        "answer": [(row.answer, False)] if row.pieces else differing(row.answer, row.truth),  # digits are no letters
        "right": row.truth == row.answer,
        "quality": row.quality,
        "sure": row.sure,
        "pieces": row.pieces,
        "losses": row.losses,
    }
