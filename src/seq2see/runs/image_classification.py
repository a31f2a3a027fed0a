"""Image classification: from images in folders to a predicted label.

Compare `text_classification.py`: only the inputs differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seq2see.core.batch import Batch
from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.data.examples import Example, ImageExamples
from seq2see.data.image_dataset import ImageDataset, ImageProcessor
from seq2see.data.readers.captioned_images import CaptionedImages
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.settings import ModelSettings
from seq2see.runs.image_sheets import draw_mistakes, draw_patch_attention
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.run_folder import RunFolder
from seq2see.runs.task_protocols import EncodedInput, ProgressCallback, Splits, predict_all
from seq2see.runs.text_classification import (
    DEVELOPMENT_SPLITS,
    TextClassification,
    confusion_scores,
    plot_confusion,
    write_prediction_table,
)
from seq2see.runs.tracing import NamedBatch

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class ImageClassification(TextClassification):
    """Predict the label of an image."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Collect the labels, sorted alphabetically."""
        assert isinstance(recipe.source, ImageSource)
        if isinstance(train, CaptionedImages):
            hint = "Use images with labels: corpus.name=cifar10, or your own."
            raise UserError("These images have captions, but no labels.", hint=hint)
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training images have the label {labels[0]!r}.",
                hint="Add images of other labels, each label in its own folder.",
            )
        processor = ImageProcessor(recipe.source.image_size, recipe.source.channels)
        return Tokenizers(processor, processor, tuple(labels))

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Pixels and label indices, on the device of the model."""
        assert isinstance(examples, ImageExamples)
        return ImageDataset(examples, tokenizers.labels, pick_device())

    def sample_examples(self, dataset: Any, count: int) -> Any:
        """The first images."""
        return dataset.examples[:count]

    def preprocess(self, stored: StoredModel, text: Any) -> EncodedInput:
        """Load and resize an image: a file name, or pixels (height, width, channel)."""
        processor, image = stored.tokenizers.source, stored.config.model.source
        assert isinstance(processor, ImageProcessor)
        assert isinstance(image, ImageSource)
        pixels, warnings = processor.preprocess(text)
        height, width = pixels.shape[-2:]
        new_height, new_width = image.nearest_image_size(height), image.nearest_image_size(width)
        if (new_height, new_width) != (height, width):
            pixels = processor.resize(pixels, new_height, new_width)
            reason = (
                "the size of the training videos" if isinstance(image, VideoSource) else "a whole number of patches"
            )
            warnings += (f"resized from {width} x {height} to {new_width} x {new_height} pixels, {reason}",)
        name = "" if isinstance(text, np.ndarray) else str(text)
        return EncodedInput(name, [], False, warnings=warnings, pixels=pixels)

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Accuracy, and precision, recall and F1 of each label; every prediction is written to a table.

        The image size of the recipe may differ from that of training.
        """
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not examples:
                continue
            assert isinstance(examples, ImageExamples)
            results = predict_all(self, stored, list(examples.pixels), top_k=1, on_progress=on_progress)
            confusion = ConfusionMatrix.of(stored.tokenizers.labels, examples.labels, [each.text for each in results])
            scores[name] = confusion_scores(confusion)
            write_prediction_table(run.evaluation / f"{name}-predictions.tsv", examples, results, "file")
            if name == "test":
                plot_confusion(confusion, run)
                draw_mistakes(run, examples, results)
                draw_patch_attention(run, stored, examples, results)
        return scores


MAX_PATCHES = 128**2
"""The cost of attention is quadratic in the number of patches."""


def checked_image_size(image: ImageSource, image_size: Any) -> int:
    """Validate an image size."""
    image_size = image.with_(image_size=image_size).image_size
    patch = image.embedding.size
    if patch > 1 and image_size > patch * MAX_PATCHES**0.5:
        message = f"{image_size} x {image_size} pixels are more than {MAX_PATCHES:,} patches of {patch} x {patch}."
        raise UserError(message, hint=f"Set source.image_size to at most {int(patch * MAX_PATCHES**0.5):,}.")
    return image_size


def with_image_size(stored: StoredModel, image_size: int | None) -> StoredModel:
    """The model with another image size than in training; None: unchanged."""
    processor = stored.tokenizers.source
    if image_size is None:
        return stored
    if not isinstance(processor, ImageProcessor):
        raise UserError("Only image models have an image size.", hint="Leave out source.image_size.")
    image = stored.config.model.source
    assert isinstance(image, ImageSource)
    resized = processor.with_size(checked_image_size(image, image_size))
    return replace(stored, tokenizers=replace(stored.tokenizers, source=resized))


def patch_names(settings: ModelSettings, pixels: NDArray[np.uint8]) -> list[str]:
    """The names of the tokens of an image: class and distillation token, then "row,column" of each patch.

    The tokens of a video are its frames, named by their numbers.
    """
    assert isinstance(settings.source, ImageSource)
    if isinstance(settings.source, VideoSource):
        return [str(index + 1) for index in range(len(pixels))]
    size = settings.source.embedding.size
    rows, columns = (length // size for length in pixels.shape[1:])
    return ["class", "distill"][: settings.prefix_tokens] + [
        f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns)
    ]


def named_image_batch(settings: ModelSettings, pixels: NDArray[np.uint8], batch: Batch) -> NamedBatch:
    """An image or a video as a batch of one with token names; the grid covers patches, or frames in one row."""
    names = patch_names(settings, pixels)
    if isinstance(settings.source, VideoSource):
        return NamedBatch(batch, {"source": names}, {"source": [False] * len(names)}, (1, len(names)))
    patches = [name for name in names if "," in name]
    rows = int(patches[-1].split(",")[0]) if patches else 0
    grid = (rows, len(patches) // rows) if patches else None
    special = [bool(patches) and "," not in name for name in names]
    return NamedBatch(batch, {"source": names}, {"source": special}, grid)
