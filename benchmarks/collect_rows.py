"""From row files to the tables of a results file: means over seeds, significance, lengths, examples.

A table has columns and rows in the format of `docs/measured.py`; a cell that is a list has one value for each seed. The
outputs of the models are left out of the results, except those of a few examples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from row_files import SPLITS, Row, read_rows, same_seeds

from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.metrics.bleu import corpus_bleu, sentence_chrf
from seq2see.metrics.bootstrap import PairedBootstrap, paired_bootstrap, paired_bootstrap_of_runs

BINS = ((1, 8), (9, 10), (11, 12), (13, 15), (16, 19), (20, 10_000))
"""Sentences by their number of source words; on Multi30k's test_2016 174, 238, 222, 221, 101 and 44 of them."""
MAX_EXAMPLE_WORDS = 16
"""The maximum length of an example that is shown."""
Table = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Corpus:
    """The sources and references of a split."""

    sources: list[str]
    references: list[str]


def collect(rows: Sequence[Row], ladder: Sequence[str], test: Corpus) -> dict[str, Any]:
    """All results on the pages, from all rows; a recipe without rows is left out."""
    systems = {name: [row for row in rows if row.recipe == name and not row.label] for name in ladder}
    systems = {name: runs for name, runs in systems.items() if runs}
    return {
        "environment": environment_of(rows),
        "signatures": {name: text for row in rows for name, text in row.signatures.items()},
        "tables": {
            "ladder": ladder_table(systems, test),
            "neighbors": neighbors_table(systems, test),
            "ablation": ablation_table(rows, test),
            "lengths": lengths_table(systems, test),
        },
        "examples": examples(systems, test),
    }


def environment_of(rows: Sequence[Row]) -> dict[str, Any]:
    """The machines on which the rows were measured, separated by commas."""
    environment: dict[str, Any] = {}
    for key in ("python", "torch", "device"):
        values = sorted({str(row.environment[key]) for row in rows if key in row.environment})
        environment[key] = ", ".join(values)
    return environment


