"""Objectives of speech recognizers: sums over the rows of a batch, of labels without <eos>; numbers by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from seq2see.core.batch import IGNORE_INDEX, Sequences
from seq2see.data.tokenizers.tokenizer import EOS
from seq2see.layers.ctc import CTCHead, CTCLoss
from seq2see.layers.transducer import TransducerLoss
from seq2see.models.ctc import CTCAttentionHead
from seq2see.training.objectives import NextToken
from seq2see.training.speech_objectives import CTC, CTCAttention, TransducerLikelihood, without_eos

A, B, TOKENS = 4, 5, 7
NONE = IGNORE_INDEX
LABELS = torch.tensor([[A, B, EOS], [B, EOS, NONE], [EOS, NONE, NONE], [NONE, NONE, NONE]])
"""Texts of two, one and no letters, and a row that fills the batch."""


class FramesHead(nn.Module):
    """A head whose hidden states are logits already."""

    def __init__(self, loss: nn.Module):
        super().__init__()
        self.loss = loss

    def forward(self, frames: torch.Tensor, predictions: torch.Tensor | None = None) -> torch.Tensor:
        return frames if predictions is None else frames[:, :, None] + predictions[:, None]


def uniform(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, TOKENS)


def test_labels_end_before_eos_and_an_empty_text_has_none():
    labels = without_eos(LABELS)
    assert labels.lengths.tolist() == [2, 1, 0, 0]
    assert labels.values[0].tolist() == [A, B]


def test_the_loss_of_ctc_is_that_of_all_paths_of_the_rows_with_labels():
    """Every path of three frames has the probability 7^-3; a b has 5 of them, b has 6, and the empty text has 1."""
    hidden = Sequences(uniform(4, 3), torch.tensor([3, 3, 3, 3]))
    loss = CTC().loss(hidden, FramesHead(CTCLoss()), LABELS)
    assert float((-loss).exp()) == pytest.approx(5 * 6 * 1 / 7**9, rel=1e-4)


def test_the_loss_of_a_transducer_is_that_of_all_paths_of_the_rows_with_labels():
    """A path of 2 frames and n labels has n + 2 steps; with 2, 1 and 0 labels there are 3, 2 and 1 paths."""
    hidden = SimpleNamespace(values=uniform(4, 2), lengths=torch.tensor([2, 2, 2, 2]), predictions=uniform(4, 3))
    loss = TransducerLikelihood().loss(hidden, FramesHead(TransducerLoss()), LABELS)
    assert float((-loss).exp()) == pytest.approx(3 * 2 * 1 / 7 ** (4 + 3 + 2), rel=1e-4)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
def test_the_weight_of_ctc_is_that_of_the_encoder(label_smoothing):
    logits = torch.randn(4, 3, TOKENS)
    memory = Sequences(torch.randn(4, 5, TOKENS), torch.tensor([5, 4, 3, 1]))
    ctc = CTCHead(TOKENS, TOKENS)
    ctc.project = nn.Identity()
    head = CTCAttentionHead(nn.Identity(), ctc, ctc_weight=0.2)
    hidden = SimpleNamespace(values=logits, lengths=torch.tensor([3, 2, 1, 1]), memory=memory)
    loss = CTCAttention(label_smoothing=label_smoothing).loss(hidden, head, LABELS)
    decoder = NextToken(label_smoothing=label_smoothing).loss(hidden, nn.Identity(), LABELS)
    assert float(loss) == pytest.approx(float(0.2 * CTC().loss(memory, ctc, LABELS) + 0.8 * decoder), rel=1e-5)
