"""The splits that a run was made from: remembered when it is trained, compared when it is judged.

Judging reads the data anew. Where a file has vanished, grown or been exchanged meanwhile, other examples may be held
out than then, learned ones among them, and their score would be a lie. So a run keeps a fingerprint of each split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.sources.examples import Example
from seq2see.sources.image_examples import ImageExamples, short_name

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe
    from seq2see.runs.run_folder import RunFolder
    from seq2see.runs.task_protocols import Splits

DEVELOPMENT_SPLITS = ("train", "valid")
"""Splits that no score is told of, as long as there are others."""
SplitFingerprint = dict[str, Any]
"""How many examples a split has, and the SHA-256 of all of them."""


def split_fingerprint(examples: Sequence[Example]) -> SplitFingerprint:
    """What a split is known by; images go by their names and labels, which are the same in every size."""
    if isinstance(examples, ImageExamples):
        pairs = zip(examples.names, examples.labels, strict=True)
        return {
            "examples": len(examples),
            "sha256": fingerprint(Example(short_name(name), label) for name, label in pairs),
        }
    characters = sum(len(each.source) + len(each.target) for each in examples)
    return {"examples": len(examples), "characters": characters, "sha256": fingerprint(examples)}


def fingerprint(examples: Iterable[Example]) -> str:
    """SHA-256 over all sources and targets in order; the same texts give the same value wherever they stand.

    >>> fingerprint([Example("ab", "c")]) == fingerprint([Example("a", "bc")])
    False
    """
    digest = hashlib.sha256()
    for example in examples:
        for text in (example.source, example.target):
            content = text.encode()
            # The length goes before the text, so that no two lists of texts look alike.
            digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def write_split_fingerprints(run: RunFolder, split_fingerprints: dict[str, SplitFingerprint]) -> None:
    """Write down what a run is made from."""
    write_json(run.splits, split_fingerprints)


def write_common_fingerprints(run: RunFolder, members: Sequence[RunFolder]) -> None:
    """Write down what all members of an ensemble were made from; of what they do not agree on nothing is known."""
    found = [_read_fingerprints(member) if member.splits.exists() else None for member in members]
    if found[0] is not None and all(each == found[0] for each in found):
        write_split_fingerprints(run, found[0])


def changed_splits(run: RunFolder, recipe: Recipe, splits: Splits) -> dict[str, list[str]]:
    """What there is to say, as "changed_splits", of splits that are judged now and were others then; learned ones are refused.

    The training examples are only looked at where something has changed: there may be many. If they are not what they
    were, nobody can tell what was learned. A run that remembers nothing is not asked.
    """
    then = _read_fingerprints(run) if run.splits.exists() else {}
    told = []
    for name in dict.fromkeys([*then, *splits]) if then else ():
        before, now = then.get(name) or split_fingerprint([]), split_fingerprint(splits.get(name, []))
        if name == "train" or (name == "valid" and splits.get("test")) or before["sha256"] == now["sha256"]:
            continue
        files = ", ".join(getattr(recipe.corpus, name, ()) or getattr(recipe.corpus, "paths", ()))
        location = files or f"{run}, corpus.kind={recipe.corpus.kind}"
        what = f"The {name} split is not the one of training ({_size(before)} then, {_size(now)} now)"
        if why := _train_overlap(splits.get(name, []), splits["train"], then["train"]["sha256"]):
            hint = f"Put the data back, or train a new run on these; if you know better, delete {run.splits}."
            raise UserError(f"{what}, and {why}.", location=location, hint=hint)
        told.append(f"{what}: its scores are not those of then. Look at {location}.")
    return {"changed_splits": told} if told else {}


def _train_overlap(evaluated: Sequence[Example], train: Sequence[Example], then: str) -> str:
    """Why examples that shall be judged were learned, or may have been; nothing if they were not."""
    if split_fingerprint(train)["sha256"] != then:
        return "the training examples are others, too: what would be judged may have been learned"
    pairs = {(each.source, each.target) for each in train}
    texts = [each.target for each in train if not each.source]  # running text, of which a part may be judged
    known = [(each.source, each.target) in pairs or any(each.target in text for text in texts) for each in evaluated]
    return "all of it was learned" if known and all(known) else ""


def _read_fingerprints(run: RunFolder) -> dict[str, SplitFingerprint]:
    try:
        found = json.loads(run.splits.read_text(encoding="utf-8"))
        return {name: {"sha256": str(found[name]["sha256"]), **found[name]} for name in ("train", *found)}
    except (ValueError, KeyError, TypeError):
        what = "What this run remembers of its data cannot be read."
        raise UserError(what, location=str(run.splits), hint="Without the file, nothing is compared.") from None


def _size(split: SplitFingerprint) -> str:
    examples = f"{split['examples']:,} example" + "s" * (split["examples"] != 1)
    return f"{examples} of {split['characters']:,} characters" if "characters" in split else examples
