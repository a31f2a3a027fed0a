"""MLP language models by hand: what they compute, and the length of their context."""

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
    return MLPDecoder(
        MLPDecoderSettings(**{"width": WIDTH, "context": 3, "hidden": 7, "dropout": 0.5} | changes)
    ).eval()


def vectors(rows: int = 2) -> Sequences:
    values = torch.randn(rows, TIME, WIDTH, generator=torch.Generator().manual_seed(1))
    return Sequences(values, torch.full((rows,), TIME))


@torch.no_grad()
def test_without_hidden_layers_it_is_a_linear_function_of_the_last_vectors_oldest_first():
    model, inputs = decoder(depth=0), vectors()
    time = 6
    window = torch.cat([inputs.values[1, time - 2], inputs.values[1, time - 1], inputs.values[1, time]])
    by_hand = model.output.weight @ window + model.output.bias
    torch.testing.assert_close(model(inputs)[1, time], by_hand)
    assert not list(model.layers)


@torch.no_grad()
def test_a_hidden_layer_is_a_tanh_of_a_linear_layer():
    model, inputs = decoder(depth=1), vectors()
    layer = model.layers[0].project
    hidden = torch.tanh(layer.weight @ inputs.values[0, 2:5].flatten() + layer.bias)
    torch.testing.assert_close(model(inputs)[0, 4], model.output.weight @ hidden + model.output.bias)
    assert len(decoder(depth=3).layers) == 3


@torch.no_grad()
def test_the_context_before_the_beginning_is_zero():
    model, inputs = decoder(depth=1), vectors()
    padded = Sequences(torch.cat([torch.zeros(2, 2, WIDTH), inputs.values], dim=1), inputs.lengths + 2)
    torch.testing.assert_close(model(padded)[:, 2:], model(inputs))


@pytest.mark.parametrize("context", [1, 3, 4])
@torch.no_grad()
def test_the_output_depends_on_exactly_the_context(context):
    model, inputs = decoder(context=context), vectors()
    before = model(inputs)
    for time in range(TIME):
        changed = inputs.values.clone()
        changed[:, time] += 1
        difference = (model(Sequences(changed, inputs.lengths)) - before).abs().amax(dim=(0, 2)) > 1e-6
        assert difference.nonzero().flatten().tolist() == list(range(time, min(time + context, TIME)))


@torch.no_grad()
def test_the_state_does_not_grow():
    model, inputs = decoder(context=4), vectors()
    state = model.start(None, 2, TIME)
    for time in range(TIME):
        _, state = model.step(inputs.values[:, time : time + 1], state)
        assert state.past.shape == (2, 3, WIDTH)
    torch.testing.assert_close(state.past, inputs.values[:, -3:])


def test_dropout_acts_in_training_only():
    model, inputs = decoder(depth=1), vectors()
    assert torch.equal(model(inputs), model(inputs))
    model.train()
    assert not torch.equal(model(inputs), model(inputs))


def test_an_mlp_decoder_refuses_a_source():
    tree = {"source": {}, "encoder": {"kind": "transformer"}, "decoder": {"kind": "mlp"}}
    with pytest.raises(UserError, match=r"decoder\.kind=mlp cannot attend to a source"):
        read_tree(ModelSettings, tree)
