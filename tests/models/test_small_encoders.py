"""Recurrent and convolutional encoders: what they hand on, and that padding does not change it."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.models.convolutional import GatedCNN, GatedCNNSettings
from seq2see.models.encoder_output import EncoderOutput
from seq2see.models.recurrent import CELLS, RecurrentEncoder, RecurrentEncoderSettings


def sources(lengths: tuple[int, ...] = (4, 2, 3)) -> Sequences:
    return Sequences(torch.randn(len(lengths), max(lengths), 7), torch.tensor(lengths))


def encoders() -> dict[str, torch.nn.Module]:
    built: dict[str, torch.nn.Module] = {}
    for cell in CELLS:
        for direction in ("forward", "both"):
            settings = RecurrentEncoderSettings(width=6, depth=2, cell=cell, bidirectional=direction == "both")
            built[f"{cell}-{direction}"] = RecurrentEncoder.from_settings(settings, input_width=7).eval()
    settings = GatedCNNSettings(width=6, depth=2)
    built["convolutional"] = GatedCNN.from_settings(settings, input_width=7).eval()
    return built


ENCODERS = list(encoders())


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_gives_a_memory_that_padding_does_not_change(name):
    encoder, vectors = encoders()[name], sources((4, 2, 3))
    memory = encoder(vectors)
    assert isinstance(memory, EncoderOutput)
    assert memory.values.shape == (3, 4, 6)
    assert memory.pooled.shape == (3, 6)
    more = torch.cat([vectors.values, torch.zeros(3, 3, 7)], dim=1)
    dirty = more.masked_fill(~Sequences(more, vectors.lengths).real[..., None], float("nan"))
    again = encoder(Sequences(dirty, vectors.lengths))
    assert_close(again.values[:, :4][memory.real], memory.unpad(), rtol=0, atol=1e-6)
    assert_close(again.pooled, memory.pooled, rtol=0, atol=1e-6)
    (again.unpad().sum() + again.pooled.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())
    alone = encoder(Sequences(vectors.values[1:2, :2], vectors.lengths[1:2]))
    assert_close(alone.values, memory.values[1:2, :2], rtol=0, atol=1e-6)
    assert_close(alone.pooled, memory.pooled[1:2], rtol=0, atol=1e-6)


def test_the_summary_of_a_forward_encoder_is_its_last_real_state():
    memory = encoders()["gru-forward"](sources((4, 2, 3)))
    assert_close(memory.pooled, torch.stack([memory.values[0, 3], memory.values[1, 1], memory.values[2, 2]]))


def test_the_summary_of_an_encoder_in_both_directions_takes_each_where_it_has_read_all():
    memory = encoders()["gru-both"](sources((4, 2, 3)))
    ahead = torch.stack([memory.values[0, 3], memory.values[1, 1], memory.values[2, 2]])[:, :3]
    assert_close(memory.pooled, torch.cat([ahead, memory.values[:, 0, 3:]], dim=-1))


def test_the_summary_of_a_convolutional_encoder_is_the_mean_of_real_places():
    memory = encoders()["convolutional"](sources((4, 2, 3)))
    assert_close(memory.pooled[1], memory.values[1, :2].mean(0))


def test_an_odd_width_cannot_be_shared_by_two_directions():
    with pytest.raises(UserError, match=r"width of 7.*bidirectional=false"):
        RecurrentEncoder.from_settings(RecurrentEncoderSettings(width=7))
