"""The question "what is to be seen in this image?": from images in folders to a label.

Compare `classify.py`, which asks the same of texts: only what is read differs.
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
    write_answer_table,
)
from seq2see.runs.tracing import NamedBatch
from seq2see.sequences.image_dataset import ImageDataset, ImageProcessor
from seq2see.sources.captioned_images import CaptionedImages
from seq2see.sources.examples import Example
from seq2see.sources.image_examples import ImageExamples

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe


class ImageClassification(TextClassification):
    """Name the label of an image."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """The labels in the order of the alphabet."""
        assert isinstance(recipe.source, ImageSource)
        if isinstance(train, CaptionedImages):
            hint = "Take images with labels: corpus.name=cifar10, or your own."
            raise UserError("These images have captions, and no labels.", hint=hint)
        labels = sorted({example.target for example in train})
        if len(labels) < 2:
            raise UserError(
                f"All training images have the label {labels[0]!r}.",
                hint="Give images of other labels too, each in a folder of its own.",
            )
        pixels = ImageProcessor(recipe.source.image_size, recipe.source.channels)
        return Tokenizers(pixels, pixels, tuple(labels))

    def encode(self, recipe: Recipe, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Pixels and the numbers of labels, where the model is."""
        assert isinstance(examples, ImageExamples)
        return ImageDataset(examples, tokenizers.labels, pick_device())

    def sample_examples(self, dataset: Any, count: int) -> Any:
        """The first images."""
        return dataset.examples[:count]

    def preprocess(self, stored: StoredModel, text: Any) -> EncodedInput:
        """An image file, or pixels (height, width, channel)."""
        eyes, image = stored.tokenizers.source, stored.config.model.source
        assert isinstance(eyes, ImageProcessor)
        assert isinstance(image, ImageSource)
        pixels, warnings = eyes.preprocess(text)
        height, width = pixels.shape[-2:]
        down, across = image.nearest_image_size(height), image.nearest_image_size(width)
        if (down, across) != (height, width):
            pixels = eyes.resize(pixels, down, across)
            why = "the size that was learned" if isinstance(image, VideoSource) else "which are whole patches"
            warnings += (f"it is seen in {across} x {down} pixels, {why}, not in {width} x {height}",)
        name = "" if isinstance(text, np.ndarray) else str(text)
        return EncodedInput(name, [], False, warnings=warnings, pixels=pixels)

    def evaluate(
        self, stored: StoredModel, recipe: Recipe, splits: Splits, run: RunFolder, on_progress: ProgressCallback
    ) -> dict[str, Any]:
        """Accuracy, and for each label precision, recall and F1; every answer goes into a table.

        The recipe may be that of images in another size than the model has learned from.
        """
        scores: dict[str, Any] = {}
        for name, examples in splits.items():
            if name in DEVELOPMENT_SPLITS or not examples:
                continue
            assert isinstance(examples, ImageExamples)
            results = predict_all(self, stored, list(examples.pixels), top_k=1, on_progress=on_progress)
            confusion = ConfusionMatrix.of(stored.tokenizers.labels, examples.labels, [each.text for each in results])
            scores[name] = confusion_scores(confusion)
            write_answer_table(run.evaluation / f"{name}-answers.tsv", examples, results, "file")
            if name == "test":
                plot_confusion(confusion, run)
                draw_mistakes(run, examples, results)
                draw_patch_attention(run, stored, examples, results)
        return scores


MAX_PATCHES = 128**2
"""Each is compared with every other: ten times as many take a hundred times as long."""


def checked_image_size(image: ImageSource, side: Any) -> int:
    """A size that images can be seen in."""
    side = image.with_(image_size=side).image_size
    apart = image.frontend.size
    if apart > 1 and side > apart * MAX_PATCHES**0.5:
        what = f"{side} x {side} pixels are more than {MAX_PATCHES:,} patches of {apart} x {apart}."
        raise UserError(what, hint=f"Take a source.image_size of at most {int(apart * MAX_PATCHES**0.5):,}.")
    return side


def with_image_size(stored: StoredModel, side: int | None) -> StoredModel:
    """The model, looking at images in another size than it has learned from; None: in its own."""
    eyes = stored.tokenizers.source
    if side is None:
        return stored
    if not isinstance(eyes, ImageProcessor):
        raise UserError("Only images have a side.", hint="Leave out source.image_size.")
    image = stored.config.model.source
    assert isinstance(image, ImageSource)
    return replace(
        stored, tokenizers=replace(stored.tokenizers, source=eyes.with_size(checked_image_size(image, side)))
    )


def patch_names(settings: ModelSettings, pixels: NDArray[np.uint8]) -> list[str]:
    """What the places of an image's sequence are called: tokens of no place, and "row,column" of each patch.

    A video has frames, called by their numbers.
    """
    assert isinstance(settings.source, ImageSource)
    if isinstance(settings.source, VideoSource):
        return [str(number + 1) for number in range(len(pixels))]
    size = settings.source.frontend.size
    down, across = (side // size for side in pixels.shape[1:])
    return ["class", "taught"][: settings.prefix_tokens] + [
        f"{row + 1},{column + 1}" for row in range(down) for column in range(across)
    ]


def named_image_batch(settings: ModelSettings, pixels: NDArray[np.uint8], batch: Batch) -> NamedBatch:
    """An image, or a video, as a model reads it; only patches have a place in it, and frames lie in one line."""
    names = patch_names(settings, pixels)
    if isinstance(settings.source, VideoSource):
        return NamedBatch(batch, {"source": names}, {"source": [False] * len(names)}, (1, len(names)))
    patches = [name for name in names if "," in name]
    down = int(patches[-1].split(",")[0]) if patches else 0
    grid = (down, len(patches) // down) if patches else None
    special = [bool(patches) and "," not in name for name in names]
    return NamedBatch(batch, {"source": names}, {"source": special}, grid)
