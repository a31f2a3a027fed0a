"""What is left of a word is what the equations say, and a context vector is the one that was passed on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.memories import OneContext, _compared, contexts, in_double, what_is_left, without_attention
from seq2see.inspection.trace import trace
from seq2see.layers.recurrent import Cell
from tiny_models import FAMILIES, stirred

RECURRENT = [name for name in FAMILIES if name.startswith("recurrent,")]
LOOKING = [name for name in RECURRENT if FAMILIES[name].decoder.look not in ("first-state", "every-step")]


def batch() -> Batch:
    labels = torch.tensor([[3, 4, 5, 2]])
    return Batch(Sequences.of([[3, 4, 5, 6, 7, 2]]), Sequences.of([[1, 3, 4, 5]]), labels, torch.arange(1))


def cells(model) -> list[str]:
    return [name for name, part in model.named_modules() if isinstance(part, Cell)]


@pytest.mark.parametrize("name", RECURRENT)
def test_every_way_is_one_at_the_word_and_nothing_is_left_where_it_was_not_read_yet(name: str):
    model = in_double(stirred(FAMILIES[name]))
    for cell in cells(model):
        found = what_is_left(model, batch(), cell, 2)
        np.testing.assert_allclose(found[:, 2], 1, atol=1e-6)
        if cell.endswith(".0"):  # a second layer of both directions knows what comes later
            unread = found[:2, 3:] if ".back." in cell else found[:2, :2]
            assert (unread == 0).all(), cell
            assert (found[:2, :2] if ".back." in cell else found[:2, 3:]).all(), cell


def test_the_derivative_is_the_product_of_those_of_all_steps():
    """For the plain cell: dh_t = diag(1 - h²) W_h dh_(t-1), begun with diag(1 - h²) W_x x."""
    model = in_double(stirred(FAMILIES["recurrent, first state"]))
    cell = model.encoder.reader.cells[0]
    vectors = model.source(batch().source).values
    with torch.no_grad():
        hidden, _ = cell.read_plainly(vectors, cell.first_state(1, vectors))
        weight, back, *_ = cell.kernel.all_weights[0]
        tangent, sizes = None, []
        for time in range(1, 6):
            step = vectors[0, 1] @ weight.T if tangent is None else tangent @ back.T
            tangent = (1 - hidden[0, time] ** 2) * step
            sizes.append(float(tangent.norm()))
    found = what_is_left(model, batch(), "encoder.reader.cells.0", 1)
    np.testing.assert_allclose(found[1, 1:], np.array(sizes) / sizes[0], rtol=1e-6)


def test_the_difference_is_that_to_a_text_with_nothing_in_the_words_place():
    model = in_double(stirred(FAMILIES["recurrent, additive"]))
    cell = model.encoder.reader.ahead[0]
    vectors = model.source(batch().source).values.detach()
    blanked = vectors.clone()
    blanked[:, 0] = 0
    with torch.no_grad():
        one, other = (cell.read_plainly(each, cell.first_state(1, each))[0][0] for each in (vectors, blanked))
    expected = (one - other).norm(dim=-1)
    found = what_is_left(model, batch(), "encoder.reader.ahead.0", 0)
    np.testing.assert_allclose(found[0], (expected / expected[0]).numpy(), rtol=1e-6)
    np.testing.assert_allclose(found[2], torch.cosine_similarity(one, one[:1], dim=-1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["recurrent, every step", "recurrent, additive"])
def test_what_a_decoder_is_given_of_the_source_is_the_same_in_all_rows(name: str):
    """Its own states, by which it is like itself, are those of an ordinary pass."""
    model = in_double(stirred(FAMILIES[name]))
    with trace(model, ("hidden",), only=("decoder.stack.cells.0",)) as seen, torch.no_grad():
        model(batch())
    own = seen.of("hidden")[0].values[0]
    found = what_is_left(model, batch(), "decoder.stack.cells.0", 1)
    np.testing.assert_allclose(found[2], torch.cosine_similarity(own, own[1:2], dim=-1).numpy(), rtol=1e-6)


def test_a_word_that_changes_nothing_leaves_nothing():
    assert not _compared(torch.zeros(4, 3, 2), 1)[:2].any()


def test_a_copy_is_made_in_double_and_the_model_stays_as_it_is():
    model = stirred(FAMILIES["recurrent, additive"])
    kinds = [next(each.parameters()).dtype for each in (in_double(model), model)]
    assert kinds == [torch.float64, torch.float32]


@pytest.mark.parametrize("name", LOOKING)
@torch.no_grad()
def test_contexts_are_those_that_the_decoder_was_given(name: str):
    model = stirred(FAMILIES[name])
    before = model(batch())
    found, given = contexts(model, batch()), []
    watched = model.decoder.look.attention.attend
    model.decoder.look.attention.attend = lambda *asked: given.append(watched(*asked)[0]) or watched(*asked)
    assert torch.equal(model(batch()), before)
    np.testing.assert_allclose(found.steps, torch.cat(given, dim=1)[0].numpy(), atol=1e-6)
    np.testing.assert_array_equal(found.summary, model.encode(batch().source).summary[0].numpy())
    right = before.softmax(-1)[0].gather(-1, batch().labels[0][:, None])[:, 0]
    np.testing.assert_allclose(found.told, right.numpy(), atol=1e-6)
    assert np.abs(found.told - found.without).max() > 1e-3


@pytest.mark.parametrize("name", LOOKING)
@torch.no_grad()
def test_without_attention_every_step_gets_the_summary(name: str):
    model = stirred(FAMILIES[name])
    blind = without_attention(model)
    assert isinstance(blind.decoder.look.attention, OneContext)
    assert not isinstance(model.decoder.look.attention, OneContext)
    memory = blind.encode(batch().source)
    keys = blind.decoder.look.attention.prepare(memory)
    query = torch.randn(1, 3, 8)
    context, weights = blind.decoder.look.attention.attend(query, keys, memory)
    torch.testing.assert_close(context, memory.summary[:, None].expand(-1, 3, -1))
    torch.testing.assert_close(weights, torch.full((1, 3, 6), 1 / 6))
    short = blind.decoder.look.attention.attend(query, keys, replace(memory, lengths=torch.tensor([4])))[1]
    torch.testing.assert_close(short, torch.tensor([0.25] * 4 + [0.0] * 2).expand(1, 3, 6))
    assert {each.data_ptr() for each in blind.parameters()} == {each.data_ptr() for each in model.parameters()}
    assert not any(part.training for part in blind.decoder.look.attention.attention.modules())
    assert not torch.allclose(blind(batch()), model(batch()), atol=1e-4)
