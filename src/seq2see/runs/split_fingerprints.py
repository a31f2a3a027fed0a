"""Fingerprints of the data splits: stored at training, compared at evaluation.

Evaluation reads the data again. If a file was deleted, extended or replaced since training, other examples may be held
out, and training examples may be among them; their scores would be invalid. Therefore a run stores a fingerprint of
each split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.data.examples import Example, ImageExamples, short_name

if TYPE_CHECKING:
    from seq2see.runs.run_folder import RunFolder
    from seq2see.tasks.recipe import Recipe
    from seq2see.tasks.task import Splits

SplitFingerprint = dict[str, Any]
"""The number of examples of a split, and the SHA-256 of all of them."""


def split_fingerprint(examples: Sequence[Example]) -> SplitFingerprint:
    """The fingerprint of a split; that of images consists of names and labels, independent of the image size."""
    if isinstance(examples, ImageExamples):
        pairs = zip(examples.names, examples.labels, strict=True)
        return {
            "examples": len(examples),
            "sha256": fingerprint(Example(short_name(name), label) for name, label in pairs),
        }
    characters = sum(len(each.source) + len(each.target) for each in examples)
    return {"examples": len(examples), "characters": characters, "sha256": fingerprint(examples)}


def fingerprint(examples: Iterable[Example]) -> str:
    """SHA-256 over all sources and targets in order, independent of their files.

    >>> fingerprint([Example("ab", "c")]) == fingerprint([Example("a", "bc")])
    False
    """
    digest = hashlib.sha256()
    for example in examples:
        for text in (example.source, example.target):
            content = text.encode()
            # The length precedes the text, so that different lists of texts give different bytes.
            digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def write_split_fingerprints(run: RunFolder, split_fingerprints: dict[str, SplitFingerprint]) -> None:
    """Write the fingerprints of a run's splits."""
    write_json(run.splits, split_fingerprints)


def write_common_fingerprints(run: RunFolder, members: Sequence[RunFolder]) -> None:
    """Write the fingerprints of an ensemble, if those of all members are equal."""
    stored = [_read_fingerprints(member) if member.splits.exists() else None for member in members]
    if stored[0] is not None and all(each == stored[0] for each in stored):
        write_split_fingerprints(run, stored[0])


def changed_splits(run: RunFolder, recipe: Recipe, splits: Splits) -> dict[str, list[str]]:
    """Warnings, as "changed_splits", about test splits that changed since training; training examples are refused.

    The training examples are compared only if a test split has changed, since there may be many. If they have changed
    too, overlap cannot be excluded, which is an error. A run without stored fingerprints is not checked.
    """
    then = _read_fingerprints(run) if run.splits.exists() else {}
    warnings = []
    for name in dict.fromkeys([*then, *splits]) if then else ():
        before, now = then.get(name) or split_fingerprint([]), split_fingerprint(splits.get(name, []))
        if name == "train" or (name == "valid" and splits.get("test")) or before["sha256"] == now["sha256"]:
            continue
        corpus = recipe.slot("corpus")
        files = ", ".join(getattr(corpus, name, ()) or getattr(corpus, "paths", ()))
        location = files or f"{run}, corpus.kind={corpus.kind}"
        message = f"The {name} split has changed since training ({_size(before)} then, {_size(now)} now)"
        if reason := _train_overlap(splits.get(name, []), splits["train"], then["train"]["sha256"]):
            hint = f"Restore the data, or train a new run on them; to skip this check, delete {run.splits}."
            raise UserError(f"{message}, and {reason}.", location=location, hint=hint)
        warnings.append(f"{message}: its scores cannot be compared with earlier ones. Check {location}.")
    return {"changed_splits": warnings} if warnings else {}


def _train_overlap(evaluated: Sequence[Example], train: Sequence[Example], then: str) -> str:
    """The reason why evaluated examples are, or may be, training examples; empty if they are not."""
    if split_fingerprint(train)["sha256"] != then:
        return "the training examples have changed too: test examples may be among them"
    pairs = {(each.source, each.target) for each in train}
    texts = [each.target for each in train if not each.source]  # running text, of which a part may be evaluated
    overlaps = [(each.source, each.target) in pairs or any(each.target in text for text in texts) for each in evaluated]
    return "all of it was in the training data" if overlaps and all(overlaps) else ""


def _read_fingerprints(run: RunFolder) -> dict[str, SplitFingerprint]:
    try:
        stored = json.loads(run.splits.read_text(encoding="utf-8"))
        return {name: {"sha256": str(stored[name]["sha256"]), **stored[name]} for name in ("train", *stored)}
    except (ValueError, KeyError, TypeError):
        message = "The split fingerprints of this run cannot be read."
        raise UserError(message, location=str(run.splits), hint="Delete the file to skip the comparison.") from None


def _size(split: SplitFingerprint) -> str:
    examples = f"{split['examples']:,} example" + "s" * (split["examples"] != 1)
    return f"{examples} of {split['characters']:,} characters" if "characters" in split else examples
