"""Image classification: from images in folders to a predicted label.

Compare `classify_text.py`: only the inputs differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from seq2see.core.batch import Batch, Images
from seq2see.core.devices import pick_device
from seq2see.core.errors import UserError
from seq2see.core.settings import OpenKinds
from seq2see.data.augmentation import Augmentation
from seq2see.data.catalogue.catalogue import CatalogueImages
from seq2see.data.examples import Example, ImageExamples, short_name
from seq2see.data.generated.shapes import ShapesCorpus
from seq2see.data.image_dataset import ImageDataset, ImageProcessor, ShuffledSampler
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.user_images import CaptionedImages, UserImages
from seq2see.metrics.classification import ConfusionMatrix
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.resnet_encoder import ResNetSettings
from seq2see.models.settings import OWN_ENCODERS, ImageLabel, ModelSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.classify_text import (
    ClassifyText,
    EncoderOnlyRecipe,
    confusion_scores,
    draw_confusion_matrix,
    evaluated_splits,
    prediction_table,
)
from seq2see.tasks.encoder_only import predict_all
from seq2see.tasks.image_figures import batch_figure, mistake_figures, patch_attention_figure
from seq2see.tasks.model import NamedBatch
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.report_parts import ReportSection, RunResults, figure_section
from seq2see.tasks.task import BatchAt, Capture, EncodedInput, Evaluation, SplitProgress, Splits, plain, split_sizes

IMAGE_VIEWS = (
    "runs", "attention", "single-head", "recurrent", "vit", "positions", "compare", "mistakes", "architecture",
)  # fmt: skip
"""The views of the explorer that suit images."""


class ClassifyImageRecipe(EncoderOnlyRecipe):
    """A recipe of the task classify-image: an encoder of the image and a classifier."""

    task: Literal["classify-image"] = "classify-image"
    corpus: Annotated[ShapesCorpus | UserImages | CatalogueImages, Field(discriminator="kind")]
    """The source of the examples."""
    source: ImageSource = ImageSource()
    target: ImageLabel = ImageLabel()
    encoder: Annotated[TransformerSettings | ResNetSettings, Field(discriminator="kind"), OpenKinds(OWN_ENCODERS)]
    """The encoder of the image."""
    augmentation: Augmentation | None = None


class ClassifyImage(ClassifyText):
    """Predict the label of an image."""

    name: ClassVar[str] = "classify-image"
    recipe: ClassVar[type[Recipe]] = ClassifyImageRecipe
    input_kind: ClassVar[str] = "image"
    input_name: ClassVar[str] = "the name of an image file"
    reads_files: ClassVar[bool] = True
    unit: ClassVar[str] = "images"
    views: ClassVar[tuple[str, ...]] = IMAGE_VIEWS
    fixed_order: ClassVar[str] = "The tokens of this model cannot be reordered."

    def family(self, settings: ModelSettings) -> str:
        """A Vision Transformer, or the kind of another encoder."""
        assert settings.encoder is not None
        return "vit" if settings.encoder.kind == "transformer" else settings.encoder.kind

    def corpus(self, paths: tuple[str, ...]) -> Any:
        """The user's own images: a folder with one folder for each class, or a list."""
        return user_images(paths, UserImages)

    def read(self, recipe: Any) -> tuple[Splits, list[DataReport]]:
        """The splits of the corpus, and the data reports of user files."""
        splits, reports = recipe.corpus.images(recipe.source.image_size, recipe.source.channels)
        return dict(splits), reports

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Collect the labels, sorted alphabetically."""
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
        return Tokenizers(processor, processor, self.ordered_labels(labels, pretrained))

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> Any:
        """Pixels and label indices, on the device of the model."""
        assert isinstance(examples, ImageExamples)
        return ImageDataset(examples, tokenizers.labels, pick_device())

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of shuffled images, with augmentation."""
        return image_batches(recipe, dataset, capture)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of images, their size, and the number of labels."""
        size = recipe.source.image_size
        return f"{split_sizes(splits)} images of {size} x {size}; labels {tokenizers.sizes[1]:,}"

    def first_input(self, batch: Batch, tokenizers: Tokenizers) -> tuple[str, str]:
        """The size of an image, or the number of frames of a video and their size."""
        return "image", image_size_text(batch)

    def batch_figure(self, batch: Batch, dataset: Any) -> Callable[[Path], Any]:
        """A function that draws the images of the first step."""
        return batch_figure(batch, dataset.examples)

    def inputs(self, examples: Any) -> list[Any]:
        """The pixels of the images."""
        return list(examples.pixels)

    def example_input(self, settings: ModelSettings) -> Any:
        """A gray image."""
        return gray_image(settings.source)

    def without_paths(self, examples: ImageExamples) -> ImageExamples:
        """The images, each named by its folder and its file."""
        return replace(examples, names=tuple(map(short_name, examples.names)))

    def encode(self, stored: StoredModel, raw: Any) -> EncodedInput:
        """Load and resize an image: a file name, or pixels (height, width, channel)."""
        return encode_image(stored, raw)

    def with_settings(self, stored: StoredModel, settings: dict[str, Any]) -> StoredModel:
        """The model with another image size than in training."""
        return with_image_size(stored, settings.pop("image_size", None))

    def named_batch(self, stored: StoredModel, inputs: EncodedInput, batch: Batch) -> NamedBatch:
        """A batch of one with the names of its patches."""
        assert inputs.pixels is not None
        return named_image_batch(stored.config.model, inputs.pixels, batch)

    def adapt(self, recipe: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The recipe for an evaluation with another image size than in training."""
        return with_evaluation_size(recipe, settings)

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Accuracy, and precision, recall and F1 of each label; every prediction is a row of a table.

        The image size of the recipe may differ from that of training.
        """
        evaluation = Evaluation()
        for name, examples in evaluated_splits(splits):
            assert isinstance(examples, ImageExamples)
            progress = partial(on_progress, "test")
            results = predict_all(model, self.inputs(examples), top_k=1, on_progress=progress)
            confusion = ConfusionMatrix.of(model.tokenizers.labels, examples.labels, [each.text for each in results])
            evaluation.scores[name] = confusion_scores(confusion)
            evaluation.tables[f"{name}-predictions"] = prediction_table(examples, results, "file")
            if name == "test":
                evaluation.figures["eval/confusion.png"] = partial(draw_confusion_matrix, confusion)
                evaluation.figures |= mistake_figures(examples, results)
                attention = patch_attention_figure(model.stored, examples, results)
                evaluation.figures |= {"attention/patches.png": attention} if attention else {}
        return evaluation

    def mistakes(self, results: RunResults) -> list[ReportSection]:
        """The most common confusions, the most confident mistakes, and the attention to the patches."""
        return [
            figure_section(results, "eval/confused.png", "confused"),
            *self.mistaken_images(results),
            figure_section(results, "attention/patches.png", "attention", "patches"),
        ]

    def mistaken_images(self, results: RunResults) -> list[ReportSection]:
        """The most confident mistakes as images; of an evaluation without figures, as a table."""
        if "eval/mistakes.png" in results.figures:
            return [figure_section(results, "eval/mistakes.png", "mistakes", "worst_images")]
        return super().mistakes(results)


def image_size_text(batch: Batch) -> str:
    """The size of the images of a batch, or the number of frames of its videos and their size."""
    assert isinstance(batch.source, Images)
    *frames, channels, height, width = batch.source.values[0].shape
    video = f"{frames[0]} frames of " if frames else ""
    return f"{video}{height} x {width} pixels, {channels} channels"


def image_batches(recipe: Any, images: ImageDataset, capture: Capture) -> BatchAt:
    """The batch of every step, with augmentation."""
    seed, augmentation = recipe.training.seed, recipe.slot("augmentation") or Augmentation()
    augmenter = augmentation.augmenter(seed)
    sampler = ShuffledSampler(len(images), max(1, recipe.training.batch_size // augmenter.repeats), seed)
    augment = capture(augmenter)

    def batch_at(step: int) -> Batch:
        indices = augmenter.repeat_indices(sampler.indices_at(step - 1))
        batch = images.batch(indices, sampler.epoch_of(step - 1))
        return replace(augment(batch, torch.tensor(step)), indices=batch.indices)

    return batch_at


def user_images(paths: tuple[str, ...], kind: type[UserImages]) -> UserImages:
    """The corpus of one user folder of images; several folders would be ambiguous."""
    if len(paths) > 1:
        raise UserError(
            f"{len(paths)} image folders were given, but only one is allowed.",
            location=", ".join(paths),
            hint="Name one folder; set test images with --set corpus.test=FOLDER.",
        )
    return kind(paths=paths)


def with_evaluation_size(recipe: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The recipe with the image size of `settings`, from which it is removed, and that size as a score."""
    if "image_size" not in settings:
        return recipe, {}
    size = recipe.source.nearest_image_size(checked_image_size(recipe.source, settings.pop("image_size")))
    return recipe.with_(**{"source.image_size": size}), {"image": {"size": size}}


def encode_image(stored: StoredModel, raw: Any) -> EncodedInput:
    """Load and resize an image or a video: a file name, or pixels (height, width, channel)."""
    processor, image = stored.tokenizers.source, stored.config.model.source
    assert isinstance(processor, ImageProcessor)
    assert isinstance(image, ImageSource)
    pixels, warnings = processor.preprocess(raw)
    height, width = pixels.shape[-2:]
    new_height, new_width = image.nearest_image_size(height), image.nearest_image_size(width)
    if (new_height, new_width) != (height, width):
        pixels = processor.resize(pixels, new_height, new_width)
        reason = "the size of the training videos" if isinstance(image, VideoSource) else "a whole number of patches"
        warnings += (f"resized from {width} x {height} to {new_width} x {new_height} pixels, {reason}",)
    name = "" if isinstance(raw, np.ndarray) else str(raw)
    return EncodedInput(name, [], False, warnings=warnings, pixels=pixels)


def gray_image(source: Any) -> NDArray[np.uint8]:
    """A gray image, or a gray video, with the size of the training images."""
    frames = (source.frames,) if isinstance(source, VideoSource) else ()
    return np.full((*frames, source.image_size, source.image_size, source.channels), 128, dtype=np.uint8)


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
