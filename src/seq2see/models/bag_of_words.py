"""Bag of words: an encoder without any layer, whose pooled vector is the mean of the embeddings.

The order of the words has no influence, and every word counts the same at first; training changes the embeddings. With
few examples this is often better than an encoder with layers, which has more to learn (Joulin et al. 2017, fastText).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt
from torch import nn

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.layers.masks import masked_mean, zero_padding
from seq2see.models.encoder_model import EncoderOutput


class BagOfWordsSettings(Settings):
    """A bag of words: the mean of the embeddings, without any layer (Joulin et al. 2017)."""

    kind: Literal["bag-of-words"] = "bag-of-words"
    width: PositiveInt = 256
    """Width of the embeddings."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout rate of the embeddings."""


class BagOfWords(nn.Module):
    """The embeddings themselves, and their mean as the pooled vector."""

    def forward(self, vectors: Sequences) -> EncoderOutput:
        """The encoder output for the embedded source."""
        return EncoderOutput(zero_padding(vectors).values, vectors.lengths, masked_mean(vectors))
