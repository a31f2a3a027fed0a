"""Dropout with cheap coins: how many numbers fall out, which, and that it is the dropout everybody knows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seq2see.layers.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_the_right_share_falls_out_and_the_rest_is_scaled_up(share):
    dropped = Dropout(share)(torch.full((400, 1000), 2.0))
    out = dropped == 0
    # 400,000 coins: the share is off by more than 5 standard deviations about once in a million times.
    assert out.double().mean().item() == pytest.approx(share, abs=5 * (share * (1 - share) / 400_000) ** 0.5)
    assert torch.allclose(dropped[~out], torch.tensor(2 / (1 - share)))


def test_coins_of_one_draw_are_independent():
    """Four coins come from one draw: neighbours fall out together as often as by chance."""
    out = (Dropout(0.5)(torch.ones(400_000)) == 0).view(-1, 4).double()
    together = (out.mT @ out) / len(out)
    assert torch.allclose(together, torch.full((4, 4), 0.25).double() + 0.25 * torch.eye(4), atol=0.01)
    along = out.flatten()
    assert (along[1:] * along[:-1]).mean().item() == pytest.approx(0.25, abs=0.005)
    assert (along[4:] * along[:-4]).mean().item() == pytest.approx(0.25, abs=0.005)


@given(st.lists(st.integers(0, 7), max_size=3), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_any_shape_and_kind_of_number(shape, dtype):
    numbers = torch.ones(shape, dtype=dtype)
    dropped = Dropout(0.5)(numbers)
    assert (dropped.shape, dropped.dtype) == (numbers.shape, dtype)
    assert torch.logical_or(dropped == 0, dropped == 2).all()


def test_the_seed_decides():
    numbers, layer, seen = torch.ones(50), Dropout(0.5), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        seen.append(layer(numbers))
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


def test_gradients_pass_where_numbers_passed():
    numbers = torch.ones(1000, requires_grad=True)
    dropped = Dropout(0.25)(numbers)
    dropped.sum().backward()
    assert torch.equal(numbers.grad, dropped.detach())


def test_nothing_falls_out_in_use_or_at_zero():
    numbers = torch.randn(20)
    assert Dropout(0.5).eval()(numbers) is numbers
    assert torch.equal(Dropout(0.0)(numbers), numbers)


def test_elsewhere_it_is_torchs_own(monkeypatch):
    seen = []
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, numbers: seen.append(numbers.device.type) or numbers)
    Dropout(0.5)(torch.empty(3, device="meta"))
    assert seen == ["meta"]
