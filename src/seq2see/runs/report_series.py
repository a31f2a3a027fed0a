"""The part of a report that only a run on a series has: forecasts, and their errors by τ and steps ahead."""

from __future__ import annotations

from typing import Any

from seq2see.runs.report_page import bilingual, cell, head, image, table
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder

Tree = dict[str, Any]


def forecast_errors(scores: Tree) -> str:
    """A row for the model, and one for each way that needs no training."""
    found = scores.get("series")
    if not found:
        return ""
    titles = [head(bilingual("forecast_by")), head("τ", "number")]
    rows = [titles + [head(bilingual("ahead", steps=str(ahead)), "number") for ahead in found["horizons"]]]
    for row in found["rows"]:
        figures = [row["errors"].get(str(ahead)) for ahead in found["horizons"]]
        cells = [cell("" if figure is None else f"{figure:.4g}", "number") for figure in figures]
        rows.append([cell(bilingual(f"forecast_{row['name']}")), cell(str(row["context"]), "number"), *cells])
    note = bilingual("errors_note", values=f"{found['values']:,}")
    return table(rows) + f'<p class="note">{note}</p>'


def forecasts(run: RunFolder) -> str:
    """The image of the test values and of what was said of them."""
    path = run.evaluation / "forecasts.png"
    if not path.exists():
        return ""
    return image(path, TEXTS["forecasts"]) + f'<p class="note">{bilingual("forecasts_note")}</p>'
