"""Classifiers: read a text, sum it up in one vector, and name its class.

Any encoder goes: recurrent, windows (Kim 2014), Transformer. Started from a BERT that has learned to fill blanks, it has
less to learn (Devlin et al. 2019, section 4). Compare `bert.py`: the same reading, another question.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Images, Sequences
from seq2see.layers.dropout import Dropout
from seq2see.models.encoder_model import EncoderModel
from seq2see.models.heads import ClassificationHead


class Classifier(EncoderModel):
    """One answer a text, from a summary of it: by itself, the encoder's."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int):
        super().__init__(source, encoder, ClassificationHead(settings.width, classes))
        self.dropout = Dropout(settings.dropout)

    def hidden(self, batch: Batch) -> Sequences:
        """The summary of each text or image, as a row of one place."""
        assert batch.source is not None, "a classifier needs a text or an image"
        pooled = self.dropout(self.pooled(batch.source))
        return Sequences(pooled[:, None], torch.ones(len(pooled), dtype=torch.long, device=pooled.device))


class ClsClassifier(Classifier):
    """The summary is what the encoder made of <bos>, thought over once more: tanh(h W + b).

    So BERT has it (Devlin et al. 2019, section 3.1): <bos> is the same in every text, so all that it comes to know is
    of the others.
    """

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, classes: int):
        super().__init__(source, encoder, settings, classes)
        self.pooler = nn.Linear(settings.width, settings.width)

    def pooled(self, source: Sequences | Images) -> Float[Tensor, "row width"]:
        """What <bos> has come to know."""
        return self.pooler(self.encode(source).values[:, 0]).tanh()


CLASSIFIERS = {"encoder": Classifier, "cls": ClsClassifier}
