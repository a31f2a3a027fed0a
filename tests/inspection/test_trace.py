"""Watching changes nothing, sees everything, and leaves nothing behind."""

from __future__ import annotations

import pytest
import torch

from seq2see.core.batch import Batch, Sequences
from seq2see.inspection.trace import trace
from seq2see.layers.attention import Attention
from seq2see.layers.recurrent_attention import MemoryAttention
from tiny_models import FAMILIES, stirred

SOURCE, TARGET = [[3, 4, 5, 6, 2], [7, 8, 2]], [[1, 3, 4], [1, 5, 6]]


def batch() -> Batch:
    labels = torch.tensor([[3, 4, 2], [5, 6, 2]])
    return Batch(Sequences.of(SOURCE), Sequences.of(TARGET), labels, torch.arange(2))


def looks_across(name: str) -> bool:
    return getattr(FAMILIES[name].decoder, "look", "") not in ("first-state", "every-step")


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_traced_model_gives_the_same_answer_bit_for_bit(name: str):
    model = stirred(FAMILIES[name])
    before = model(batch())
    with trace(model) as maps:
        watched = model(batch())
    assert torch.equal(before, watched)
    assert torch.equal(before, model(batch()))
    assert any(each.across for each in maps) == looks_across(name)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_nothing_is_watched_any_more_afterwards(name: str):
    model = stirred(FAMILIES[name])
    with pytest.raises(RuntimeError, match="in the middle"), trace(model) as maps:
        raise RuntimeError("in the middle")
    assert maps == []
    layers = [layer for layer in model.modules() if isinstance(layer, Attention | MemoryAttention)]
    assert all(layer.probe is None for layer in layers)


@pytest.mark.parametrize("name", [name for name in FAMILIES if looks_across(name)])
@torch.no_grad()
def test_weights_are_shares_of_the_real_source(name: str):
    with trace(model := stirred(FAMILIES[name])) as maps:
        model(batch())
    for each in maps:
        if each.across:
            assert each.weights.shape[0::2] == (2, 3)
            torch.testing.assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:3]))
            assert (each.weights[1, :, :, 3:] == 0).all()


@pytest.mark.parametrize("name", [name for name in FAMILIES if looks_across(name)])
@torch.no_grad()
def test_stepping_shows_the_same_look_across_as_reading(name: str):
    """Three steps are joined to the map that one pass over all three tokens shows."""
    model = stirred(FAMILIES[name])
    with trace(model) as read:
        model(batch())
    state = model.start(Sequences.of(SOURCE), 2, 3)
    with trace(model) as stepped:
        for time in range(3):
            _, state = model.step(torch.tensor(TARGET)[:, time : time + 1], state)
    read, stepped = ([each for each in maps if each.across] for maps in (read, stepped))
    assert [each.name for each in read] == [each.name for each in stepped]
    for one, other in zip(read, stepped, strict=True):
        torch.testing.assert_close(one.weights, other.weights, atol=1e-5, rtol=1e-5)
