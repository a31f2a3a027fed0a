"""Forecast errors on the built-in series by context length, one and several steps ahead: results/series.json.

    python benchmarks/series.py          about five minutes
    python benchmarks/series.py "..."    the same, with a note on other load of the machine

Every model is trained with three seeds; methods without training have one value.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.metrics.forecast_errors import HORIZONS
from seq2see.recipes.registry import recipe
from seq2see.runs.evaluate import evaluate
from seq2see.runs.train import train_recipe

RESULTS = Path(__file__).parent / "results" / "series.json"
SEEDS = (1, 2, 3)
CONTEXTS = (1, 4, 16)
"""Context lengths of the models."""
CONTEXT_SETTING = {
    "forecast-autoregressive": "decoder.context",
    "forecast": "decoder.context",
    "forecast-gru": "target.context_length",
}
"""The setting of the context length in each recipe."""

Row = dict[str, Any]


def trained_errors(name: str, context: int, folder: Path) -> tuple[Row, list[Row]]:
    """The errors of a recipe with each seed, and the rows of methods without training."""
    errors: dict[str, list[float]] = {}
    for seed in SEEDS:
        chosen = recipe(name).with_(**{CONTEXT_SETTING[name]: context, "training.seed": seed})
        scores = evaluate(train_recipe(chosen, folder / f"{name}-{context}-{seed}"))["series"]["rows"]
        for horizon, error in scores[0]["errors"].items():
            errors.setdefault(horizon, []).append(error)
    return {"method": name, "context": context, **errors}, scores[1:]


def main(note: str = "") -> None:
    """Train, evaluate and store."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in CONTEXT_SETTING:
            for context in CONTEXTS:
                row, untrained = trained_errors(name, context, Path(folder))
                rows.append(row)
                print(row, flush=True)
    names = {"persistence": "last value (naive)", "linear": "least squares"}
    rows += [{"method": names[each["name"]], "context": each["context"], **each["errors"]} for each in untrained]
    columns = [{"key": "method", "title": "forecast by"}, {"key": "context", "title": "τ"}]
    columns += [{"key": str(horizon), "title": f"{horizon} ahead", "digits": 3} for horizon in HORIZONS]
    environment = {**describe_machine(), **({"note": note} if note else {})}
    write_json(
        RESULTS,
        {"command": "python benchmarks/series.py", "environment": environment, "columns": columns, "rows": rows},
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
