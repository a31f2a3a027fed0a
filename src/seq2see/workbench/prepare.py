"""From a recipe's corpus to numbers: splits, tokenisers, and sets of encoded pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.models.counting import CountingSettings
from seq2see.models.picture_settings import Film, Picture
from seq2see.models.settings import Series
from seq2see.models.window import WindowDecoderSettings
from seq2see.sequences.captions import CaptionSet
from seq2see.sequences.films import FilmPixels
from seq2see.sequences.pairs import PairSet
from seq2see.sequences.pixels import PictureSet, Pixels
from seq2see.sequences.recut import RecutPairs
from seq2see.sequences.tokenisers import BytePairs
from seq2see.sequences.vocabularies import train_tokeniser
from seq2see.sequences.windows import TextSet
from seq2see.sources.complaints import DataReport
from seq2see.sources.conll import OwnTagged
from seq2see.sources.examples import Example
from seq2see.sources.own_corpus import OwnFiles
from seq2see.sources.picture_examples import PictureExamples
from seq2see.sources.series import OwnSeries
from seq2see.sources.texts import OwnTexts
from seq2see.workbench.known_splits import Stamp, stamp_of
from seq2see.workbench.questions import Splits
from seq2see.workbench.recipe import Looked, Recipe, Watched
from seq2see.workbench.tasks import task_of
from seq2see.workbench.tokenisers import Tokenisers

Encoded = PairSet | TextSet | PictureSet
"""Examples as numbers: pairs, windows of running text, or pictures."""


@dataclass(frozen=True)
class Prepared:
    """Everything training needs to know of the data."""

    splits: Splits
    tokenisers: Tokenisers
    train: Encoded
    valid: Encoded
    fingerprints: dict[str, str]
    reports: list[dict[str, Any]]  # what the strict reader found in the user's own files
    stamps: dict[str, Stamp]  # what each split will be known by


def read_corpus(recipe: Recipe) -> tuple[Splits, list[DataReport]]:
    """The recipe's splits, and the reader's reports if the data are files of the user's own."""
    if isinstance(recipe.corpus, Watched):
        assert isinstance(recipe.source, Film)
        splits, reports = recipe.corpus.films(recipe.source.side, recipe.source.channels, recipe.source.frames)
        return dict(splits), reports
    if isinstance(recipe.corpus, Looked):
        assert isinstance(recipe.source, Picture)
        splits, reports = recipe.corpus.pictures(recipe.source.side, recipe.source.channels)
        return dict(splits), reports
    if isinstance(recipe.corpus, OwnFiles | OwnSeries | OwnTagged | OwnTexts):
        return recipe.corpus.read()
    return recipe.corpus.splits(), []


def judged_on(recipe: Recipe) -> Any:
    """The examples that a run of this recipe is judged on: the test split, or that of validation if there is none."""
    corpus = recipe.corpus
    if "size" in type(corpus).model_fields and not isinstance(recipe.target, Series):
        # Generated: what is tested on does not depend on how much is trained on, which would take a while.
        recipe = recipe.model_copy(update={"corpus": corpus.model_copy(update={"size": 1})})
    splits, _ = read_corpus(recipe)
    return splits.get("test") or splits["valid"]


def learn_tokenisers(recipe: Recipe, train: Sequence[Example]) -> Tokenisers:
    """Learn how to cut text into tokens, from the training pairs alone."""
    if not recipe.writes:
        return task_of(recipe).learn(recipe, train)
    sources, targets, text = [each.source for each in train], [each.target for each in train], recipe.written
    if isinstance(recipe.source, Picture):
        captions = [caption for each in train for caption in each.right]
        return Tokenisers(eyes_of(recipe.source), train_tokeniser(text.tokeniser, captions))
    if recipe.source is None or text.vocabulary == "shared":
        both = train_tokeniser(text.tokeniser, targets if recipe.source is None else sources + targets)
        return Tokenisers(both, both)
    return Tokenisers(train_tokeniser(recipe.read.tokeniser, sources), train_tokeniser(text.tokeniser, targets))


def eyes_of(picture: Picture) -> Pixels:
    """How pictures or films are seen."""
    if isinstance(picture, Film):
        return FilmPixels(picture.side, picture.channels, picture.frames)
    return Pixels(picture.side, picture.channels)


def shown_before(decoder: Settings | None) -> int:
    """Tokens before a window that its reader is shown: all that a model can see whose past has an end, else none."""
    if isinstance(decoder, WindowDecoderSettings):
        return decoder.tau
    return decoder.order - 1 if isinstance(decoder, CountingSettings) else 0


