"""Data preparation: from a recipe's corpus to splits, tokenizers and encoded datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.data.examples import Example, ImageExamples
from seq2see.data.image_dataset import CaptionDataset, ImageDataset, ImageProcessor, VideoProcessor
from seq2see.data.pair_dataset import PairDataset
from seq2see.data.readers.conll import UserTaggedTexts
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.number_series import UserSeries
from seq2see.data.readers.texts import UserTexts
from seq2see.data.readers.user_pairs import UserPairs
from seq2see.data.tokenizers.bpe_dropout import BPEDropoutDataset
from seq2see.data.tokenizers.tokenizer import BPE
from seq2see.data.tokenizers.tokenizer_training import train_tokenizer
from seq2see.data.windows import TextDataset
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import Series
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.recipe import ImageCorpus, Recipe, VideoCorpus
from seq2see.runs.split_fingerprints import SplitFingerprint, split_fingerprint
from seq2see.runs.task_protocols import Splits
from seq2see.runs.tasks import task_of

EncodedData = PairDataset | TextDataset | ImageDataset
"""Encoded examples: pairs, windows of running text, or images."""


@dataclass(frozen=True)
class PreparedData:
    """The data that training needs."""

    splits: Splits
    tokenizers: Tokenizers
    train: EncodedData
    valid: EncodedData
    fingerprints: dict[str, str]
    reports: list[dict[str, Any]]  # the issues found in user files
    split_fingerprints: dict[str, SplitFingerprint]  # to detect changed data at evaluation


def read_corpus(recipe: Recipe) -> tuple[Splits, list[DataReport]]:
    """Read the recipe's splits; also returns the data reports of user files."""
    if isinstance(recipe.corpus, VideoCorpus):
        assert isinstance(recipe.source, VideoSource)
        splits, reports = recipe.corpus.videos(recipe.source.image_size, recipe.source.channels, recipe.source.frames)
        return dict(splits), reports
    if isinstance(recipe.corpus, ImageCorpus):
        assert isinstance(recipe.source, ImageSource)
        splits, reports = recipe.corpus.images(recipe.source.image_size, recipe.source.channels)
        return dict(splits), reports
    if isinstance(recipe.corpus, UserPairs | UserSeries | UserTaggedTexts | UserTexts):
        return recipe.corpus.read()
    return recipe.corpus.splits(), []


def evaluation_examples(recipe: Recipe) -> Any:
    """The examples that a run of this recipe is evaluated on: the test split, or without one the validation split."""
    corpus = recipe.corpus
    if "size" in type(corpus).model_fields and not isinstance(recipe.target, Series):
        # A generated corpus: the test split does not depend on the size of the training split, so that is set to 1.
        recipe = recipe.model_copy(update={"corpus": corpus.model_copy(update={"size": 1})})
    splits, _ = read_corpus(recipe)
    return splits.get("test") or splits["valid"]


