"""Data preparation: from a recipe's corpus to splits, tokenizers and encoded datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seq2see.core.errors import UserError
from seq2see.runs.pretrained import pretrained_model
from seq2see.runs.split_fingerprints import SplitFingerprint, split_fingerprint
from seq2see.tasks.processors import Tokenizers
from seq2see.tasks.recipe import Recipe
from seq2see.tasks.registry import task_of
from seq2see.tasks.task import DEVELOPMENT_SPLITS, Splits


@dataclass(frozen=True)
class PreparedData:
    """The data that training needs."""

    splits: Splits
    tokenizers: Tokenizers
    train: Any
    valid: Any
    fingerprints: dict[str, str]
    reports: list[dict[str, Any]]  # the issues found in user files
    split_fingerprints: dict[str, SplitFingerprint]  # to detect changed data at evaluation


def prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    """Read the corpus, learn the vocabularies, encode the splits, and log a summary and warnings."""
    try:
        return _prepare(recipe, log)
    except UserError as error:  # an error of a whole dataset gets the location of its files
        files = ", ".join(getattr(recipe.slot("corpus"), "paths", ()))
        raise UserError(error.message, location=error.location or files, hint=error.hint) from None


def _prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    task = task_of(recipe)
    splits, reports = task.read(recipe)
    if not splits["train"]:
        raise UserError("There are no training examples.", hint="Provide more data.")
    tokenizers = task.fit(recipe, splits["train"], pretrained_model(recipe))
    train = task.dataset(recipe, tokenizers, splits["train"])
    valid = task.dataset(recipe, tokenizers, splits["valid"])
    if not task.generates:  # refuse labels that are not in the training data before training
        for name in splits.keys() - set(DEVELOPMENT_SPLITS):
            task.dataset(recipe, tokenizers, splits[name])
    log(f"data   {task.summary(recipe, tokenizers, splits)}")
    report_lines = [line for report in reports for line in report.to_lines(shown=1)]
    for warning in [*report_lines, *train.warnings(), *valid.warnings()]:
        log(f"note   {warning}")
    split_fingerprints = {name: split_fingerprint(examples) for name, examples in splits.items()}
    examples = splits["train"]
    fingerprints = {
        "data": getattr(examples, "fingerprint", None) or split_fingerprints["train"]["sha256"],
        "vocabulary": tokenizers.fingerprint,
    }
    return PreparedData(
        splits, tokenizers, train, valid, fingerprints, [report.to_json() for report in reports], split_fingerprints
    )
