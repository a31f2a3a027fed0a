"""Objectives of speech recognizers: CTC, a transducer, and CTC together with a decoder.

Losses are sums over the rows, as in `objectives.py`. The labels of a batch end with <eos>, which is removed for CTC and
transducers: there the output ends with the last frame. The recursions over frames and labels are in `layers/`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.core.settings import Settings
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.training.objectives import PLAIN, CrossEntropy, NextToken
from seq2see.training.scheduled_sampling import TeacherForcing

Labels = Int[Tensor, "row position"]


def without_eos(labels: Labels) -> Sequences:
    """The labels of each row up to its <eos>, which every row has.

    >>> without_eos(torch.tensor([[7, 8, 2], [9, 2, -100]])).lengths.tolist()
    [2, 1]
    """
    return Sequences(labels[:, :-1], ((labels != IGNORE_INDEX) & (labels != EOS)).sum(1))


def summed(losses: Float[Tensor, "row"], labels: Labels) -> Float[Tensor, ""]:
    """The sum over the rows with labels; padding rows of a batch have no label, not even <eos>."""
    return torch.where((labels != IGNORE_INDEX).any(1), losses, 0).sum()


class CTC(Settings):
    """CTC: -log of the probability of the labels at any times (Graves et al. 2006)."""

    kind: Literal["ctc"] = "ctc"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()  # without a decoder

    def loss(
        self, hidden: Sequences, head: Any, labels: Labels, cross_entropy: CrossEntropy = PLAIN
    ) -> Float[Tensor, ""]:
        """The summed loss of all rows."""
        scores = head(hidden.values).float().log_softmax(-1)
        return summed(head.loss(scores, hidden.lengths, without_eos(labels)), labels)


class TransducerLikelihood(Settings):
    """A transducer: -log of the probability of the labels at any times; each label depends on those before it."""

    kind: Literal["transducer"] = "transducer"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()

    def loss(self, hidden: Any, head: Any, labels: Labels, cross_entropy: CrossEntropy = PLAIN) -> Float[Tensor, ""]:
        """The summed loss of all rows; `hidden` includes the `predictions` of the prediction network."""
        scores = head(hidden.values, hidden.predictions).float().log_softmax(-1)
        return summed(head.loss(scores, hidden.lengths, without_eos(labels)), labels)


class CTCAttention(Settings):
    """λ · CTC + (1 - λ) · cross-entropy of the decoder (Watanabe et al. 2017); λ is part of the head."""

    kind: Literal["ctc-attention"] = "ctc-attention"
    copies: ClassVar[int] = 1
    feeding: ClassVar[TeacherForcing] = TeacherForcing()
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    """Label smoothing of the decoder."""

    def loss(self, hidden: Any, head: Any, labels: Labels, cross_entropy: CrossEntropy = PLAIN) -> Float[Tensor, ""]:
        """The summed loss; `hidden` includes the encoder output as `memory`."""
        next_token = NextToken(label_smoothing=self.label_smoothing)
        decoder_loss = next_token.loss(hidden, head.tokens, labels, cross_entropy)
        return head.ctc_weight * CTC().loss(hidden.memory, head.ctc, labels) + (1 - head.ctc_weight) * decoder_loss
