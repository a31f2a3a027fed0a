"""caption and caption-video: a text about an image or a video (Vinyals et al. 2015; Venugopalan et al. 2015).

The encoder reads patches or frames, the decoder generates the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.core.devices import pick_device
from seq2see.core.settings import OpenKinds
from seq2see.data.augmentation import Augmentation
from seq2see.data.catalogue.catalogue import CatalogueImages
from seq2see.data.examples import Example, ImageExamples, short_name
from seq2see.data.generated.shapes import MovingShapesCorpus, ShapesCorpus
from seq2see.data.image_dataset import CaptionDataset, ImageProcessor, VideoProcessor
from seq2see.data.readers.data_report import DataReport
from seq2see.data.readers.user_images import UserCaptionedImages, UserCaptionedVideos
from seq2see.data.tokenizers.tokenizer import BOS, EOS, train_tokenizer
from seq2see.decoding.engine import Decoding
from seq2see.decoding.samplers import Hypothesis
from seq2see.models.image_settings import ImageSource, VideoSource
from seq2see.models.recurrent import RecurrentDecoderSettings, RecurrentEncoderSettings
from seq2see.models.settings import OWN_ENCODERS, ModelSettings, TextTarget
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.classify_image import (
    IMAGE_VIEWS,
    encode_image,
    gray_image,
    image_batches,
    image_size_text,
    named_image_batch,
    user_images,
    with_evaluation_size,
    with_image_size,
)
from seq2see.tasks.generative import GenerativeTask, evaluation_split, generate_splits, perplexity_scores
from seq2see.tasks.image_figures import batch_figure, frame_attention_figure, word_attention_figure
from seq2see.tasks.model import GenerationRequest, Model, NamedBatch, Prediction, TextAttention, trace_batch
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.report_parts import ReportSection, RunResults, figure_section
from seq2see.tasks.task import (
    BatchAt,
    Capture,
    EncodedInput,
    Evaluation,
    SplitProgress,
    Splits,
    error_context,
    plain,
    split_sizes,
)
from seq2see.tasks.text_scores import Metric
from seq2see.training.objectives import NextToken

CaptionDecoder = Annotated[TransformerSettings | RecurrentDecoderSettings, Field(discriminator="kind")]


class CaptionRecipe(Recipe):
    """A recipe of the task caption: an encoder of the image and a decoder of the text."""

    task: Literal["caption"] = "caption"
    corpus: Annotated[ShapesCorpus | UserCaptionedImages | CatalogueImages, Field(discriminator="kind")]
    """The source of the examples."""
    source: ImageSource = ImageSource()
    target: TextTarget = TextTarget()
    encoder: Annotated[
        TransformerSettings | RecurrentEncoderSettings, Field(discriminator="kind"), OpenKinds(OWN_ENCODERS)
    ]
    """The encoder of the image."""
    decoder: CaptionDecoder
    """The decoder of the text."""
    augmentation: Augmentation | None = None
    objective: NextToken = NextToken()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    """The metrics that an evaluation computes."""

    @model_validator(mode="after")
    def check_augmentation(self) -> CaptionRecipe:
        """Refuse mixed images, which have no caption, and batches of texts."""
        if self.augmentation is not None and (self.augmentation.mixup or self.augmentation.cutmix):
            raise ValueError("mixed images have no caption: set augmentation.mixup=0 and augmentation.cutmix=0")
        if self.training.batches != "bucketed":
            raise ValueError(f"{self.training.batches} batches are for texts: set training.batches=bucketed")
        return self


class CaptionVideoRecipe(Recipe):
    """A recipe of the task caption-video: an encoder of the frames and a decoder of the text."""

    task: Literal["caption-video"] = "caption-video"
    corpus: Annotated[MovingShapesCorpus | UserCaptionedVideos, Field(discriminator="kind")]
    """The source of the examples."""
    source: VideoSource = VideoSource()
    target: TextTarget = TextTarget()
    encoder: RecurrentEncoderSettings
    """The encoder of the frames."""
    decoder: CaptionDecoder
    """The decoder of the text."""
    objective: NextToken = NextToken()
    decoding: Decoding = Decoding(max_new_tokens=100)
    metrics: tuple[Metric, ...] = ("bleu", "chrf", "exact_match")
    """The metrics that an evaluation computes."""

    @model_validator(mode="after")
    def check_batches(self) -> CaptionVideoRecipe:
        """Refuse batches of texts."""
        if self.training.batches != "bucketed":
            raise ValueError(f"{self.training.batches} batches are for texts: set training.batches=bucketed")
        return self


class Caption(GenerativeTask):
    """A text about an image."""

    name: ClassVar[str] = "caption"
    recipe: ClassVar[type[Recipe]] = CaptionRecipe
    input_kind: ClassVar[str] = "image"
    input_name: ClassVar[str] = "the name of an image file"
    reads_files: ClassVar[bool] = True
    views: ClassVar[tuple[str, ...]] = (*IMAGE_VIEWS, "tokenize", "embeddings", "next-token", "decode")
    fixed_order: ClassVar[str] = "The tokens of this model cannot be reordered."
    attention_name: ClassVar[str] = "regions"
    """The name of the figure of the attention."""

    def family(self, settings: ModelSettings) -> str:
        """A captioning model."""
        return "caption"

    def corpus(self, paths: tuple[str, ...]) -> Any:
        """The user's own images with captions: a list of files and captions, or a folder that contains one."""
        return user_images(paths, UserCaptionedImages)

    def read(self, recipe: Any) -> tuple[Splits, list[DataReport]]:
        """The splits of the corpus, and the data reports of user files."""
        splits, reports = recipe.corpus.images(recipe.source.image_size, recipe.source.channels)
        return dict(splits), reports

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Learn the vocabulary of the captions, or take that of a pretrained model."""
        if pretrained is not None:
            return Tokenizers(self.processor(recipe.source), pretrained.tokenizers.target)
        captions = [caption for each in train for caption in each.all_references]
        return Tokenizers(self.processor(recipe.source), train_tokenizer(recipe.target.tokenizer, captions))

    def processor(self, source: Any) -> ImageProcessor:
        """The preprocessing of the inputs."""
        return ImageProcessor(source.image_size, source.channels)

    def dataset(self, recipe: Any, tokenizers: Tokenizers, examples: Sequence[Example]) -> CaptionDataset:
        """Pixels and captions, on the device of the model."""
        assert isinstance(examples, ImageExamples)
        return CaptionDataset(examples, tokenizers.target, recipe.target.max_tokens, pick_device())

    def batches(self, recipe: Any, dataset: Any, full: bool = False, capture: Capture = plain) -> BatchAt:
        """Batches of shuffled images, with augmentation."""
        return image_batches(recipe, dataset, capture)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of images, their size, and the size of the vocabulary."""
        size = recipe.source.image_size
        return f"{split_sizes(splits)} images of {size} x {size}; vocabulary {tokenizers.sizes[1]:,}"

    def first_input(self, batch: Batch, tokenizers: Tokenizers) -> tuple[str, str]:
        """The size of an image, or the number of frames of a video and their size."""
        return "image", image_size_text(batch)

    def batch_figure(self, batch: Batch, dataset: Any) -> Callable[[Path], Any]:
        """A function that draws the images of the first step."""
        return batch_figure(batch, dataset.examples)

    def describe_examples(self, dataset: Any, examples: Sequence[Example], indices: Sequence[int]) -> tuple[str, str]:
        """The unit of the examples of a batch, and the names of some of them, for an error message."""
        return "pairs", super().describe_examples(dataset, examples, indices)[1]

    def inputs(self, examples: Any) -> list[Any]:
        """The pixels of the images."""
        return list(examples.pixels)

    def example_input(self, settings: ModelSettings) -> Any:
        """A gray image."""
        return gray_image(settings.source)

    def without_paths(self, examples: ImageExamples) -> ImageExamples:
        """The images, each named by its folder and its file."""
        return replace(examples, names=tuple(map(short_name, examples.names)))

    def open(self, stored: StoredModel, engine: Any) -> Captioner:
        """The model, which decodes with this engine."""
        return Captioner(stored, engine, self)

    def adapt(self, recipe: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The recipe for an evaluation with another image size than in training."""
        return with_evaluation_size(recipe, settings)

    def evaluate(
        self, model: Model, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Metrics of the captions, perplexity, and the attention to the image."""
        evaluation = generate_splits(model, recipe, splits, on_progress, settings, language="en")
        split = evaluation_split(splits)
        evaluation.scores |= perplexity_scores(
            model.module, self.dataset(recipe, model.tokenizers, splits[split]), split
        )
        evaluation.figures |= self.attention_figures(model, splits["test"])
        return evaluation

    def sections(self, results: RunResults) -> list[ReportSection]:
        """The scores, the best and the worst captions, and the attention."""
        name = self.attention_name
        return [*super().sections(results), figure_section(results, f"attention/{name}.png", "attention", name)]

    def attention_figures(self, model: Model, examples: Any) -> dict[str, Any]:
        """The attention to the image for each word of a few captions."""
        return {"attention/regions.png": word_attention_figure(model, examples)}


class CaptionVideo(Caption):
    """A text about a video."""

    name: ClassVar[str] = "caption-video"
    recipe: ClassVar[type[Recipe]] = CaptionVideoRecipe
    input_kind: ClassVar[str] = "video"
    input_name: ClassVar[str] = "the name of a video file"
    views: ClassVar[tuple[str, ...]] = tuple(view for view in Caption.views if view != "positions")
    attention_name: ClassVar[str] = "frames"

    def family(self, settings: ModelSettings) -> str:
        """A captioning model of videos."""
        return "video"

    def corpus(self, paths: tuple[str, ...]) -> Any:
        """The user's own videos with captions: a list of animated images or folders of frames, and their captions."""
        return user_images(paths, UserCaptionedVideos)

    def read(self, recipe: Any) -> tuple[Splits, list[DataReport]]:
        """The splits of the corpus, and the data reports of user files."""
        source = recipe.source
        splits, reports = recipe.corpus.videos(source.image_size, source.channels, source.frames)
        return dict(splits), reports

    def processor(self, source: Any) -> ImageProcessor:
        """The preprocessing of the inputs."""
        return VideoProcessor(source.image_size, source.channels, source.frames)

    def summary(self, recipe: Any, tokenizers: Tokenizers, splits: Splits) -> str:
        """The number of videos, their size, and the size of the vocabulary."""
        size, frames = recipe.source.image_size, recipe.source.frames
        videos = f"{split_sizes(splits)} videos of {frames} frames of {size} x {size}"
        return f"{videos}; vocabulary {tokenizers.sizes[1]:,}"

    def attention_figures(self, model: Model, examples: Any) -> dict[str, Any]:
        """The words with the most attention to each frame of a few videos."""
        figure = frame_attention_figure(model, examples)
        return {"attention/frames.png": figure} if figure else {}


class Captioner(Model):
    """A trained captioning model: `model("photo.jpg").text`."""

    def predict(
        self,
        texts: Sequence[Any],
        *,
        prefix: str = "",
        seed: int = 0,
        indices: Sequence[int] | None = None,
        large_batch: bool = False,
        on_progress: Callable[[int], Any] = lambda count: None,
        **settings: Any,
    ) -> list[Prediction]:
        """Captions of many images (file names or pixels), in their order; `image_size` is the resolution."""
        inputs = self._encode_inputs(texts, settings.pop("image_size", None), indices)
        decoding, prefix_ids = self.config.decoding.with_(**settings), self.tokenizers.target.encode(prefix)
        numbers = range(len(texts)) if indices is None else indices
        results: dict[int, list[Hypothesis]] = {}
        by_size = sorted(range(len(inputs)), key=lambda index: inputs[index].size)
        for _, same_size in groupby(by_size, key=lambda index: inputs[index].size):
            group = list(same_size)
            images = [inputs[index].pixels for index in group]
            group_indices = [numbers[index] for index in group]
            request = GenerationRequest(images, group_indices, decoding, prefix_ids, seed, large_batch)
            results |= zip(group, self.engine.generate(request, on_progress), strict=True)
        return [self._caption(each, results[index]) for index, each in enumerate(inputs)]

    def _caption(self, inputs: EncodedInput, hypotheses: list[Hypothesis]) -> Prediction:
        outputs = self._outputs(inputs.text, [], hypotheses)
        return Prediction(
            inputs.text,
            outputs,
            False,
            lambda _, caption: self._caption_attention(inputs, caption),
            warnings=inputs.warnings,
        )

    def _encode_inputs(
        self, texts: Sequence[Any], image_size: int | None = None, indices: Sequence[int] | None = None
    ) -> list[EncodedInput]:
        stored, inputs = with_image_size(self.stored, image_size), []
        for index, text in enumerate(texts):
            with error_context(indices, index):
                inputs.append(encode_image(stored, text))
        return inputs

    def warnings(self, text: str) -> tuple[str, ...]:
        """Warnings about an image, for example that it was resized."""
        return self._encode_inputs([text])[0].warnings

    def stream(self, text: str, *, seed: int = 0, **settings: Any) -> Iterator[str]:
        """The caption, as a single chunk."""
        yield self.predict([text], seed=seed, **settings)[0].text

    def score(self, source: Any, target: str) -> float:
        """The log-probability of a given caption, <eos> included."""
        batch = self._caption_batch(self._encode_inputs([source])[0], target)
        with torch.inference_mode():
            scores = self.module(batch).float().log_softmax(-1)
        return float(scores[0].gather(-1, batch.labels[0][:, None]).sum())

    def named_batch(self, source: Any, target: str | None) -> NamedBatch:
        """An image and a caption (default: the generated one) as a batch of one, with teacher forcing."""
        target = self.predict([source])[0].text if target is None else target
        return self._named_batch(self._encode_inputs([source])[0], target)

    def _named_batch(self, inputs: EncodedInput, target: str) -> NamedBatch:
        assert inputs.pixels is not None
        batch, tokenizer = self._caption_batch(inputs, target), self.tokenizers.target
        assert batch.target is not None
        ids = {"target": (tokenizer, batch.target.values[0].tolist()), "labels": (tokenizer, batch.labels[0].tolist())}
        words, image = NamedBatch.of(batch, ids), named_image_batch(self.config.model, inputs.pixels, batch)
        return replace(image, tokens=image.tokens | words.tokens, special=image.special | words.special)

    def _caption_attention(self, inputs: EncodedInput, target: str) -> TextAttention:
        return TextAttention.of(trace_batch(self, self._named_batch(inputs, target)))

    def _caption_batch(self, inputs: EncodedInput, target: str) -> Batch:
        assert inputs.pixels is not None
        target_ids = [*self.tokenizers.target.encode(target), EOS]
        return Batch(
            source=Images.of(torch.from_numpy(np.ascontiguousarray(inputs.pixels))[None]),
            target=Sequences.of([[BOS, *target_ids[:-1]]]),
            labels=torch.tensor([target_ids]),
            indices=torch.zeros(1, dtype=torch.long),
        ).to(self.device)