TableSpec = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""Tables by title: the recipes in the order of the page, and the metrics that it shows."""


def gather_tables(folder: Path, results: Path, command: str, spec: TableSpec, make: Callable[..., Any]) -> None:
    """Add the rows of a folder to a results file; older rows of the same recipe and change are replaced.

    The other rows of the file stay, so that the results of several machines can be combined. A row whose recipe is in
    no table raises an error.
    """
    rows = read_rows(folder)
    for row in rows:
        if not any(row.recipe in names for names, _ in spec.values()):
            raise UserError(f"No table shows {row.recipe}.", location=str(folder), hint="Remove its row file.")
    before = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {"environment": {}, "tables": {}}
    tables = {}
    for title, (names, shown_metrics) in spec.items():
        new = make([row for row in rows if row.recipe in names], shown_metrics)
        tables[title] = _merge_rows(before["tables"].get(title), new, names)
    environment = _merge_environments(before["environment"], environment_of(rows))
    write_json(results, {"command": command, "environment": environment, "tables": tables})
    print(f"{results}: {len(rows)} rows")


def _merge_rows(before: Table | None, new: Table, recipes: Sequence[str]) -> Table:
    """New rows, and older rows that were not measured again, by recipe; with the columns of both."""
    measured = {(row["recipe"], row["change"]) for row in new["rows"]}
    older = [row for row in before["rows"] if (row["recipe"], row["change"]) not in measured] if before else []
    rows = sorted([*older, *new["rows"]], key=lambda row: recipes.index(row["recipe"]))
    # The order of metrics is fixed, and a table without rows has none of them: the longer list has them all.
    return {"columns": max([new["columns"], *([before["columns"]] if before else [])], key=len), "rows": rows}


def _merge_environments(before: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """The machines of older and new rows."""
    merged = {key: {*before.get(key, new[key]).split(", "), *new[key].split(", ")} - {""} for key in new}
    return {key: ", ".join(sorted(values)) for key, values in merged.items()}


def column(key: str, title: str, digits: int | None = None, sign: bool = False) -> dict[str, Any]:
    """A column: the key of its values, its title, digits after the point (None: text), and whether to show a sign."""
    return {"key": key, "title": title, "digits": digits, **({"sign": True} if sign else {})}


METRIC_TITLES = {
    "loss": "loss",
    "bits_per_character": "bits per character",
    "perplexity": "perplexity",
    "accuracy": "accuracy %",
    "macro_f1": "macro F1 %",
    "spans_f1": "F1 of spans %",
    "bleu": "BLEU",
    "bleu-tokenized": "BLEU, lower-cased and tokenized",
    "chrf": "chrF2",
    "exact_match": "exact match %",
    "word_error_rate": "word error rate %",
    "phoneme_error_rate": "phoneme error rate %",
    "word_error_rate_with_stress": "word error rate %, with stress",
    "phoneme_error_rate_with_stress": "phoneme error rate %, with stress",
}
"""The title of each metric in a table; other metrics are stored in the results and not shown."""
DIGITS = {"accuracy": 2, "loss": 4, "bits_per_character": 3, "perplexity": 2}
"""The number of digits after the point, if it is not one."""


def metrics_table(rows: Sequence[Row], shown_metrics: Sequence[str] = tuple(METRIC_TITLES)) -> Table:
    """A row for each recipe and change, with all its metrics; only `shown_metrics` have a column."""
    systems: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        systems.setdefault((row.recipe, row.label), []).append(row)
    table_rows = [
        {"recipe": recipe, "change": label, "seeds": len(runs), **_metrics(runs)}
        for (recipe, label), runs in systems.items()
    ]
    scores = [
        column(f"{split}_{key}", f"{split} {METRIC_TITLES[key]}", DIGITS.get(key, 1))
        for key in shown_metrics
        for split in SPLITS
    ]
    present = {key for row in table_rows for key in row}
    return {
        "columns": [
            column("recipe", "recipe"), column("change", "change"), column("seeds", "seeds", 0),
            column("weights", "weights", 0), column("steps", "steps", 0), column("seconds", "seconds", 0),
            *(each for each in scores if each["key"] in present),
        ],
        "rows": table_rows,
    }  # fmt: skip


SCORES = [
    column("valid_bleu", "valid BLEU", 1),
    column("test_bleu", "test BLEU", 1),
    column("test_chrf", "test chrF2", 1),
    column("test_bleu-tokenized", "test BLEU, lower-cased and tokenized", 1),
]


def _metrics(rows: Sequence[Row]) -> dict[str, Any]:
    """The metrics of one system: a list with a value for each seed, or the single value that all seeds share."""
    names = dict.fromkeys(name for row in rows for name in row.metrics)
    lists = {name: [round(row.metrics[name], 4) for row in rows if name in row.metrics] for name in names}
    return {name: values[0] if name == "weights" else values for name, values in lists.items()}


def _outputs(rows: Sequence[Row]) -> list[list[str]]:
    return [row.outputs["test"] for row in rows]


def ladder_table(systems: dict[str, list[Row]], test: Corpus) -> Table:
    """A row for each recipe, with its significance against the previous one."""
    rows, previous = [], None
    for name, runs in systems.items():
        metrics = _metrics(runs)
        keys = ("weights", "steps", "seconds", *(each["key"] for each in SCORES))
        row = {"recipe": name, "seeds": len(runs), **{key: metrics[key] for key in keys if key in metrics}}
        if previous:
            row["p"] = paired_bootstrap_of_runs(_outputs(previous), _outputs(runs), test.references, seed=1).p_value
        rows.append(row)
        previous = runs
    columns = [
        column("recipe", "recipe"), column("weights", "weights", 0), column("steps", "steps", 0),
        column("seconds", "seconds", 0), *SCORES, column("p", "p against the row above", 3),
    ]  # fmt: skip
    return {"columns": columns, "rows": rows}


def neighbors_table(systems: dict[str, list[Row]], test: Corpus) -> Table:
    """The gain of each recipe over the previous one: over all runs, and by seed."""
    rows, names = [], list(systems)
    for first, second in pairwise(names):
        overall = paired_bootstrap_of_runs(_outputs(systems[first]), _outputs(systems[second]), test.references, seed=1)
        seeds = same_seeds(systems[first], systems[second])
        by_seed = [paired_bootstrap(a.outputs["test"], b.outputs["test"], test.references, seed=1) for a, b in seeds]
        rows.append({"first": first, "second": second, **_gain(overall), "p_of_seeds": _p_values(by_seed)})
    columns = [
        column("first", "from"), column("second", "to"), column("difference", "test BLEU gained", 1, sign=True),
        column("interval", "95 % interval"), column("p", "p", 3), column("p_of_seeds", "p of each seed"),
    ]  # fmt: skip
    return {"columns": columns, "rows": rows}


def _gain(bootstrap: PairedBootstrap) -> dict[str, Any]:
    difference = bootstrap.difference
    interval = f"{difference.low:+.1f} … {difference.high:+.1f}"
    return {"difference": round(difference.score, 4), "interval": interval, "p": round(bootstrap.p_value, 4)}


def _p_values(bootstraps: Sequence[PairedBootstrap]) -> str:
    return ", ".join(f"{each.p_value:.3f}" for each in bootstraps)


def ablation_table(rows: Sequence[Row], test: Corpus) -> Table:
    """The effect of each change of a recipe against the unchanged recipe, over the seeds that both have."""
    table_rows = []
    for recipe in dict.fromkeys(row.recipe for row in rows if row.label):
        baseline = [row for row in rows if row.recipe == recipe and not row.label]
        variants = [
            [row for row in rows if row.recipe == recipe and row.label == label]
            for label in dict.fromkeys(row.label for row in rows if row.recipe == recipe and row.label)
        ]
        if baseline:
            table_rows.append({"recipe": recipe, "change": "baseline", **_bleu_columns(baseline)})
        variant_rows = [_variant(recipe, baseline, variant, test) for variant in variants]
        table_rows += sorted(variant_rows, key=lambda each: each.get("valid_difference", 0))
    columns = [
        column("recipe", "recipe"), column("change", "change"), column("valid_bleu", "valid BLEU", 1),
        column("valid_difference", "difference", 1, sign=True), column("test_bleu", "test BLEU", 1),
        column("difference", "difference", 1, sign=True), column("p", "p", 3),
    ]  # fmt: skip
    return {"columns": columns, "rows": table_rows}


def _bleu_columns(rows: Sequence[Row]) -> dict[str, Any]:
    metrics = _metrics(rows)
    return {"seeds": len(rows), **{key: metrics[key] for key in ("valid_bleu", "test_bleu") if key in metrics}}


def _variant(recipe: str, baseline: list[Row], variant: list[Row], test: Corpus) -> dict[str, Any]:
    """The scores of a variant, and the differences from the baseline with the same seeds."""
    settings = variant[0].overrides
    row = {"recipe": recipe, "change": variant[0].label, "settings": settings, **_bleu_columns(variant)}
    pairs = same_seeds(baseline, variant)
    if not pairs:
        return row
    gains = [b.metrics["valid_bleu"] - a.metrics["valid_bleu"] for a, b in pairs]
    before, after = [_outputs(side) for side in zip(*pairs, strict=True)]
    gain = _gain(paired_bootstrap_of_runs(before, after, test.references, seed=1))
    return {**row, "valid_difference": round(sum(gains) / len(gains), 4), **gain}


def lengths_table(systems: dict[str, list[Row]], test: Corpus) -> Table:
    """BLEU by the number of source words, one column for each recipe."""
    rows = []
    for low, high in BINS:
        inside = [index for index, text in enumerate(test.sources) if low <= len(text.split()) <= high]
        if inside:
            words = f"{low}–{high}" if high < BINS[-1][1] else f"{low}+"
            scores = {name: [_bleu_of_subset(row, inside, test) for row in runs] for name, runs in systems.items()}
            rows.append({"words": words, "pairs": len(inside), **scores})
    columns = [column("words", "source words"), column("pairs", "sentences", 0)]
    return {"columns": columns + [column(name, name, 1) for name in systems], "rows": rows}


def _bleu_of_subset(row: Row, inside: list[int], test: Corpus) -> float:
    """The BLEU of a run on a subset of the sentences."""
    outputs = [row.outputs["test"][index] for index in inside]
    return round(corpus_bleu(outputs, [test.references[index] for index in inside]).value, 4)


def examples(systems: dict[str, list[Row]], test: Corpus) -> list[dict[str, Any]]:
    """The sentences with the largest gain of each recipe over the previous one, and the largest loss of the last.

    Outputs are those of the first seed; the measure is the chrF2 of the sentence.
    """
    texts = {name: runs[0].outputs["test"] for name, runs in systems.items()}
    scores = {name: sentence_chrf(outputs, test.references) for name, outputs in texts.items()}
    short = [index for index, text in enumerate(test.sources) if len(text.split()) <= MAX_EXAMPLE_WORDS]
    chosen: dict[int, str] = {}
    names = list(systems)
    pairs = list(pairwise(names))
    for first, second in [*pairs, *(pair[::-1] for pair in pairs[-1:])]:
        gains = {index: scores[second][index] - scores[first][index] for index in short if index not in chosen}
        best = max(gains, key=lambda index: gains[index], default=None)
        if best is not None and gains[best] > 0:
            chosen[best] = f"{first} → {second}"
    return [
        {
            "change": change,
            "source": test.sources[index],
            "reference": test.references[index],
            "outputs": {name: outputs[index] for name, outputs in texts.items()},
        }
        for index, change in chosen.items()
    ]
