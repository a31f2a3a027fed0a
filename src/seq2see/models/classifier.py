"""Classifiers: an encoder, pooling to one vector, and a classification head.

Every encoder can be used: recurrent, TextCNN (Kim 2014), Transformer. Fine-tuning of a pretrained BERT needs less
training (Devlin et al. 2019, section 4). Compare `bert.py`: the same encoder with another head.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.layers.norms_and_dropout import Dropout
from seq2see.models.embeddings_and_heads import ClassificationHead
from seq2see.models.encoder_model import EncoderModel


class Classifier(EncoderModel):
    """One label per text from a pooled vector: here the one that the encoder returns."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int):
        super().__init__(source, encoder, ClassificationHead(settings.width, classes))
        self.dropout = Dropout(settings.dropout)

    def hidden(self, batch: Batch) -> Sequences:
        """The pooled vector of each text or image, as a sequence of length 1."""
        assert batch.source is not None, "a classifier needs a text or an image"
        pooled = self.dropout(self.pooled(batch.source))
        return Sequences(pooled[:, None], torch.ones(len(pooled), dtype=torch.long, device=pooled.device))


class ClsClassifier(Classifier):
    """A classifier with BERT's pooler: tanh(h W + b), where h is the hidden state of <bos>.

    Devlin et al. 2019, section 3.1 ([CLS]): <bos> is the same in every text, so its hidden state holds information
    about the other tokens alone.
    """

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int):
        super().__init__(source, encoder, settings, classes)
        self.pooler = nn.Linear(settings.width, settings.width)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """The pooler's output for <bos>."""
        return self.pooler(self.encode(source).values[:, 0]).tanh()


CLASSIFIERS = {"encoder": Classifier, "cls": ClsClassifier}
