"""Comparison of two evaluated runs: the significance of the difference, and the examples that differ most.

The comparison uses the files of both evaluations: translations, labels, perplexities, or forecast errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2see.core.errors import UserError
from seq2see.metrics.bootstrap import PairedBootstrap, paired_bootstrap, paired_bootstrap_accuracy
from seq2see.runs.evaluate import not_evaluated
from seq2see.runs.run_folder import RunFolder, read_scores
from seq2see.tasks.model_folder import Tokenizers
from seq2see.tasks.report_parts import flat_scores
from seq2see.tasks.task import task_of
from seq2see.tasks.text_scores import bleu_tokenize


def compare(first: RunFolder, second: RunFolder) -> PairedBootstrap:
    """The significance of the difference in test BLEU; both runs must be evaluated on the same pairs."""
    rows = _same_rows(first, second, "test.tsv")
    references = [row[1] for row in rows[0]]
    outputs = [[row[2] for row in each] for each in rows]
    return paired_bootstrap(outputs[0], outputs[1], references, seed=1, tokenize=bleu_tokenize(references))


def compare_texts(first: RunFolder, second: RunFolder) -> str:
    """Compare the perplexities of two evaluated language models on the same text."""
    runs = (first, second)
    if first.recipe().slot("corpus") != second.recipe().slot("corpus"):
        raise UserError(f"{first} and {second} were not evaluated on the same text.", hint="Evaluate both with --file.")
    perplexities = [read_scores(run)["perplexity"] for run in runs]
    bits = ", ".join(f"{run} {_bits(each)}" for run, each in zip(runs, perplexities, strict=True))
    if len({Tokenizers.load(run.model).fingerprint for run in runs}) > 1:
        raise UserError(
            "These perplexities cannot be compared: the tokenizers differ, and longer tokens are harder to predict.",
            hint=f"Compare bits per character, which do not depend on the tokenizer: {bits}.",
        )
    before, after = (each["per_token"] for each in perplexities)
    change = f"{abs(after / before - 1):.1%} {'lower' if after < before else 'higher'}"
    unit = perplexities[0].get("unit", "token")
    return f"perplexity per {unit} {before:.3f} -> {after:.3f}, {change}; bits per character: {bits}"


def compare_series(first: RunFolder, second: RunFolder) -> str:
    """Compare the errors of two evaluated forecasting models on the same series, for each horizon."""
    if first.recipe().slot("corpus") != second.recipe().slot("corpus"):
        message = f"{first} and {second} were not evaluated on the same series."
        raise UserError(message, hint="Compare runs of the same corpus.")
    before, after = (read_scores(run)["series"]["rows"][0]["errors"] for run in (first, second))
    changes = [f"{horizon} ahead {error:.4g} -> {after[horizon]:.4g}" for horizon, error in before.items()]
    return f"root mean squared error: {', '.join(changes)}"


def compare_scores(first: RunFolder, second: RunFolder) -> str:
    """Every score of two evaluated runs of one task, on the same data."""
    before, after = (flat_scores(read_scores(run)) for run in (first, second))
    for run, scores in ((first, before), (second, after)):
        if not scores:
            raise not_evaluated(str(run))
    if first.recipe().slot("corpus") != second.recipe().slot("corpus") or before.keys() != after.keys():
        message = f"{first} and {second} were not evaluated on the same data."
        raise UserError(message, hint="Compare runs of the same task and corpus.")
    return "\n".join(
        f"{name.replace('.', ': ', 1)} {score:,.6g} -> {after[name]:,.6g}" for name, score in before.items()
    )


def _bits(perplexity: dict[str, Any]) -> str:
    """Bits per character; with unknown tokens the value is too low."""
    unknown = perplexity.get("unknown_rate", 0)
    return f"{perplexity['bits_per_character']:.3f}" + (f" ({unknown:.1f} % unknown: too low)" if unknown else "")


@dataclass(frozen=True)
class ChangedSentence:
    """A test sentence with different outputs of two runs."""

    source: str
    reference: str
    first: str
    second: str
    gain: float
    """chrF2 of the second output minus that of the first."""


def largest_changes(first: RunFolder, second: RunFolder, count: int = 3) -> list[ChangedSentence]:
    """The sentences with the largest gains of the second run, then those with its largest losses."""
    rows = zip(*_same_rows(first, second, "test.tsv"), strict=True)
    sentences = [ChangedSentence(a[0], a[1], a[2], b[2], float(b[3]) - float(a[3])) for a, b in rows]
    ordered = sorted((each for each in sentences if each.gain), key=lambda each: -each.gain)
    better = [each for each in ordered if each.gain > 0][:count]
    worse = [each for each in ordered if each.gain < 0][-count:]
    return better + worse


@dataclass(frozen=True)
class ComparedAnswers:
    """Two classifiers or taggers on the same test examples."""

    accuracy: PairedBootstrap
    only_first: list[list[str]]
    """Examples that only the first run classifies correctly: example, label, and both predictions."""
    only_second: list[list[str]]


def compare_answers(first: RunFolder, second: RunFolder) -> ComparedAnswers:
    """The significance of the difference in accuracy; both runs must be evaluated on the same examples."""
    tables = _same_rows(first, second, "test-predictions.tsv")
    decisions = task_of(first.recipe()).decisions
    correct = np.array([[_count_correct(decisions(row[1], row[2])) for row in rows] for rows in tables])
    both = [[*row[:3], other_row[2]] for row, other_row in zip(*tables, strict=True)]
    gains = correct[1, :, 0] - correct[0, :, 0]
    return ComparedAnswers(
        paired_bootstrap_accuracy(correct[0], correct[1], seed=1),
        [row for row, gain in zip(both, gains, strict=True) if gain < 0],
        [row for row, gain in zip(both, gains, strict=True) if gain > 0],
    )


def _count_correct(pairs: list[tuple[str, str]]) -> tuple[int, int]:
    """The number of correct decisions, and the number of all."""
    return sum(truth == predicted for truth, predicted in pairs), len(pairs)


def _same_rows(first: RunFolder, second: RunFolder, table: str) -> list[list[list[str]]]:
    """The rows of a table of two runs, which must have the same examples."""
    rows = [_read_table(run, table) for run in (first, second)]
    if [row[:2] for row in rows[0]] != [row[:2] for row in rows[1]]:
        raise UserError(
            f"{first} and {second} were not tested on the same examples.",
            hint="Compare runs of the same corpus.",
        )
    return rows


def _read_table(run: RunFolder, table: str) -> list[list[str]]:
    path = run.evaluation / table
    if not path.exists() and not read_scores(run):
        raise not_evaluated(str(run))
    if not path.exists():
        raise UserError(
            "This run has no table of predictions to compare.",
            location=str(run),
            hint="Compare the scores of both runs, or choose two runs of the same task.",
        )
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
