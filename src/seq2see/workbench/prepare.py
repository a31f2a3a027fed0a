"""From a recipe's corpus to numbers: splits, tokenisers, and sets of encoded pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.core.errors import UserError
from seq2see.sequences.pairs import PairSet
from seq2see.sequences.tokenisers import Tokeniser, train_tokeniser
from seq2see.sources.complaints import DataReport
from seq2see.sources.examples import Example
from seq2see.sources.fingerprints import fingerprint
from seq2see.sources.own_corpus import OwnFiles
from seq2see.workbench.recipe import Recipe

Splits = dict[str, list[Example]]


@dataclass(frozen=True)
class Tokenisers:
    """How the two sides are cut into tokens; one object twice if the vocabulary is shared."""

    source: Tokeniser
    target: Tokeniser

    @property
    def sizes(self) -> tuple[int, int]:
        """The two vocabularies' sizes."""
        return len(self.source), len(self.target)

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write the files that hold them."""
        if self.shared:
            self.source.save(folder / "tokenizer.json")
        else:
            self.source.save(folder / "source_tokenizer.json")
            self.target.save(folder / "target_tokenizer.json")

    @staticmethod
    def load(folder: Path) -> Tokenisers:
        """Read them back from a folder."""
        if (folder / "tokenizer.json").exists():
            both = Tokeniser.load(folder / "tokenizer.json")
            return Tokenisers(both, both)
        return Tokenisers(
            Tokeniser.load(folder / "source_tokenizer.json"), Tokeniser.load(folder / "target_tokenizer.json")
        )


@dataclass(frozen=True)
class Prepared:
    """Everything training needs to know of the data."""

    splits: Splits
    tokenisers: Tokenisers
    train: PairSet
    valid: PairSet
    fingerprints: dict[str, str]
    reports: list[dict[str, Any]]  # what the strict reader found in the user's own files


def read_corpus(recipe: Recipe) -> tuple[Splits, list[DataReport]]:
    """The recipe's splits, and the reader's reports if the data are files of the user's own."""
    if isinstance(recipe.corpus, OwnFiles):
        return recipe.corpus.read()
    return recipe.corpus.splits(), []


def learn_tokenisers(recipe: Recipe, train: list[Example]) -> Tokenisers:
    """Learn how to cut text into tokens, from the training pairs alone."""
    sources, targets = [example.source for example in train], [example.target for example in train]
    if recipe.target.vocabulary == "shared":
        both = train_tokeniser(recipe.target.tokeniser, sources + targets)
        return Tokenisers(both, both)
    return Tokenisers(
        train_tokeniser(recipe.source.tokeniser, sources), train_tokeniser(recipe.target.tokeniser, targets)
    )


def encode(recipe: Recipe, tokenisers: Tokenisers, examples: list[Example]) -> PairSet:
    """A set of examples as numbers."""
    return PairSet(
        examples, tokenisers.source, tokenisers.target, recipe.target.longest, source_limit=recipe.source.longest
    )


def prepare(recipe: Recipe, say: Callable[[str], None]) -> Prepared:
    """Read, hold out, learn the vocabularies, encode; everything worth knowing is said."""
    splits, reports = read_corpus(recipe)
    if not splits["train"]:
        raise UserError("There are no training pairs.", where=str(recipe.corpus.kind))
    tokenisers = learn_tokenisers(recipe, splits["train"])
    train = encode(recipe, tokenisers, splits["train"])
    valid = encode(recipe, tokenisers, splits["valid"])
    sizes = ", ".join(f"{name} {len(examples):,}" for name, examples in splits.items())
    say(f"data   {sizes} pairs; vocabulary {tokenisers.sizes[0]:,} → {tokenisers.sizes[1]:,}")
    read = [line for report in reports for line in report.summary(shown=1)]
    for warning in [*read, *train.warnings(), *valid.warnings()]:
        say(f"note   {warning}")
    fingerprints = {
        "data": fingerprint(splits["train"]),
        "vocabulary": tokenisers.source.fingerprint + tokenisers.target.fingerprint,
    }
    return Prepared(splits, tokenisers, train, valid, fingerprints, [report.to_json() for report in reports])
