"""Classifiers: one answer a text, from a summary that padding does not touch; Kim's windows by hand."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.models.build import fresh_model
from seq2see.models.convolutional import TextCNN, TextCNNSettings
from seq2see.models.settings import Label, ModelSettings, Text, TokenEmbeddingSettings
from tiny_models import WIDTH, recurrent_encoder, transformer

ENCODERS = {
    "transformer": transformer(dropout=0.0),
    "gru": recurrent_encoder("gru"),
    "windows": TextCNNSettings(width=WIDTH, dropout=0.0),
}


def batch(rows) -> Batch:
    return Batch(Sequences.of(rows), None, torch.zeros(len(rows), 1, dtype=torch.long), torch.arange(len(rows)))


@torch.no_grad()
@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_one_answer_a_text_whatever_stands_beside_and_behind_it(encoder):
    settings = ModelSettings(
        source=Text(frontend=TokenEmbeddingSettings(positions="none")), target=Label(), encoder=encoder
    )
    model = fresh_model(settings, (23, 5), "xavier", 3).eval()
    together, alone = model(batch([[1, 5, 6, 7, 8, 9, 2], [1, 5, 6, 2]])), model(batch([[1, 5, 6, 2]]))
    assert together.shape == (2, 1, 5)
    torch.testing.assert_close(together[1], alone[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-4)


@torch.no_grad()
def test_a_pattern_is_looked_for_everywhere_and_its_best_place_counts():
    encoder = TextCNN(width=3)
    for window in encoder.convolutions:
        window.weight.zero_()
        window.bias.zero_()
    encoder.convolutions[0].weight[0, 0] = torch.tensor([1.0, 2.0, 3.0])  # of the first number, over three places
    values = torch.zeros(1, 6, 3)
    values[0, :4, 0] = torch.tensor([5.0, 1.0, 0.0, 2.0])
    values[0, 4:, 0] = 100.0  # behind the end: nobody may see it
    memory = encoder(Sequences(values, torch.tensor([4])))
    assert memory.values[0, :, 0].tolist() == [2 * 5 + 3, 5 + 2, 1 + 3 * 2, 2 * 2, 0, 0]
    assert memory.pooled[0].tolist() == [13, 0, 0]


@torch.no_grad()
def test_a_window_without_a_middle_sees_one_place_more_ahead_and_what_does_not_fit_counts_as_zero():
    encoder = TextCNN(width=3)
    for window in encoder.convolutions:
        window.weight.zero_()
        window.bias.fill_(-1.0)
    encoder.convolutions[1].weight[0, 0] = torch.tensor([1.0, 10.0, 100.0, 1000.0])  # over four places
    values = torch.tensor([[[1.0, 0, 0], [2.0, 0, 0], [3.0, 0, 0]]])
    memory = encoder(Sequences(values, torch.tensor([3])))
    assert memory.values[0, :, 1].tolist() == [3210 - 1, 321 - 1, 32 - 1]
    assert memory.values[0, :, [0, 2]].count_nonzero() == 0
    assert memory.pooled[0].tolist() == [0, 3209, 0]


def test_widths_share_the_patterns():
    assert [window.out_channels for window in TextCNN(width=11).convolutions] == [4, 4, 3]
    assert [window.kernel_size for window in TextCNN(width=11).convolutions] == [(3,), (4,), (5,)]


@torch.no_grad()
def test_the_summary_at_the_first_place_is_thought_over_once_more():
    settings = ModelSettings(source=Text(), target=Label(pooling="first"), encoder=transformer(dropout=0.0))
    model, asked = fresh_model(settings, (23, 5), "xavier", 3).eval(), batch([[1, 5, 6, 2]])
    first = model.encode(asked.source).values[:, 0]
    expected = torch.tanh(first @ model.pooler.weight.mT + model.pooler.bias)
    torch.testing.assert_close(model(asked)[:, 0], model.head(expected))