def encode(recipe: Recipe, tokenisers: Tokenisers, examples: Sequence[Example]) -> Encoded:
    """A set of examples as numbers."""
    if not recipe.writes:
        return task_of(recipe).encode(recipe, tokenisers, examples)
    longest = recipe.written.longest
    if recipe.source is None:
        return TextSet(examples, tokenisers.target, longest, shown_before(recipe.decoder))
    if isinstance(examples, PictureExamples):
        return CaptionSet(examples, tokenisers.target, longest, pick_device())
    return PairSet(examples, tokenisers.source, tokenisers.target, longest, source_limit=recipe.read.longest)


def recut(recipe: Recipe, train: PairSet) -> RecutPairs:
    """The training pairs as the epochs see them: cut anew each time on a side whose tokeniser has dropout."""
    tokenisers = {"source": recipe.read.tokeniser}
    if recipe.writes:
        tokenisers["target"] = recipe.written.tokeniser
    dropouts = {name: each.dropout if isinstance(each, BytePairs) else 0.0 for name, each in tokenisers.items()}
    return RecutPairs(train, dropouts, recipe.training.seed, packed=recipe.training.batches == "packed")


def prepare(recipe: Recipe, say: Callable[[str], None]) -> Prepared:
    """Read, hold out, learn the vocabularies, encode; everything worth knowing is said."""
    try:
        return _prepare(recipe, say)
    except UserError as error:  # what a set as a whole is blamed for has no line, but it has files
        files = ", ".join(getattr(recipe.corpus, "paths", ()))
        raise UserError(error.what, where=error.where or files, remedy=error.remedy) from None


def _prepare(recipe: Recipe, say: Callable[[str], None]) -> Prepared:
    splits, reports = read_corpus(recipe)
    if not splits["train"]:
        raise UserError("There is nothing to learn from.", remedy="Give more data.")
    tokenisers = learn_tokenisers(recipe, splits["train"])
    train = encode(recipe, tokenisers, splits["train"])
    valid = encode(recipe, tokenisers, splits["valid"])
    if not recipe.writes:  # an answer that nobody can learn is told now, not when everything is learnt
        for name in splits.keys() - {"train", "valid"}:
            encode(recipe, tokenisers, splits[name])
    say(f"data   {_told(splits, recipe, tokenisers)}")
    read = [line for report in reports for line in report.summary(shown=1)]
    for warning in [*read, *train.warnings(), *valid.warnings()]:
        say(f"note   {warning}")
    stamps, learnt = {name: stamp_of(examples) for name, examples in splits.items()}, splits["train"]
    fingerprints = {
        "data": learnt.fingerprint if isinstance(learnt, PictureExamples) else stamps["train"]["sha256"],
        "vocabulary": tokenisers.fingerprint,
    }
    return Prepared(splits, tokenisers, train, valid, fingerprints, [report.to_json() for report in reports], stamps)


def _told(splits: Splits, recipe: Recipe, tokenisers: Tokenisers) -> str:
    """How much data there is, in pairs or in characters of running text, and in how many kinds of tokens."""
    if isinstance(recipe.target, Series):
        lines = {name: sum(each.target.count("\n") for each in examples) for name, examples in splits.items()}
        return ", ".join(f"{name} {size:,}" for name, size in lines.items()) + " values"
    if recipe.runs_on:
        sizes = {name: sum(len(example.target) for example in examples) for name, examples in splits.items()}
        unit, vocabulary = "characters", f"{tokenisers.sizes[1]:,}"
    else:
        sizes = {name: len(examples) for name, examples in splits.items()}
        unit, vocabulary = "pairs", f"{tokenisers.sizes[0]:,} → {tokenisers.sizes[1]:,}"
        if not recipe.writes:
            unit, vocabulary = "texts", f"{tokenisers.sizes[0]:,}, labels {tokenisers.sizes[1]:,}"
        if isinstance(recipe.source, Picture):
            told, side = ", ".join(f"{name} {size:,}" for name, size in sizes.items()), recipe.source.side
            said = "vocabulary" if recipe.writes else "labels"
            unit = f"films of {recipe.source.frames} frames" if isinstance(recipe.source, Film) else "pictures"
            return f"{told} {unit} of {side} x {side}; {said} {tokenisers.sizes[1]:,}"
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items()) + f" {unit}; vocabulary {vocabulary}"
