"""The task of each kind of target."""

from __future__ import annotations

from seq2see.models.settings import (
    EmbeddingTarget,
    ImageLabel,
    Label,
    MaskedTokensNSPTarget,
    MaskedTokensTarget,
    ModelSettings,
    Series,
    Tags,
)
from seq2see.runs.fill_mask import FillMask, FillMaskNextSentence
from seq2see.runs.forecasting import Forecasting
from seq2see.runs.image_classification import ImageClassification
from seq2see.runs.sentence_embeddings import SentenceEmbedding
from seq2see.runs.task_protocols import EncoderTask, Task
from seq2see.runs.text_classification import TextClassification
from seq2see.runs.token_classification import TokenClassification

ENCODER_TASKS: dict[type, EncoderTask] = {
    MaskedTokensTarget: FillMask(),
    MaskedTokensNSPTarget: FillMaskNextSentence(),
    Label: TextClassification(),
    ImageLabel: ImageClassification(),
    Tags: TokenClassification(),
    EmbeddingTarget: SentenceEmbedding(),
}
TASKS: dict[type, Task] = {**ENCODER_TASKS, Series: Forecasting()}


def encoder_task_of(settings: ModelSettings) -> EncoderTask:
    """The task of an encoder-only model."""
    return ENCODER_TASKS[type(settings.target)]


def task_of(settings: ModelSettings) -> Task:
    """The task of a model that does not generate text."""
    return TASKS[type(settings.target)]
