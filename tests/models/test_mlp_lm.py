"""Window models by hand: what they compute, and how far back they see."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.core.settings import read_tree
from seq2see.models.mlp_lm import MLPDecoder, MLPDecoderSettings
from seq2see.models.settings import ModelSettings

WIDTH, TIME = 5, 11


def decoder(**changes) -> MLPDecoder:
    torch.manual_seed(3)
    return MLPDecoder(MLPDecoderSettings(**{"width": WIDTH, "tau": 3, "hidden": 7, "dropout": 0.5} | changes)).eval()


def vectors(rows: int = 2) -> Sequences:
    values = torch.randn(rows, TIME, WIDTH, generator=torch.Generator().manual_seed(1))
    return Sequences(values, torch.full((rows,), TIME))


@torch.no_grad()
def test_without_hidden_layers_it_is_one_product_of_the_last_tau_vectors_oldest_first():
    model, given = decoder(depth=0), vectors()
    time = 6
    window = torch.cat([given.values[1, time - 2], given.values[1, time - 1], given.values[1, time]])
    by_hand = model.output.weight @ window + model.output.bias
    torch.testing.assert_close(model(given)[1, time], by_hand)
    assert not list(model.layers)


@torch.no_grad()
def test_a_hidden_layer_is_a_tanh_of_a_product():
    model, given = decoder(depth=1), vectors()
    layer = model.layers[0].project
    hidden = torch.tanh(layer.weight @ given.values[0, 2:5].flatten() + layer.bias)
    torch.testing.assert_close(model(given)[0, 4], model.output.weight @ hidden + model.output.bias)
    assert len(decoder(depth=3).layers) == 3


@torch.no_grad()
def test_before_the_beginning_stand_zeros():
    model, given = decoder(depth=1), vectors()
    padded = Sequences(torch.cat([torch.zeros(2, 2, WIDTH), given.values], dim=1), given.lengths + 2)
    torch.testing.assert_close(model(padded)[:, 2:], model(given))


@pytest.mark.parametrize("tau", [1, 3, 4])
@torch.no_grad()
def test_it_sees_exactly_tau_vectors(context):
    model, given = decoder(context=context), vectors()
    before = model(given)
    for time in range(TIME):
        changed = given.values.clone()
        changed[:, time] += 1
        moved = (model(Sequences(changed, given.lengths)) - before).abs().amax(dim=(0, 2)) > 1e-6
        assert moved.nonzero().flatten().tolist() == list(range(time, min(time + context, TIME)))


@torch.no_grad()
def test_its_state_never_grows():
    model, given = decoder(context=4), vectors()
    state = model.start(None, 2, TIME)
    for time in range(TIME):
        _, state = model.step(given.values[:, time : time + 1], state)
        assert state.past.shape == (2, 3, WIDTH)
    torch.testing.assert_close(state.past, given.values[:, -3:])


def test_dropout_works_in_training_only():
    model, given = decoder(depth=1), vectors()
    assert torch.equal(model(given), model(given))
    model.train()
    assert not torch.equal(model(given), model(given))


def test_a_window_cannot_look_at_a_source():
    tree = {"source": {}, "encoder": {"kind": "transformer"}, "decoder": {"kind": "window"}}
    with pytest.raises(UserError, match="a window decoder cannot look at a source"):
        read_tree(ModelSettings, tree)
