"""What is left of a word is what the equations say, and a context vector is the one that was passed on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.recurrent_memory import (
    FixedContext,
    _compared,
    compare_contexts,
    disable_attention,
    memory_retention,
    to_double,
)
from seq2see.inspection.trace import trace
from seq2see.layers.recurrent_cells import RecurrentCell
from tiny_models import FAMILIES, perturbed_model

RECURRENT = [name for name in FAMILIES if name.startswith("recurrent,")]
LOOKING = [name for name in RECURRENT if FAMILIES[name].decoder.attention not in ("none", "context-vector")]


def batch() -> Batch:
    labels = torch.tensor([[3, 4, 5, 2]])
    return Batch(Sequences.of([[3, 4, 5, 6, 7, 2]]), Sequences.of([[1, 3, 4, 5]]), labels, torch.arange(1))


def cells(model) -> list[str]:
    return [name for name, part in model.named_modules() if isinstance(part, RecurrentCell)]


@pytest.mark.parametrize("name", RECURRENT)
def test_every_way_is_one_at_the_word_and_nothing_is_left_where_it_was_not_read_yet(name: str):
    model = to_double(perturbed_model(FAMILIES[name]))
    for cell in cells(model):
        found = memory_retention(model, batch(), cell, 2)
        np.testing.assert_allclose(found[:, 2], 1, atol=1e-6)
        if cell.endswith(".0"):  # a second layer of both directions knows what comes later
            unread = found[:2, 3:] if ".back." in cell else found[:2, :2]
            assert (unread == 0).all(), cell
            assert (found[:2, :2] if ".back." in cell else found[:2, 3:]).all(), cell


def test_the_derivative_is_the_product_of_those_of_all_steps():
    """For the plain cell: dh_t = diag(1 - h²) W_h dh_(t-1), begun with diag(1 - h²) W_x x."""
    model = to_double(perturbed_model(FAMILIES["recurrent, first state"]))
    cell = model.encoder.stack.cells[0]
    vectors = model.source(batch().source).values
    with torch.no_grad():
        hidden, _ = cell.unroll_eagerly(vectors, cell.initial_state(1, vectors))
        weight, back, *_ = cell.rnn.all_weights[0]
        tangent, sizes = None, []
        for time in range(1, 6):
            step = vectors[0, 1] @ weight.T if tangent is None else tangent @ back.T
            tangent = (1 - hidden[0, time] ** 2) * step
            sizes.append(float(tangent.norm()))
    found = memory_retention(model, batch(), "encoder.stack.cells.0", 1)
    np.testing.assert_allclose(found[1, 1:], np.array(sizes) / sizes[0], rtol=1e-6)


def test_the_difference_is_that_to_a_text_with_nothing_in_the_words_place():
    model = to_double(perturbed_model(FAMILIES["recurrent, additive"]))
    cell = model.encoder.stack.forward_cells[0]
    vectors = model.source(batch().source).values.detach()
    blanked = vectors.clone()
    blanked[:, 0] = 0
    with torch.no_grad():
        one, other = (cell.unroll_eagerly(each, cell.initial_state(1, each))[0][0] for each in (vectors, blanked))
    expected = (one - other).norm(dim=-1)
    found = memory_retention(model, batch(), "encoder.stack.forward_cells.0", 0)
    np.testing.assert_allclose(found[0], (expected / expected[0]).numpy(), rtol=1e-6)
    np.testing.assert_allclose(found[2], torch.cosine_similarity(one, one[:1], dim=-1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["recurrent, every step", "recurrent, additive"])
def test_what_a_decoder_is_given_of_the_source_is_the_same_in_all_rows(name: str):
    """Its own states, by which it is like itself, are those of an ordinary pass."""
    model = to_double(perturbed_model(FAMILIES[name]))
    with trace(model, ("hidden",), part_names=("decoder.stack.cells.0",)) as seen, torch.no_grad():
        model(batch())
    own = seen.of("hidden")[0].values[0]
    found = memory_retention(model, batch(), "decoder.stack.cells.0", 1)
    np.testing.assert_allclose(found[2], torch.cosine_similarity(own, own[1:2], dim=-1).numpy(), rtol=1e-6)


def test_a_word_that_changes_nothing_leaves_nothing():
    assert not _compared(torch.zeros(4, 3, 2), 1)[:2].any()


def test_a_copy_is_made_in_double_and_the_model_stays_as_it_is():
    model = perturbed_model(FAMILIES["recurrent, additive"])
    kinds = [next(each.parameters()).dtype for each in (to_double(model), model)]
    assert kinds == [torch.float64, torch.float32]


@pytest.mark.parametrize("name", LOOKING)
@torch.no_grad()
def test_contexts_are_those_that_the_decoder_was_given(name: str):
    model = perturbed_model(FAMILIES[name])
    before = model(batch())
    found, given = compare_contexts(model, batch()), []
    watched = model.decoder.cross_attention.attention.attend
    model.decoder.cross_attention.attention.attend = lambda *asked: given.append(watched(*asked)[0]) or watched(*asked)
    assert torch.equal(model(batch()), before)
    np.testing.assert_allclose(found.attention_contexts, torch.cat(given, dim=1)[0].numpy(), atol=1e-6)
    np.testing.assert_array_equal(found.summary, model.encode(batch().source).pooled[0].numpy())
    right = before.softmax(-1)[0].gather(-1, batch().labels[0][:, None])[:, 0]
    np.testing.assert_allclose(found.with_attention, right.numpy(), atol=1e-6)
    assert np.abs(found.with_attention - found.without_attention).max() > 1e-3


@pytest.mark.parametrize("name", LOOKING)
@torch.no_grad()
def test_without_attention_every_step_gets_the_summary(name: str):
    model = perturbed_model(FAMILIES[name])
    blind = disable_attention(model)
    assert isinstance(blind.decoder.cross_attention.attention, FixedContext)
    assert not isinstance(model.decoder.cross_attention.attention, FixedContext)
    memory = blind.encode(batch().source)
    keys = blind.decoder.cross_attention.attention.project_keys(memory)
    query = torch.randn(1, 3, 8)
    context, weights = blind.decoder.cross_attention.attention.attend(query, keys, memory)
    torch.testing.assert_close(context, memory.pooled[:, None].expand(-1, 3, -1))
    torch.testing.assert_close(weights, torch.full((1, 3, 6), 1 / 6))
    short = blind.decoder.cross_attention.attention.attend(query, keys, replace(memory, lengths=torch.tensor([4])))[1]
    torch.testing.assert_close(short, torch.tensor([0.25] * 4 + [0.0] * 2).expand(1, 3, 6))
    assert {each.data_ptr() for each in blind.parameters()} == {each.data_ptr() for each in model.parameters()}
    assert not any(part.training for part in blind.decoder.cross_attention.attention.attention.modules())
    assert not torch.allclose(blind(batch()), model(batch()), atol=1e-4)
