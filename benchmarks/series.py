"""Forecasts of the built-in series by how far back a model sees, one step ahead and many: results/series.json.

    python benchmarks/series.py          about five minutes
    python benchmarks/series.py "..."    the same, with a note on what else the machine did meanwhile

Every row is trained with three seeds; what needs no training has one value.
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
"""How many values back the models see."""
CONTEXT_SETTING = {
    "forecast-autoregressive": "decoder.context",
    "forecast": "decoder.context",
    "forecast-gru": "target.context_length",
}
"""Which setting says how far back a recipe's model sees."""

Row = dict[str, Any]


def trained_errors(name: str, context: int, folder: Path) -> tuple[Row, list[Row]]:
    """The errors of a recipe with each seed, and the rows that need no training."""
    errors: dict[str, list[float]] = {}
    for seed in SEEDS:
        chosen = recipe(name).with_(**{CONTEXT_SETTING[name]: context, "training.seed": seed})
        found = evaluate(train_recipe(chosen, folder / f"{name}-{context}-{seed}"))["series"]["rows"]
        for ahead, error in found[0]["errors"].items():
            errors.setdefault(ahead, []).append(error)
    return {"how": name, "tau": context, **errors}, found[1:]


def main(note: str = "") -> None:
    """Train, judge and store."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in CONTEXT_SETTING:
            for context in CONTEXTS:
                row, untrained = trained_errors(name, context, Path(folder))
                rows.append(row)
                print(row, flush=True)
    names = {"persistence": "the last value", "linear": "least squares"}
    rows += [{"how": names[each["name"]], "tau": each["context"], **each["errors"]} for each in untrained]
    columns = [{"key": "how", "title": "forecast by"}, {"key": "tau", "title": "τ"}]
    columns += [{"key": str(ahead), "title": f"{ahead} ahead", "digits": 3} for ahead in HORIZONS]
    environment = {**describe_machine(), **({"note": note} if note else {})}
    write_json(
        RESULTS,
        {"command": "python benchmarks/series.py", "environment": environment, "columns": columns, "rows": rows},
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
