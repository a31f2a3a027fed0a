"""Before training: splits, tokenizers and encoded datasets from a recipe's corpus, and pretrained weights.

Fingerprints of the splits are stored at training and compared at evaluation, which reads the data again. If a file was
deleted, extended or replaced since training, other examples may be held out, and training examples may be among them;
their scores would be invalid.

Training can begin with a pretrained model, which is a run of our own, or a model of another library. Of a model of the
same task it takes the tokenizers and all weights, except those of a head for other labels. Of another task it takes the
parts that both tasks have (`Task.pretrained_parts`): of an encoder-only model the source embedding and the encoder
(Devlin et al. 2019, section 4), of a language model all. These parts must be equal in both models; a recipe with
`pretrained` therefore uses their settings of that model, such as `[source]` and `[encoder]`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from seq2see.adapters.adapt import chosen_matrices
from seq2see.adapters.expert import ExpertConfig
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.core.settings import Settings, walk
from seq2see.data.examples import Example, ImageExamples, short_name
from seq2see.data.image_dataset import ImageProcessor
from seq2see.data.recordings import RecordingExamples
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.runs.chat import template_for_training
from seq2see.runs.experts import copy_base_weights
from seq2see.runs.load import read_model
from seq2see.runs.run_folder import find_run
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers, fingerprint_of
from seq2see.tasks.task import DEVELOPMENT_SPLITS, Splits, task_of

if TYPE_CHECKING:
    from seq2see.runs.run_folder import RunFolder
    from seq2see.tasks.model_folder import Recipe
    from seq2see.tasks.task import Splits

MAY_DIFFER = ("dropout", "drop_path", "max_tokens", "max_positions", "image_size")
"""Settings that may differ from those of the pretrained model."""


def with_pretrained_parts(recipe: Recipe) -> Recipe:
    """The recipe with the settings of the parts of its pretrained model, which is stored by its absolute path."""
    pretrained = recipe.slot("pretrained")
    if pretrained is None:
        return recipe
    stored = _stored(pretrained, recipe)
    path = Path(pretrained) if is_pretrained(Path(pretrained)) else find_run(pretrained).path
    update: dict[str, Any] = {"pretrained": str(path.absolute())}
    update |= {part: getattr(stored.config.model, part) for part in pretrained_slots(recipe, stored)}
    if recipe.slot("template") is not None:
        update["template"] = template_for_training(stored, path)
    return recipe.model_copy(update=update)


def pretrained_slots(recipe: Recipe, stored: StoredModel) -> list[str]:
    """The slots of a recipe with settings of the pretrained model; a head has none of its own."""
    task = task_of(recipe)
    same_task = stored.config.task == task.name
    parts = [name for name in recipe.model_settings.model_fields if name != "template"] if same_task else ()
    return [part for part in parts or task.pretrained_parts if part in type(recipe).model_fields]


def check_pretrained(recipe: Recipe) -> None:
    """Raise an error if settings of the pretrained parts differ from the pretrained model, before data are read.

    Some settings (the number of heads, the tokenizer) change no weight's shape, so loading would not fail.
    """
    pretrained = recipe.slot("pretrained")
    if pretrained is None:
        return
    stored = _stored(pretrained, recipe)
    parts = [
        part for part in pretrained_slots(recipe, stored) if part != "target" or not task_of(recipe).head_of_labels
    ]
    for part in parts:
        own, other = (_compared_settings(getattr(each, part)) for each in (recipe, stored.config.model))
        for name in sorted(own.keys() | other.keys()):
            if own.get(name) != other.get(name):
                values = " and ".join(str(each.get(name, "missing")) for each in (own, other))
                raise UserError(
                    f"{part}.{name} differs between this recipe and its pretrained model: {values}.",
                    location=pretrained,
                    hint=_hint(parts),
                )


def _hint(parts: Sequence[str]) -> str:
    return f"Leave {' and '.join(f'[{part}]' for part in parts)} as in that model; only dropout and sizes may differ."


def _compared_settings(part: Settings | None) -> dict[str, Any]:
    """Settings by path, without those that may differ."""
    settings = [] if part is None else [(path, value) for path, value, _ in walk(part) if not isinstance(value, type)]
    return {path: value for path, value in settings if path.rpartition(".")[2] not in MAY_DIFFER}


def pretrained_model(recipe: Recipe) -> StoredModel | None:
    """The pretrained model of a recipe, if it has one."""
    name = recipe.slot("pretrained")
    return None if name is None else _stored(name, recipe)


def load_pretrained_parts(model: nn.Module, recipe: Any, tokenizers: Tokenizers) -> list[str]:
    """Load the weights of the pretrained model, and return the names of the weights that it does not have.

    Of a model of the same task all weights are taken, except those of a head for other labels.
    """
    task, stored = task_of(recipe), _stored(recipe.pretrained, recipe)
    # A classifier with another pooling, or for other labels, has a new head.
    same_target = not task.head_of_labels or recipe.slot("target") == stored.config.model.target
    same_head = not task.head_of_labels or stored.tokenizers.labels == tokenizers.labels
    same_task = stored.config.task == task.name and same_target
    parts = tuple(f"{part}." for part in task.pretrained_parts)

    def is_copied(name: str) -> bool:
        return (same_head or not name.startswith("head.")) if same_task else name.startswith(parts)

    try:
        copy_base_weights(model, stored.module, is_copied)
    except UserError as error:
        raise UserError(
            error.message, location=recipe.pretrained, hint=_hint(pretrained_slots(recipe, stored))
        ) from None
    return [name for name, _ in model.named_parameters() if not is_copied(name)]


def _stored(name: str, recipe: Recipe) -> StoredModel:
    stored = read_model(_pretrained_folder(name), torch.device("cpu"))
    model, task = stored.config.model, task_of(recipe)
    if stored.config.task == task.name and not stored.config.members:
        return stored
    if model.generates and not task.generates:
        raise UserError("This is a generative model; only encoder-only models can be fine-tuned.", location=name)
    if "decoder" in task.pretrained_parts and (not model.generates or model.source is not None):
        message = f"This is not a language model, which a {task.name} can be fine-tuned from."
        raise UserError(message, location=name)
    if stored.config.members or not task.pretrained_parts:
        kind = "an ensemble" if stored.config.members else f"a model of the task {stored.config.task}"
        message = f"This is {kind}; a training of the task {task.name} begins with a single model of this task."
        raise UserError(message, location=name, hint="Name another run with pretrained=RUN.")
    return stored


def _pretrained_folder(name: str) -> Path:
    """The folder of a pretrained model: that of a finished run, or of another library."""
    if is_pretrained(Path(name)):
        return Path(name)
    run = find_run(name)
    if not run.finished:
        raise UserError("This run is not finished, so it has no weights to fine-tune.", location=str(run))
    return run.model


def expert_config(recipe: Recipe) -> ExpertConfig:
    """Which model an adapter belongs to."""
    assert recipe.pretrained is not None
    assert recipe.adapter is not None
    fingerprint = fingerprint_of(_pretrained_folder(recipe.pretrained))
    return ExpertConfig(base=recipe.pretrained, fingerprint=fingerprint, adapter=recipe.adapter)


SplitFingerprint = dict[str, Any]
"""The number of examples of a split, and the SHA-256 of all of them."""


def split_fingerprint(examples: Sequence[Example]) -> SplitFingerprint:
    """The fingerprint of a split; that of images or recordings consists of names and labels or texts.

    So it does not depend on the image size, on the sampling rate, or on the folder of all files.
    """
    if isinstance(examples, ImageExamples | RecordingExamples):
        return {
            "examples": len(examples),
            "sha256": fingerprint(Example(short_name(each.source), each.target) for each in examples),
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


def _check_vocabulary(tokenizers: Tokenizers, pretrained: StoredModel) -> None:
    """Refuse a vocabulary in which the token ids of a pretrained model mean something else."""
    new, old = tokenizers.target, pretrained.tokenizers.target
    if not isinstance(new, ImageProcessor) and new.fingerprint != old.fingerprint:
        raise UserError(
            "This task learned a vocabulary of its own, and not that of its pretrained model.",
            hint="`Task.fit` has to return the tokenizers of `pretrained`, if there is one.",
        )


def _prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    task = task_of(recipe)
    splits, reports = task.read(recipe)
    if not splits["train"]:
        raise UserError("There are no training examples.", hint="Provide more data.")
    pretrained = pretrained_model(recipe)
    if recipe.adapter is not None and pretrained is not None:
        chosen_matrices(pretrained.module, recipe.adapter)
    tokenizers = task.fit(recipe, splits["train"], pretrained)
    if pretrained is not None:
        _check_vocabulary(tokenizers, pretrained)
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
    if recipe.adapter is not None:  # the checkpoints have only the adapter
        fingerprints["pretrained model"] = expert_config(recipe).fingerprint
    return PreparedData(
        splits, tokenizers, train, valid, fingerprints, [report.to_json() for report in reports], split_fingerprints
    )
