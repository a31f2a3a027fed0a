"""Recurrent and convolutional encoders: their output, and that padding does not change it."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.models.bag_of_words import BagOfWords
from seq2see.models.convolutional import DilatedCNN, DilatedCNNSettings, GatedCNN, GatedCNNSettings
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.recurrent import CELLS, RecurrentEncoder, RecurrentEncoderSettings


def sources(lengths: tuple[int, ...] = (4, 2, 3)) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), 7), torch.tensor(lengths))


def encoders() -> dict[str, torch.nn.Module]:
    by_name: dict[str, torch.nn.Module] = {}
    for cell in CELLS:
        for bidirectional in (False, True):
            settings = RecurrentEncoderSettings(width=6, depth=2, cell=cell, bidirectional=bidirectional)
            by_name[f"{cell}-{'bidirectional' if bidirectional else 'forward'}"] = RecurrentEncoder.from_settings(
                settings, input_width=7
            ).eval()
    settings = GatedCNNSettings(width=6, depth=2)
    by_name["gated-cnn"] = GatedCNN.from_settings(settings, input_width=7).eval()
    by_name["dilated-cnn"] = DilatedCNN.from_settings(DilatedCNNSettings(width=7, depth=2)).eval()
    return by_name


ENCODERS = list(encoders())


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_does_not_change_the_output_of_any_encoder(name):
    encoder, vectors = encoders()[name], sources((4, 2, 3))
    memory = encoder(vectors)
    assert isinstance(memory, EncoderOutput)
    width = 7 if name == "dilated-cnn" else 6  # its width is that of its input
    assert memory.values.shape == (3, 4, width)
    assert memory.pooled.shape == (3, width)
    more = torch.cat([vectors.values, torch.zeros(3, 3, 7)], dim=1)
    dirty = more.masked_fill(~Sequences(more, vectors.lengths).valid[..., None], float("nan"))
    again = encoder(Sequences(dirty, vectors.lengths))
    assert_close(again.values[:, :4][memory.valid], memory.unpad(), rtol=0, atol=1e-6)
    assert_close(again.pooled, memory.pooled, rtol=0, atol=1e-6)
    (again.unpad().sum() + again.pooled.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
    alone = encoder(Sequences(vectors.values[1:2, :2], vectors.lengths[1:2]))
    assert_close(alone.values, memory.values[1:2, :2], rtol=0, atol=1e-6)
    assert_close(alone.pooled, memory.pooled[1:2], rtol=0, atol=1e-6)


def test_the_pooled_vector_of_a_bag_of_words_is_the_mean_of_the_embeddings_in_any_order():
    values = torch.tensor([[[1.0, 5.0], [3.0, 7.0], [8.0, 0.0]], [[2.0, 4.0], [float("nan")] * 2, [float("nan")] * 2]])
    memory = BagOfWords()(Sequences(values, torch.tensor([3, 1])))
    assert memory.pooled.tolist() == [[4, 4], [2, 4]]
    assert memory.values[1].tolist() == [[2, 4], [0, 0], [0, 0]]
    assert BagOfWords()(Sequences(values.flip(1)[:1], torch.tensor([3]))).pooled.tolist() == [[4, 4]]


def test_the_pooled_vector_of_a_forward_encoder_is_its_last_valid_state():
    memory = encoders()["gru-forward"](sources((4, 2, 3)))
    assert_close(memory.pooled, torch.stack([memory.values[0, 3], memory.values[1, 1], memory.values[2, 2]]))


def test_the_pooled_vector_of_a_bidirectional_encoder_is_the_final_state_of_each_direction():
    memory = encoders()["gru-bidirectional"](sources((4, 2, 3)))
    forward = torch.stack([memory.values[0, 3], memory.values[1, 1], memory.values[2, 2]])[:, :3]
    assert_close(memory.pooled, torch.cat([forward, memory.values[:, 0, 3:]], dim=-1))


def test_the_receptive_field_of_dilated_convolutions_is_that_of_the_documentation():
    settings = DilatedCNNSettings(width=7, depth=3)
    values = torch.randn(1, 61, 7, requires_grad=True)
    encoder = DilatedCNN.from_settings(settings).eval()
    output = encoder(Sequences(values, torch.tensor([61]))).values
    (grad,) = torch.autograd.grad(output[0, 30].square().sum(), values)
    covered = grad[0].abs().sum(-1).nonzero().flatten().tolist()
    field = 2 ** (settings.depth + 2) - 3
    assert covered == list(range(30 - field // 2, 30 + field // 2 + 1))


@pytest.mark.parametrize("name", ["gated-cnn", "dilated-cnn"])
def test_the_pooled_vector_of_a_convolutional_encoder_is_the_masked_mean(name):
    memory = encoders()[name](sources((4, 2, 3)))
    assert_close(memory.pooled[1], memory.values[1, :2].mean(0))


def test_an_odd_width_cannot_be_split_between_two_directions():
    with pytest.raises(UserError, match=r"width of 7.*bidirectional=false"):
        RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=7))
