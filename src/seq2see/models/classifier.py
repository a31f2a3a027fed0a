"""Classifiers: read a text, sum it up in one vector, and name its class.

Any encoder goes: recurrent, windows (Kim 2014), Transformer. Started from a BERT that has learnt to fill blanks, it has
less to learn (Devlin et al. 2019, section 4). Compare `bert.py`: the same reading, another question.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.batch import Batch, Pictures, Sequences
from seq2see.layers.dropout import Dropout
from seq2see.models.heads import ClassHead
from seq2see.models.reader import Reader


class Classifier(Reader):
    """One answer a text, from a summary of it: by itself, the encoder's."""

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, answers: int):
        super().__init__(source, encoder, ClassHead(settings.width, answers))
        self.dropout = Dropout(settings.dropout)

    def hidden(self, batch: Batch) -> Sequences:
        """The summary of each text or picture, as a row of one place."""
        assert batch.source is not None, "a classifier needs a text or a picture"
        summary = self.dropout(self.summary(batch.source))
        return Sequences(summary[:, None], torch.ones(len(summary), dtype=torch.long, device=summary.device))


class FirstClassifier(Classifier):
    """The summary is what the encoder made of <bos>, thought over once more: tanh(h W + b).

    So BERT has it (Devlin et al. 2019, section 3.1): <bos> is the same in every text, so all that it comes to know is
    of the others.
    """

    def __init__(self, source: nn.Module, encoder: nn.Module, settings: Any, answers: int):
        super().__init__(source, encoder, settings, answers)
        self.sum_up = nn.Linear(settings.width, settings.width)

    def summary(self, source: Sequences | Pictures) -> Float[Tensor, "row width"]:
        """What <bos> has come to know."""
        return self.sum_up(self.encode(source).values[:, 0]).tanh()


CLASSIFIERS = {"encoder": Classifier, "first": FirstClassifier}
