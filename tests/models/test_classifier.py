"""Classifiers: one label per text from a pooled vector that ignores padding; TextCNN by hand."""

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
    "text-cnn": TextCNNSettings(width=WIDTH, dropout=0.0),
}


def batch(rows) -> Batch:
    return Batch(Sequences.of(rows), None, torch.zeros(len(rows), 1, dtype=torch.long), torch.arange(len(rows)))


@torch.no_grad()
@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_one_label_a_text_whatever_the_other_rows_and_the_padding_hold(encoder):
    settings = ModelSettings(
        source=Text(embedding=TokenEmbeddingSettings(positions="none")), target=Label(), encoder=encoder
    )
    model = fresh_model(settings, (23, 5), "xavier", 3).eval()
    together, alone = model(batch([[1, 5, 6, 7, 8, 9, 2], [1, 5, 6, 2]])), model(batch([[1, 5, 6, 2]]))
    assert together.shape == (2, 1, 5)
    torch.testing.assert_close(together[1], alone[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together[0], together[1], atol=1e-4)


@torch.no_grad()
def test_a_filter_is_applied_at_every_position_and_max_pooled():
    encoder = TextCNN(width=3)
    for convolution in encoder.convolutions:
        convolution.weight.zero_()
        convolution.bias.zero_()
    encoder.convolutions[0].weight[0, 0] = torch.tensor([1.0, 2.0, 3.0])  # of the first channel, over three positions
    values = torch.zeros(1, 6, 3)
    values[0, :4, 0] = torch.tensor([5.0, 1.0, 0.0, 2.0])
    values[0, 4:, 0] = 100.0  # padding, which must not be read
    memory = encoder(Sequences(values, torch.tensor([4])))
    assert memory.values[0, :, 0].tolist() == [2 * 5 + 3, 5 + 2, 1 + 3 * 2, 2 * 2, 0, 0]
    assert memory.pooled[0].tolist() == [13, 0, 0]


@torch.no_grad()
def test_an_even_kernel_reads_one_more_position_ahead_and_relu_removes_negative_values():
    encoder = TextCNN(width=3)
    for convolution in encoder.convolutions:
        convolution.weight.zero_()
        convolution.bias.fill_(-1.0)
    encoder.convolutions[1].weight[0, 0] = torch.tensor([1.0, 10.0, 100.0, 1000.0])  # over four positions
    values = torch.tensor([[[1.0, 0, 0], [2.0, 0, 0], [3.0, 0, 0]]])
    memory = encoder(Sequences(values, torch.tensor([3])))
    assert memory.values[0, :, 1].tolist() == [3210 - 1, 321 - 1, 32 - 1]
    assert memory.values[0, :, [0, 2]].count_nonzero() == 0
    assert memory.pooled[0].tolist() == [0, 3209, 0]


def test_kernel_sizes_share_the_filters():
    assert [each.out_channels for each in TextCNN(width=11).convolutions] == [4, 4, 3]
    assert [each.kernel_size for each in TextCNN(width=11).convolutions] == [(3,), (4,), (5,)]


@torch.no_grad()
def test_cls_pooling_has_a_dense_layer_with_tanh():
    settings = ModelSettings(source=Text(), target=Label(pooling="cls"), encoder=transformer(dropout=0.0))
    model, inputs = fresh_model(settings, (23, 5), "xavier", 3).eval(), batch([[1, 5, 6, 2]])
    first = model.encode(inputs.source).values[:, 0]
    expected = torch.tanh(first @ model.pooler.weight.mT + model.pooler.bias)
    torch.testing.assert_close(model(inputs)[:, 0], model.head(expected))
