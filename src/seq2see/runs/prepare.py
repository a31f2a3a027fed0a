"""From a recipe's corpus to numbers: splits, tokenizers, and sets of encoded pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.settings import Settings
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.mlp_lm import MLPDecoderSettings
from seq2see.models.ngram_lm import NgramSettings
from seq2see.models.settings import Series
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.recipe import ImageCorpus, Recipe, VideoCorpus
from seq2see.runs.split_fingerprints import SplitFingerprint, split_fingerprint
from seq2see.runs.task_protocols import Splits
from seq2see.runs.tasks import task_of
from seq2see.sequences.bpe_dropout import BPEDropoutDataset
from seq2see.sequences.captions import CaptionDataset
from seq2see.sequences.image_dataset import ImageDataset, ImageProcessor
from seq2see.sequences.pair_dataset import PairDataset
from seq2see.sequences.tokenizer_training import train_tokenizer
from seq2see.sequences.tokenizers import BPE
from seq2see.sequences.video_processor import VideoProcessor
from seq2see.sequences.windows import TextDataset
from seq2see.sources.conll import UserTaggedTexts
from seq2see.sources.data_report import DataReport
from seq2see.sources.examples import Example
from seq2see.sources.image_examples import ImageExamples
from seq2see.sources.number_series import UserSeries
from seq2see.sources.texts import UserTexts
from seq2see.sources.user_pairs import UserPairs

EncodedData = PairDataset | TextDataset | ImageDataset
"""Examples as numbers: pairs, windows of running text, or images."""


@dataclass(frozen=True)
class PreparedData:
    """Everything training needs to know of the data."""

    splits: Splits
    tokenizers: Tokenizers
    train: EncodedData
    valid: EncodedData
    fingerprints: dict[str, str]
    reports: list[dict[str, Any]]  # what the strict reader found in the user's own files
    split_fingerprints: dict[str, SplitFingerprint]  # what each split will be known by


def read_corpus(recipe: Recipe) -> tuple[Splits, list[DataReport]]:
    """The recipe's splits, and the reader's reports if the data are files of the user's own."""
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
    """The examples that a run of this recipe is judged on: the test split, or that of validation if there is none."""
    corpus = recipe.corpus
    if "size" in type(corpus).model_fields and not isinstance(recipe.target, Series):
        # Generated: what is tested on does not depend on how much is trained on, which would take a while.
        recipe = recipe.model_copy(update={"corpus": corpus.model_copy(update={"size": 1})})
    splits, _ = read_corpus(recipe)
    return splits.get("test") or splits["valid"]


