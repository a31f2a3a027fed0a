"""Dropout with cheap coins: how many numbers fall out, which, and that it is the dropout everybody knows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seq2see.layers.dropout import Dropout, DropPath, EmbeddingDropout, VariationalDropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_the_right_share_falls_out_and_the_rest_is_scaled_up(share):
    dropped = Dropout(share)(torch.full((400, 1000), 2.0))
    out = dropped == 0
    # 400,000 coins: the share is off by more than 5 standard deviations about once in a million times.
    assert out.double().mean().item() == pytest.approx(share, abs=5 * (share * (1 - share) / 400_000) ** 0.5)
    assert torch.allclose(dropped[~out], torch.tensor(2 / (1 - share)))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_of_all_coins_there_are_exactly_the_share_falls_out(share, monkeypatch):
    coins = torch.arange(-(2**15), 2**15).short().view(torch.int64)
    monkeypatch.setattr(torch.Tensor, "random_", lambda draws, *_: draws.copy_(coins))
    assert (Dropout(share)(torch.ones(2**16)) == 0).sum() == round(share * 2**16)


def test_coins_of_one_draw_are_independent():
    """Four coins come from one draw: neighbors fall out together as often as by chance."""
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


def test_elsewhere_and_in_what_is_compiled_it_is_torchs_own(monkeypatch):
    seen = []
    monkeypatch.setattr(nn.Dropout, "forward", lambda self, numbers: seen.append(numbers.device.type) or numbers)
    Dropout(0.5)(torch.empty(3, device="meta"))
    assert seen == ["meta"]
    Dropout(0.5)(torch.ones(3))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    Dropout(0.5)(torch.ones(3))
    assert seen == ["meta", "cpu"]


def test_a_locked_mask_is_the_same_at_all_times_and_differs_between_rows():
    dropped = VariationalDropout(0.5)(torch.full((50, 7, 40), 3.0))
    assert torch.logical_or(dropped == 0, dropped == 6).all()
    assert (dropped == dropped[:, :1]).all()
    rows = {tuple(row.tolist()) for row in dropped[:, 0]}
    assert len(rows) == 50
    assert (dropped == 0).float().mean().item() == pytest.approx(0.5, abs=0.06)  # 2,000 coins
    numbers = torch.randn(2, 3, 4)
    assert VariationalDropout(0.5).eval()(numbers) is numbers


def test_a_word_falls_out_wherever_it_stands():
    tokens = torch.arange(1000).repeat(2, 3)
    dropped = EmbeddingDropout(0.25)(torch.full((2, 3000, 5), 3.0), tokens, 1000)
    assert torch.logical_or(dropped == 0, dropped == 4).all()
    assert (dropped == dropped[:1, :1000].repeat(2, 3, 1)).all()  # the same words in all rows, each time
    assert (dropped == dropped[..., :1]).all()  # and with all their numbers
    assert (dropped[0, :1000, 0] == 0).float().mean().item() == pytest.approx(0.25, abs=0.07)
    vectors = torch.randn(1, 2, 3)
    assert EmbeddingDropout(0.5).eval()(vectors, tokens[:1, :2], 1000) is vectors


def test_row_dropout_takes_whole_rows_and_scales_the_others_up():
    vectors = torch.rand(4000, 2, 3) + 1
    dropped = DropPath(0.25)(vectors)
    out = (dropped == 0).flatten(1)
    assert torch.equal(out.any(1), out.all(1))
    assert torch.allclose(dropped[~out.any(1)], vectors[~out.any(1)] / 0.75)
    assert out.any(1).double().mean().item() == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / 4000) ** 0.5)


def test_row_dropout_is_for_training():
    vectors = torch.rand(3, 2, 3)
    assert torch.equal(DropPath(0.5).eval()(vectors), vectors)
    assert torch.equal(DropPath(0.0)(vectors), vectors)
