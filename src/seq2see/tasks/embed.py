"""embed: the embeddings of texts or images, by pretrained weights without a head.

Models trained on masked tokens, labels or tags compute embeddings too: see `embed_texts` in `encoder_only.py`. Texts
that the model considers similar have embeddings with a high cosine similarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor

from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.tasks.classify_image import ClassifyImage
from seq2see.tasks.classify_text import ClassifyText
from seq2see.tasks.encoder_only import EmbeddingArray, TaskResult
from seq2see.tasks.model_folder import Recipe, StoredModel, Tokenizers
from seq2see.tasks.task import EncodedInput, Evaluation, SplitProgress, Splits


class EmbedRecipe(Recipe):
    """There are no recipes of the task embed: its models are pretrained."""

    task: Literal["embed"] = "embed"


class Embed(ClassifyText):
    """A pretrained encoder of texts without a head: it has the inputs of a classifier, and no labels."""

    name: ClassVar[str] = "embed"
    recipe: ClassVar[type[Recipe]] = EmbedRecipe
    views: ClassVar[tuple[str, ...]] = tuple(view for view in ClassifyText.views if view != "compare")
    predicts: ClassVar[bool] = False
    fixed_order: ClassVar[str] = "The tokens of this model cannot be reordered."

    def fit(self, recipe: Any, train: Sequence[Example], pretrained: StoredModel | None = None) -> Tokenizers:
        """Not available: such a model is not trained."""
        raise no_head()

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """Not available: there are no labels."""
        raise no_head()

    def size(self, splits: Splits) -> int:
        """Not available: there are no scores."""
        raise no_head()

    def evaluate(
        self, model: Any, recipe: Any, splits: Splits, on_progress: SplitProgress, settings: dict[str, Any]
    ) -> Evaluation:
        """Not available: there are no scores."""
        raise no_head()


class EmbedImageRecipe(Recipe):
    """There are no recipes of the task embed-image: its models are pretrained."""

    task: Literal["embed-image"] = "embed-image"


class EmbedImage(Embed):
    """A pretrained encoder of images without a head."""

    name: ClassVar[str] = "embed-image"
    recipe: ClassVar[type[Recipe]] = EmbedImageRecipe
    input_kind: ClassVar[str] = "image"
    input_name: ClassVar[str] = "the name of an image file"
    reads_files: ClassVar[bool] = True
    views: ClassVar[tuple[str, ...]] = tuple(view for view in ClassifyImage.views if view != "compare")
    family = ClassifyImage.family
    example_input = ClassifyImage.example_input
    encode = ClassifyImage.encode
    named_batch = ClassifyImage.named_batch
    with_settings = ClassifyImage.with_settings


def cosine_similarities(embeddings: EmbeddingArray) -> EmbeddingArray:
    """(text, text): the cosine similarities of embeddings of length 1.

    >>> import numpy as np
    >>> cosine_similarities(np.array([[1, 0], [0.6, 0.8]], np.float32)).round(2).tolist()
    [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    return embeddings @ embeddings.T


def no_head() -> UserError:
    """The error for what needs a head."""
    return UserError(
        "This model has no head: it gives embeddings of texts or images, but no predictions.",
        hint='Compute embeddings with `seq2see embed FOLDER "a text" "another text"`, or name image files.',
    )
