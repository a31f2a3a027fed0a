"""The parts of a report for forecasting models: forecasts, and their errors by context length and horizon."""

from __future__ import annotations

from typing import Any

from seq2see.runs.report_page import bilingual, cell, head, image, table
from seq2see.runs.report_strings import TEXTS
from seq2see.runs.run_folder import RunFolder

Tree = dict[str, Any]


def forecast_errors(scores: Tree) -> str:
    """A row for the model, and one for each baseline."""
    series = scores.get("series")
    if not series:
        return ""
    titles = [head(bilingual("forecast_by")), head("τ", "number")]
    rows = [titles + [head(bilingual("ahead", steps=str(horizon)), "number") for horizon in series["horizons"]]]
    for row in series["rows"]:
        errors = [row["errors"].get(str(horizon)) for horizon in series["horizons"]]
        cells = [cell("" if error is None else f"{error:.4g}", "number") for error in errors]
        rows.append([cell(bilingual(f"forecast_{row['name']}")), cell(str(row["context"]), "number"), *cells])
    note = bilingual("errors_note", values=f"{series['values']:,}")
    return table(rows) + f'<p class="note">{note}</p>'


def forecasts(run: RunFolder) -> str:
    """The plot of the test values and their forecasts."""
    path = run.evaluation / "forecasts.png"
    if not path.exists():
        return ""
    return image(path, TEXTS["forecasts"]) + f'<p class="note">{bilingual("forecasts_note")}</p>'
