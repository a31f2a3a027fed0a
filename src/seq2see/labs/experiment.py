"""An experiment: what is fixed before the run, the measurement of one seed, and the result of all seeds.

The prediction, the quantities and their thresholds are written in the file of the experiment. Their hash is stored with
a result, so that a result of another prediction is not mistaken for one of this.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seq2see.core.devices import describe_machine
from seq2see.labs.verdicts import Quantity, Text, Verdict, combine, confidence_for

Line = tuple[Sequence[float], Sequence[float]]
"""The x and y values of one line of a plot."""
Size = Mapping[str, int]


@dataclass(frozen=True)
class Measurement:
    """The measurement of one seed or one case: a value for each quantity, and lines for the plot."""

    values: Mapping[str, float]
    lines: Mapping[str, Line] = field(default_factory=dict)


@dataclass(frozen=True)
class Axes:
    """The labels of the axes of the plot of lines, and whether they are logarithmic."""

    x: Text
    y: Text
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Experiment:
    """One claim, put to the test."""

    claim: str
    """The id of the claim."""
    prediction: Text
    """What is expected to be measured, and why; written before the run."""
    expected: Verdict
    """The verdict that is expected, also written before the run."""
    decisive: tuple[Quantity, ...]
    """The quantities from which the verdict follows."""
    measure: Callable[..., Measurement]
    """The measurement of one seed: `measure(seed, **size)`."""
    seeds: int
    """The number of seeds, or of random cases."""
    size: Size
    """The size of the experiment: steps, widths, lengths."""
    tiny: Size
    """A size for tests, at which the verdict has no meaning."""
    would_change: Text
    """What would change the verdict."""
    additional: tuple[Quantity, ...] = ()
    """Quantities that are measured as well, and do not decide."""
    axes: Axes | None = None

    def registration(self) -> dict[str, Any]:
        """What is fixed before the run, as plain data."""
        return {
            "claim": self.claim,
            "prediction": self.prediction[0],
            "expected": str(self.expected),
            "decisive": [_describe(each) for each in self.decisive],
            "additional": [_describe(each) for each in self.additional],
            "seeds": self.seeds,
            "size": dict(self.size),
        }

    def registration_hash(self) -> str:
        """The SHA-256 of the registration."""
        text = json.dumps(self.registration(), ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _describe(quantity: Quantity) -> dict[str, Any]:
    return {"name": quantity.name, "title": quantity.title[0], "predicted": quantity.rule[0]}


def run_experiment(experiment: Experiment, size: Size, seeds: int, on_seed: Callable[[int], None]) -> dict[str, Any]:
    """Measure all seeds, and return the result as plain data; `on_seed` is called with 1 after each seed."""
    cpu_start, measurements = time.process_time(), []
    for seed in range(1, seeds + 1):
        measurements.append(experiment.measure(seed, **size))
        on_seed(1)
    rows = summarize(experiment, [each.values for each in measurements])
    decisive = rows[: len(experiment.decisive)]
    return {
        "claim": experiment.claim,
        "verdict": str(combine([Verdict(row["verdict"]) for row in decisive])),
        "expected": str(experiment.expected),
        "quantities": rows,
        "seeds": list(range(1, seeds + 1)),
        "size": dict(size),
        "registration": experiment.registration_hash(),
        "cpu_seconds": round(time.process_time() - cpu_start, 2),
        "environment": describe_machine(),
        "lines": mean_lines([each.lines for each in measurements]),
    }


def summarize(experiment: Experiment, values: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """Estimate, interval and verdict of each quantity, the decisive ones first."""
    confidence = confidence_for(len(experiment.decisive))
    rows = []
    for quantity in (*experiment.decisive, *experiment.additional):
        of_seeds = [float(each[quantity.name]) for each in values]
        interval = quantity.interval(of_seeds, confidence)
        rows.append(
            {
                "name": quantity.name,
                "title": list(quantity.title),
                "predicted": list(quantity.rule),
                "kind": type(quantity).__name__,
                "threshold": quantity.threshold,
                "decisive": quantity in experiment.decisive,
                "estimate": interval.estimate,
                "low": interval.low,
                "high": interval.high,
                "verdict": str(quantity.verdict(interval)),
                "values": of_seeds,
            }
        )
    return rows


def mean_lines(lines: Sequence[Mapping[str, Line]]) -> dict[str, dict[str, list[float]]]:
    """The mean, the minimum and the maximum of each line over the seeds."""
    summary = {}
    for name, (xs, _) in lines[0].items():
        columns = list(zip(*(each[name][1] for each in lines), strict=True))
        summary[name] = {
            "x": [float(x) for x in xs],
            "mean": [sum(column) / len(column) for column in columns],
            "low": [float(min(column)) for column in columns],
            "high": [float(max(column)) for column in columns],
        }
    return summary