def learn_tokenizers(recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
    """Learn how to cut text into tokens, from the training pairs alone."""
    if not recipe.generates:
        return task_of(recipe).learn_tokenizers(recipe, train)
    sources, targets, text = [each.source for each in train], [each.target for each in train], recipe.target_text
    if isinstance(recipe.source, ImageSource):
        captions = [caption for each in train for caption in each.all_references]
        return Tokenizers(image_processor(recipe.source), train_tokenizer(text.tokenizer, captions))
    if recipe.source is None or text.vocabulary == "shared":
        both = train_tokenizer(text.tokenizer, targets if recipe.source is None else sources + targets)
        return Tokenizers(both, both)
    return Tokenizers(train_tokenizer(recipe.source_text.tokenizer, sources), train_tokenizer(text.tokenizer, targets))


def image_processor(image: ImageSource) -> ImageProcessor:
    """How images or videos are seen."""
    if isinstance(image, VideoSource):
        return VideoProcessor(image.image_size, image.channels, image.frames)
    return ImageProcessor(image.image_size, image.channels)


def context_before(decoder: Settings | None) -> int:
    """Tokens before a window that its reader is shown: all that a model can see whose past has an end, else none."""
    if isinstance(decoder, MLPDecoderSettings):
        return decoder.context
    return decoder.order - 1 if isinstance(decoder, NgramSettings) else 0


def encode(recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> EncodedData:
    """A set of examples as numbers."""
    if not recipe.generates:
        return task_of(recipe).encode(recipe, tokenizers, examples)
    longest = recipe.target_text.max_tokens
    if recipe.source is None:
        return TextDataset(examples, tokenizers.target, longest, context_before(recipe.decoder))
    if isinstance(examples, ImageExamples):
        return CaptionDataset(examples, tokenizers.target, longest, pick_device())
    return PairDataset(
        examples, tokenizers.source, tokenizers.target, longest, source_max_tokens=recipe.source_text.max_tokens
    )


def bpe_dropout_pairs(recipe: Recipe, train: PairDataset) -> BPEDropoutDataset:
    """The training pairs as the epochs see them: cut anew each time on a side whose tokenizer has dropout."""
    tokenizers = {"source": recipe.source_text.tokenizer}
    if recipe.generates:
        tokenizers["target"] = recipe.target_text.tokenizer
    dropouts = {name: each.dropout if isinstance(each, BPE) else 0.0 for name, each in tokenizers.items()}
    return BPEDropoutDataset(train, dropouts, recipe.training.seed, packed=recipe.training.batches == "packed")


def prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    """Read, hold out, learn the vocabularies, encode; everything worth knowing is said."""
    try:
        return _prepare(recipe, log)
    except UserError as error:  # what a set as a whole is blamed for has no line, but it has files
        files = ", ".join(getattr(recipe.corpus, "paths", ()))
        raise UserError(error.message, location=error.location or files, hint=error.hint) from None


def _prepare(recipe: Recipe, log: Callable[[str], None]) -> PreparedData:
    splits, reports = read_corpus(recipe)
    if not splits["train"]:
        raise UserError("There is nothing to learn from.", hint="Give more data.")
    tokenizers = learn_tokenizers(recipe, splits["train"])
    train = encode(recipe, tokenizers, splits["train"])
    valid = encode(recipe, tokenizers, splits["valid"])
    if not recipe.generates:  # an answer that nobody can learn is told now, not when everything is learned
        for name in splits.keys() - {"train", "valid"}:
            encode(recipe, tokenizers, splits[name])
    log(f"data   {_data_summary(splits, recipe, tokenizers)}")
    read = [line for report in reports for line in report.to_lines(shown=1)]
    for warning in [*read, *train.warnings(), *valid.warnings()]:
        log(f"note   {warning}")
    split_fingerprints, learned = (
        {name: split_fingerprint(examples) for name, examples in splits.items()},
        splits["train"],
    )
    fingerprints = {
        "data": learned.fingerprint if isinstance(learned, ImageExamples) else split_fingerprints["train"]["sha256"],
        "vocabulary": tokenizers.fingerprint,
    }
    return PreparedData(
        splits, tokenizers, train, valid, fingerprints, [report.to_json() for report in reports], split_fingerprints
    )


def _data_summary(splits: Splits, recipe: Recipe, tokenizers: Tokenizers) -> str:
    """How much data there is, in pairs or in characters of running text, and in how many kinds of tokens."""
    if isinstance(recipe.target, Series):
        lines = {name: sum(each.target.count("\n") for each in examples) for name, examples in splits.items()}
        return ", ".join(f"{name} {size:,}" for name, size in lines.items()) + " values"
    if recipe.is_running_text:
        sizes = {name: sum(len(example.target) for example in examples) for name, examples in splits.items()}
        unit, vocabulary = "characters", f"{tokenizers.sizes[1]:,}"
    else:
        sizes = {name: len(examples) for name, examples in splits.items()}
        unit, vocabulary = "pairs", f"{tokenizers.sizes[0]:,} → {tokenizers.sizes[1]:,}"
        if not recipe.generates:
            unit, vocabulary = "texts", f"{tokenizers.sizes[0]:,}, labels {tokenizers.sizes[1]:,}"
        if isinstance(recipe.source, ImageSource):
            told, side = ", ".join(f"{name} {size:,}" for name, size in sizes.items()), recipe.source.image_size
            said = "vocabulary" if recipe.generates else "labels"
            unit = f"videos of {recipe.source.frames} frames" if isinstance(recipe.source, VideoSource) else "images"
            return f"{told} {unit} of {side} x {side}; {said} {tokenizers.sizes[1]:,}"
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items()) + f" {unit}; vocabulary {vocabulary}"
