"""Measures of memory agree with their equations, and recorded context vectors are those of the decoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.recurrent_memory import (
    FixedContext,
    _retention,
    compare_contexts,
    disable_attention,
    memory_retention,
    to_double,
)
from seq2see.inspection.trace import trace
from seq2see.layers.recurrent_cells import RecurrentCell
from tiny_models import FAMILIES, perturbed_model

RECURRENT = [name for name in FAMILIES if name.startswith("recurrent,")]
ATTENTIVE = [name for name in RECURRENT if FAMILIES[name].decoder.attention not in ("none", "context-vector")]


def batch() -> Batch:
    labels = torch.tensor([[3, 4, 5, 2]])
    return Batch(Sequences.of([[3, 4, 5, 6, 7, 2]]), Sequences.of([[1, 3, 4, 5]]), labels, torch.arange(1))


def cells(model) -> list[str]:
    return [name for name, part in model.named_modules() if isinstance(part, RecurrentCell)]


@pytest.mark.parametrize("name", RECURRENT)
def test_every_measure_is_one_at_the_word_and_zero_before_it_is_read(name: str):
    model = to_double(perturbed_model(FAMILIES[name]))
    for cell in cells(model):
        found = memory_retention(model, batch(), cell, 2)
        np.testing.assert_allclose(found[:, 2], 1, atol=1e-6)
        if cell.endswith(".0"):  # the second layer of a bidirectional encoder depends on later tokens
            is_backward = ".backward_cells." in cell
            unread = found[:2, 3:] if is_backward else found[:2, :2]
            assert (unread == 0).all(), cell
            assert (found[:2, :2] if is_backward else found[:2, 3:]).all(), cell


def test_the_derivative_is_the_product_of_the_jacobians():
    """For a vanilla RNN: dh_t = diag(1 - h²) W_h dh_(t-1), starting from diag(1 - h²) W_x x."""
    model = to_double(perturbed_model(FAMILIES["recurrent, first state"]))
    cell = model.encoder.stack.cells[0]
    vectors = model.source(batch().source).values
    with torch.no_grad():
        hidden, _ = cell.unroll_eagerly(vectors, cell.initial_state(1, vectors))
        input_weight, hidden_weight, *_ = cell.rnn.all_weights[0]
        tangent, norms = None, []
        for time in range(1, 6):
            step = vectors[0, 1] @ input_weight.T if tangent is None else tangent @ hidden_weight.T
            tangent = (1 - hidden[0, time] ** 2) * step
            norms.append(float(tangent.norm()))
    found = memory_retention(model, batch(), "encoder.stack.cells.0", 1)
    np.testing.assert_allclose(found[1, 1:], np.array(norms) / norms[0], rtol=1e-6)


def test_the_difference_is_that_to_a_text_with_a_zero_vector_for_the_word():
    model = to_double(perturbed_model(FAMILIES["recurrent, additive"]))
    cell = model.encoder.stack.forward_cells[0]
    vectors = model.source(batch().source).values.detach()
    zeroed = vectors.clone()
    zeroed[:, 0] = 0
    with torch.no_grad():
        states, ablated = (cell.unroll_eagerly(each, cell.initial_state(1, each))[0][0] for each in (vectors, zeroed))
    expected = (states - ablated).norm(dim=-1)
    found = memory_retention(model, batch(), "encoder.stack.forward_cells.0", 0)
    np.testing.assert_allclose(found[0], (expected / expected[0]).numpy(), rtol=1e-6)
    np.testing.assert_allclose(found[2], torch.cosine_similarity(states, states[:1], dim=-1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["recurrent, every step", "recurrent, additive"])
def test_a_decoder_has_the_same_encoder_output_in_all_rows(name: str):
    """Its states are those of an ordinary forward pass."""
    model = to_double(perturbed_model(FAMILIES[name]))
    with trace(model, ("hidden",), module_names=("decoder.stack.cells.0",)) as activations, torch.no_grad():
        model(batch())
    states = activations.of("hidden")[0].values[0]
    found = memory_retention(model, batch(), "decoder.stack.cells.0", 1)
    np.testing.assert_allclose(found[2], torch.cosine_similarity(states, states[1:2], dim=-1).numpy(), rtol=1e-6)


def test_a_word_without_influence_has_measures_of_zero():
    assert not _retention(torch.zeros(4, 3, 2), 1)[:2].any()


def test_the_copy_is_in_double_precision_and_the_model_does_not_change():
    model = perturbed_model(FAMILIES["recurrent, additive"])
    dtypes = [next(each.parameters()).dtype for each in (to_double(model), model)]
    assert dtypes == [torch.float64, torch.float32]


@pytest.mark.parametrize("name", ATTENTIVE)
@torch.no_grad()
def test_contexts_are_those_of_the_decoder(name: str):
    model = perturbed_model(FAMILIES[name])
    before = model(batch())
    found, contexts = compare_contexts(model, batch()), []
    attend = model.decoder.cross_attention.attention.attend
    model.decoder.cross_attention.attention.attend = lambda *inputs: (
        contexts.append(attend(*inputs)[0]) or attend(*inputs)
    )
    assert torch.equal(model(batch()), before)
    np.testing.assert_allclose(found.attention_contexts, torch.cat(contexts, dim=1)[0].numpy(), atol=1e-6)
    np.testing.assert_array_equal(found.fixed_context, model.encode(batch().source).pooled[0].numpy())
    expected = before.softmax(-1)[0].gather(-1, batch().labels[0][:, None])[:, 0]
    np.testing.assert_allclose(found.with_attention, expected.numpy(), atol=1e-6)
    assert np.abs(found.with_attention - found.without_attention).max() > 1e-3


@pytest.mark.parametrize("name", ATTENTIVE)
@torch.no_grad()
def test_without_attention_every_step_gets_the_pooled_vector(name: str):
    model = perturbed_model(FAMILIES[name])
    ablated = disable_attention(model)
    attention = ablated.decoder.cross_attention.attention
    assert isinstance(attention, FixedContext)
    assert not isinstance(model.decoder.cross_attention.attention, FixedContext)
    memory = ablated.encode(batch().source)
    keys = attention.project_keys(memory)
    query = torch.randn(1, 3, 8)
    context, weights = attention.attend(query, keys, memory)
    torch.testing.assert_close(context, memory.pooled[:, None].expand(-1, 3, -1))
    torch.testing.assert_close(weights, torch.full((1, 3, 6), 1 / 6))
    short = attention.attend(query, keys, replace(memory, lengths=torch.tensor([4])))[1]
    torch.testing.assert_close(short, torch.tensor([0.25] * 4 + [0.0] * 2).expand(1, 3, 6))
    assert {each.data_ptr() for each in ablated.parameters()} == {each.data_ptr() for each in model.parameters()}
    assert not any(module.training for module in attention.attention.modules())
    assert not torch.allclose(ablated(batch()), model(batch()), atol=1e-4)
