"""Before training: splits, tokenizers and encoded datasets from a recipe's corpus, and pretrained weights.

Fingerprints of the splits are stored at training and compared at evaluation, which reads the data again. If a file was
deleted, extended or replaced since training, other examples may be held out, and training examples may be among them;
their scores would be invalid.

Fine-tuning takes the tokenizer and some parts of a pretrained model, which is a run of our own, or a Hugging Face
folder: of an encoder-only model the source embedding and the encoder (Devlin et al. 2019, section 4), because its head
belongs to one task; of a language model all parts (`Task.pretrained_parts`). These parts must be equal in both models;
a recipe with `pretrained` therefore uses their settings of that model, such as `[source]` and `[encoder]`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from seq2see.core.documents import load_json
from seq2see.core.errors import UserError
from seq2see.core.files import write_json
from seq2see.core.settings import Settings, walk
from seq2see.data.examples import Example, ImageExamples, short_name
from seq2see.data.recordings import RecordingExamples
from seq2see.interop.checkpoint_files import is_pretrained
from seq2see.layers.positions import LearnedPositions2d
from seq2see.models.build import named_tensors
from seq2see.runs.chat import template_for_training
from seq2see.runs.load import read_model
from seq2see.runs.run_folder import find_run
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.task import DEVELOPMENT_SPLITS, Splits, task_of

if TYPE_CHECKING:
    from seq2see.runs.run_folder import RunFolder
    from seq2see.tasks.model_folder import Recipe
    from seq2see.tasks.task import Splits

MAY_DIFFER = ("dropout", "drop_path", "max_tokens", "max_positions", "image_size")
"""Settings that may differ from those of the pretrained model."""


def pretrained_prefixes(recipe: Recipe) -> tuple[str, ...]:
    """The prefixes of the weights that are loaded, and of their settings."""
    return tuple(f"{part}." for part in task_of(recipe).pretrained_parts)


def with_pretrained_parts(recipe: Recipe) -> Recipe:
    """The recipe with the settings of the parts of its pretrained model, which is stored by its absolute path."""
    pretrained = recipe.slot("pretrained")
    if pretrained is None:
        return recipe
    stored = _stored(pretrained, recipe)
    path = Path(pretrained) if is_pretrained(Path(pretrained)) else find_run(pretrained).path
    update: dict[str, Any] = {"pretrained": str(path.absolute())}
    update |= {part: getattr(stored.config.model, part) for part in _parts_with_settings(recipe)}
    if recipe.slot("template") is not None:
        update["template"] = template_for_training(stored, path)
    return recipe.model_copy(update=update)


def _parts_with_settings(recipe: Recipe) -> list[str]:
    """The parts that have settings; a head has none of its own."""
    return [part for part in task_of(recipe).pretrained_parts if part in type(recipe).model_fields]


def check_pretrained(recipe: Recipe) -> None:
    """Raise an error if settings of the pretrained parts differ from the pretrained model, before data are read.

    Some settings (the number of heads, the tokenizer) change no weight's shape, so loading would not fail.
    """
    pretrained = recipe.slot("pretrained")
    if pretrained is None:
        return
    model, parts = _stored(pretrained, recipe).config.model, _parts_with_settings(recipe)
    for part in parts:
        own, other = (_compared_settings(getattr(each, part)) for each in (recipe, model))
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


@torch.no_grad()
def load_pretrained_parts(model: nn.Module, recipe: Any) -> None:
    """Load the weights of the pretrained model; 2-d position embeddings are interpolated to another image size."""
    run, prefixes = recipe.pretrained, pretrained_prefixes(recipe)
    pretrained: Any = _stored(run, recipe).module
    stored = {name: tensor for name, tensor in named_tensors(pretrained).items() if name.startswith(prefixes)}
    new, old = (getattr(getattr(each, "source", None), "positions", None) for each in (model, pretrained))
    if isinstance(new, LearnedPositions2d) and isinstance(old, LearnedPositions2d):
        stored["source.positions.embedding.weight"] = old(new.grid)[0]
    weights = {name: tensor for name, tensor in named_tensors(model).items() if name.startswith(prefixes)}
    for name in sorted({*stored, *weights}):
        if name not in stored or name not in weights or stored[name].shape != weights[name].shape:
            raise UserError(
                f"The weight '{name}' is missing or has another shape in this recipe or its pretrained model.",
                location=run,
                hint=_hint(_parts_with_settings(recipe)),
            )
    for name, weight in weights.items():
        weight.copy_(stored[name])


def _stored(name: str, recipe: Recipe) -> StoredModel:
    path = Path(name)
    if not is_pretrained(path):
        run = find_run(name)
        if not run.finished:
            raise UserError("This run is not finished, so it has no weights to fine-tune.", location=str(run))
        path = run.model
    stored = read_model(path, torch.device("cpu"))
    model, task = stored.config.model, task_of(recipe)
    if model.generates and not task.generates:
        raise UserError("This is a generative model; only encoder-only models can be fine-tuned.", location=name)
    if task.generates and (not model.generates or model.source is not None):
        raise UserError("This is not a language model, which a chat can be fine-tuned from.", location=name)
    return stored


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
        stored = load_json(run.splits)
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
