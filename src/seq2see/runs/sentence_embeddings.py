"""Sentence embeddings: the pooled encoder output of a text, for every encoder-only model.

Models trained on masked tokens, labels or tags compute this vector too. Texts that the model considers similar have
embeddings with a high cosine similarity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.core.devices import device_of
from seq2see.core.errors import UserError
from seq2see.data.examples import Example
from seq2see.data.readers.lines import is_blank
from seq2see.models.embedding_model import normalized_embedding
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.image_settings import ImageSource
from seq2see.models.settings import Tags
from seq2see.runs.image_classification import ImageClassification
from seq2see.runs.model_folder import StoredModel
from seq2see.runs.model_tokenizers import Tokenizers
from seq2see.runs.task_protocols import BATCH_SIZE, EncodedInput, Splits, TaskResult, batch_of
from seq2see.runs.text_classification import TextClassification
from seq2see.runs.token_classification import TokenClassification

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

EmbeddingArray = NDArray[np.float32]


class SentenceEmbedding(TextClassification):
    """A pretrained encoder without a head: it has the inputs of a classifier, and no labels."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Not available: such a model is not trained."""
        raise _no_head()

    def preprocess(self, stored: StoredModel, text: Any) -> EncodedInput:
        """Encode a text or an image."""
        if isinstance(stored.config.model.source, ImageSource):
            return ImageClassification().preprocess(stored, text)
        return super().preprocess(stored, text)

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """Not available: there are no labels."""
        raise _no_head()

    def size(self, splits: Splits) -> int:
        """Not available: there are no scores."""
        raise _no_head()


@torch.inference_mode()
def embed_texts(
    stored: StoredModel, texts: Sequence[str], on_progress: Callable[[int], Any] = lambda count: None
) -> EmbeddingArray:
    """(text, width): the embedding of each text, of length 1; zeros for an empty text.

    For an image model, the texts are names of image files.
    """
    if not isinstance(stored.module, EncoderModel):
        raise UserError("Only encoder-only models give sentence embeddings; this is a generative model.")
    device, task = device_of(stored.module), _input_task(stored)
    inputs = {index: task.preprocess(stored, text) for index, text in enumerate(texts) if not is_blank(text)}
    assert stored.config.model.encoder is not None
    vectors = getattr(getattr(stored.module, "pooling", None), "vector_count", 1)
    embeddings = np.zeros((len(texts), vectors * stored.config.model.encoder.width), np.float32)
    by_length = sorted(inputs, key=lambda index: len(inputs[index].ids))
    for start in range(0, len(by_length), BATCH_SIZE):
        indices = by_length[start : start + BATCH_SIZE]
        source = batch_of([inputs[index] for index in indices]).to(device).source
        assert source is not None
        embeddings[indices] = normalized_embedding(stored.module, source).float().cpu().numpy()
        on_progress(len(indices))
    return embeddings


def _input_task(stored: StoredModel) -> TextClassification:
    """The task whose `preprocess` encodes the inputs of a model."""
    if isinstance(stored.config.model.source, ImageSource):
        return ImageClassification()
    is_tagger = isinstance(stored.config.model.target, Tags)  # its inputs are words
    return TokenClassification() if is_tagger else TextClassification()


def cosine_similarities(embeddings: EmbeddingArray) -> EmbeddingArray:
    """(text, text): the cosine similarities of embeddings of length 1.

    >>> cosine_similarities(np.array([[1, 0], [0.6, 0.8]], np.float32)).round(2).tolist()
    [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    return embeddings @ embeddings.T


def _no_head() -> UserError:
    return UserError(
        "This model has no head: it gives embeddings of texts or images, but no predictions.",
        hint='Compute embeddings with `seq2see embed FOLDER "a text" "another text"`, or name image files.',
    )
