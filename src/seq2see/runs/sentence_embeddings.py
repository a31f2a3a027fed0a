"""Texts as vectors: what every model that reads can give, and all that one without a head can.

Whoever filled blanks, named labels or gave tags has summed texts up in a vector on the way. Texts that mean alike to
the model have vectors that point alike.
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
from seq2see.sources.examples import Example
from seq2see.sources.lines import is_blank

if TYPE_CHECKING:
    from seq2see.runs.recipe import Recipe

EmbeddingArray = NDArray[np.float32]


class SentenceEmbedding(TextClassification):
    """No question at all: the text is read as a classifier reads it, and there is nothing to answer."""

    def learn_tokenizers(self, recipe: Recipe, train: Sequence[Example]) -> Tokenizers:
        """Nothing teaches it."""
        raise _no_head()

    def preprocess(self, stored: StoredModel, text: Any) -> EncodedInput:
        """The text as numbers, or the image as pixels."""
        if isinstance(stored.config.model.source, ImageSource):
            return ImageClassification().preprocess(stored, text)
        return super().preprocess(stored, text)

    def postprocess(self, stored: StoredModel, inputs: EncodedInput, scores: Tensor, top_k: int) -> TaskResult:
        """There is nothing to say in words."""
        raise _no_head()

    def size(self, splits: Splits) -> int:
        """Nothing judges it."""
        raise _no_head()


@torch.inference_mode()
def embed_texts(
    stored: StoredModel, texts: Sequence[str], on_progress: Callable[[int], Any] = lambda count: None
) -> EmbeddingArray:
    """(text, width): the vector of each text, of length 1; an empty text has zeros, so that rows stay rows.

    Of a model that looks at images, the texts are the names of image files.
    """
    if not isinstance(stored.module, EncoderModel):
        raise UserError("Only a model that reads gives a vector for a text; this one writes.")
    device, reads = device_of(stored.module), _preprocessor(stored)
    inputs = {place: reads.preprocess(stored, text) for place, text in enumerate(texts) if not is_blank(text)}
    assert stored.config.model.encoder is not None
    side_by_side = getattr(getattr(stored.module, "pool", None), "vectors", 1)
    found = np.zeros((len(texts), side_by_side * stored.config.model.encoder.width), np.float32)
    by_length = sorted(inputs, key=lambda place: len(inputs[place].ids))
    for start in range(0, len(by_length), BATCH_SIZE):
        places = by_length[start : start + BATCH_SIZE]
        source = batch_of([inputs[place] for place in places]).to(device).source
        assert source is not None
        found[places] = normalized_embedding(stored.module, source).float().cpu().numpy()
        on_progress(len(places))
    return found


def _preprocessor(stored: StoredModel) -> TextClassification:
    """What turns a text, or an image, into what its model reads."""
    if isinstance(stored.config.model.source, ImageSource):
        return ImageClassification()
    return (
        TokenClassification() if isinstance(stored.config.model.target, Tags) else TextClassification()
    )  # who gives tags knows words alone


def cosine_similarities(vectors: EmbeddingArray) -> EmbeddingArray:
    """(text, text): the cosine of the angle between every two vectors of length 1.

    >>> likeness(np.array([[1, 0], [0.6, 0.8]], np.float32)).round(2).tolist()
    [[1.0, 0.6000000238418579], [0.6000000238418579, 1.0]]
    """
    return vectors @ vectors.T


def _no_head() -> UserError:
    return UserError(
        "This model has no head: it answers nothing, and gives a vector for a text or an image.",
        hint='Ask for vectors with `seq2see vectors FOLDER "a text" "another text"`, or name images.',
    )