def learn_tokenizers(recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
    """Learn the tokenizers from the training examples only."""
    if not recipe.generates:
        return task_of(recipe).learn_tokenizers(recipe, train)
    sources, targets, text = [each.source for each in train], [each.target for each in train], recipe.target_text
    if isinstance(recipe.source, ImageSource):
        captions = [caption for each in train for caption in each.all_references]
        return Tokenizers(image_processor(recipe.source), train_tokenizer(text.tokenizer, captions))
    if recipe.source is None or text.vocabulary == "shared":
        tokenizer = train_tokenizer(text.tokenizer, targets if recipe.source is None else sources + targets)
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(train_tokenizer(recipe.source_text.tokenizer, sources), train_tokenizer(text.tokenizer, targets))


def image_processor(image: ImageSource) -> ImageProcessor:
    """The preprocessing of images or videos."""
    if isinstance(image, VideoSource):
        return VideoProcessor(image.image_size, image.channels, image.frames)
    return ImageProcessor(image.image_size, image.channels)


def context_before(decoder: Settings | None) -> int:
    """The number of context tokens before each window: those of an n-gram or MLP model, else none."""
    if isinstance(decoder, MLPDecoderSettings):
        return decoder.context
    return decoder.order - 1 if isinstance(decoder, NgramSettings) else 0


def encode(recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> EncodedData:
    """Encode examples as a dataset."""
    if not recipe.generates:
        return task_of(recipe).encode(recipe, tokenizers, examples)
    max_tokens = recipe.target_text.max_tokens
    if recipe.source is None:
        return TextDataset(examples, tokenizers.target, max_tokens, context_before(recipe.decoder))
    if isinstance(examples, ImageExamples):
        return CaptionDataset(examples, tokenizers.target, max_tokens, pick_device())
    return PairDataset(
        examples, tokenizers.source, tokenizers.target, max_tokens, source_max_tokens=recipe.source_text.max_tokens
    )


def bpe_dropout_pairs(recipe: Recipe, train: PairDataset) -> BPEDropoutDataset:
    """The training pairs of each epoch, tokenized anew in columns with BPE-dropout."""
    tokenizers = {"source": recipe.source_text.tokenizer}
    if recipe.generates:
        tokenizers["target"] = recipe.target_text.tokenizer
    dropouts = {name: each.dropout if isinstance(each, BPE) else 0.0 for name, each in tokenizers.items()}
    return BPEDropoutDataset(train, dropouts, recipe.training.seed, packed=recipe.training.batches == "packed")


def prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    """Read the corpus, learn the vocabularies, encode the splits, and log a summary and warnings."""
    try:
        return _prepare(recipe, log)
    except UserError as error:  # an error of a whole dataset gets the location of its files
        files = ", ".join(getattr(recipe.corpus, "paths", ()))
        raise UserError(error.message, location=error.location or files, hint=error.hint) from None


def _prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    splits, reports = read_corpus(recipe)
    if not splits["train"]:
        raise UserError("There are no training examples.", hint="Provide more data.")
    tokenizers = learn_tokenizers(recipe, splits["train"])
    train = encode(recipe, tokenizers, splits["train"])
    valid = encode(recipe, tokenizers, splits["valid"])
    if not recipe.generates:  # refuse labels that are not in the training data before training
        for name in splits.keys() - {"train", "valid"}:
            encode(recipe, tokenizers, splits[name])
    log(f"data   {_data_summary(splits, recipe, tokenizers)}")
    report_lines = [line for report in reports for line in report.to_lines(shown=1)]
    for warning in [*report_lines, *train.warnings(), *valid.warnings()]:
        log(f"note   {warning}")
    split_fingerprints = {name: split_fingerprint(examples) for name, examples in splits.items()}
    examples = splits["train"]
    fingerprints = {
        "data": examples.fingerprint if isinstance(examples, ImageExamples) else split_fingerprints["train"]["sha256"],
        "vocabulary": tokenizers.fingerprint,
    }
    return PreparedData(
        splits, tokenizers, train, valid, fingerprints, [report.to_json() for report in reports], split_fingerprints
    )


def _data_summary(splits: Splits, recipe: Recipe, tokenizers: Tokenizers) -> str:
    """The sizes of the splits (pairs, texts, images, characters or values) and of the vocabularies."""
    if isinstance(recipe.target, Series):
        sizes = {name: sum(each.target.count("\n") for each in examples) for name, examples in splits.items()}
        return ", ".join(f"{name} {size:,}" for name, size in sizes.items()) + " values"
    if recipe.is_running_text:
        sizes = {name: sum(len(example.target) for example in examples) for name, examples in splits.items()}
        unit, vocabulary = "characters", f"{tokenizers.sizes[1]:,}"
    else:
        sizes = {name: len(examples) for name, examples in splits.items()}
        unit, vocabulary = "pairs", f"{tokenizers.sizes[0]:,} → {tokenizers.sizes[1]:,}"
        if not recipe.generates:
            unit, vocabulary = "texts", f"{tokenizers.sizes[0]:,}, labels {tokenizers.sizes[1]:,}"
        if isinstance(recipe.source, ImageSource):
            counts, pixels = ", ".join(f"{name} {size:,}" for name, size in sizes.items()), recipe.source.image_size
            classes = "vocabulary" if recipe.generates else "labels"
            unit = f"videos of {recipe.source.frames} frames" if isinstance(recipe.source, VideoSource) else "images"
            return f"{counts} {unit} of {pixels} x {pixels}; {classes} {tokenizers.sizes[1]:,}"
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items()) + f" {unit}; vocabulary {vocabulary}"
