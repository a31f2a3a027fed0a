"""Dropout: how many elements are dropped, which, by the definition and with cheap random numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from seq2see.layers.norms_and_dropout import Dropout, DropPath, EmbeddingDropout, VariationalDropout
from ways import both_ways, fast


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@both_ways
def test_the_right_share_is_dropped_and_the_rest_is_scaled_up(way, p):
    dropped = way(Dropout(p))(torch.full((400, 1000), 2.0))
    is_dropped = dropped == 0
    # 400,000 draws: the share is off by more than 5 standard deviations about once in a million times.
    assert is_dropped.double().mean().item() == pytest.approx(p, abs=5 * (p * (1 - p) / 400_000) ** 0.5)
    assert torch.allclose(dropped[~is_dropped], torch.tensor(2 / (1 - p)))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.99])
def test_over_all_random_bits_exactly_the_share_is_dropped(p, monkeypatch):
    random_bits = torch.arange(-(2**15), 2**15).short().view(torch.int64)
    monkeypatch.setattr(torch.Tensor, "random_", lambda draws, *_: draws.copy_(random_bits))
    assert (fast(Dropout(p))(torch.ones(2**16)) == 0).sum() == round(p * 2**16)


@both_ways
def test_elements_of_one_draw_are_independent(way):
    """Four elements share one draw: adjacent elements are dropped together as often as by chance."""
    is_dropped = (way(Dropout(0.5))(torch.ones(400_000)) == 0).view(-1, 4).double()
    joint = (is_dropped.mT @ is_dropped) / len(is_dropped)
    assert torch.allclose(joint, torch.full((4, 4), 0.25).double() + 0.25 * torch.eye(4), atol=0.01)
    flat = is_dropped.flatten()
    assert (flat[1:] * flat[:-1]).mean().item() == pytest.approx(0.25, abs=0.005)
    assert (flat[4:] * flat[:-4]).mean().item() == pytest.approx(0.25, abs=0.005)


@given(st.lists(st.integers(0, 7), max_size=3), st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_any_shape_and_dtype(shape, dtype):
    inputs = torch.ones(shape, dtype=dtype)
    for layer in (Dropout(0.5), fast(Dropout(0.5))):
        dropped = layer(inputs)
        assert (dropped.shape, dropped.dtype) == (inputs.shape, dtype)
        assert torch.logical_or(dropped == 0, dropped == 2).all()


@both_ways
def test_the_seed_decides(way):
    inputs, layer, outputs = torch.ones(50), way(Dropout(0.5)), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(layer(inputs))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@both_ways
def test_gradients_pass_where_elements_passed(way):
    inputs = torch.ones(1000, requires_grad=True)
    dropped = way(Dropout(0.25))(inputs)
    dropped.sum().backward()
    assert torch.equal(inputs.grad, dropped.detach())


@both_ways
def test_nothing_is_dropped_in_evaluation_or_at_p_zero(way):
    inputs = torch.randn(20)
    assert way(Dropout(0.5)).eval()(inputs) is inputs
    assert torch.equal(way(Dropout(0.0))(inputs), inputs)


def test_on_other_devices_and_in_compiled_code_it_is_the_dropout_of_torch(monkeypatch):
    outputs = []
    monkeypatch.setattr(
        nn.functional, "dropout", lambda inputs, p, training: outputs.append(inputs.device.type) or inputs
    )
    layer = fast(Dropout(0.5))
    layer(torch.empty(3, device="meta"))
    assert outputs == ["meta"]
    layer(torch.ones(3))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    layer(torch.ones(3))
    assert outputs == ["meta", "cpu"]


@both_ways
def test_a_variational_mask_is_equal_at_all_time_steps_and_differs_between_rows(way):
    dropped = way(VariationalDropout(0.5))(torch.full((50, 7, 40), 3.0))
    assert torch.logical_or(dropped == 0, dropped == 6).all()
    assert (dropped == dropped[:, :1]).all()
    rows = {tuple(row.tolist()) for row in dropped[:, 0]}
    assert len(rows) == 50
    assert (dropped == 0).float().mean().item() == pytest.approx(0.5, abs=0.06)  # 2,000 draws
    inputs = torch.randn(2, 3, 4)
    assert way(VariationalDropout(0.5)).eval()(inputs) is inputs


@both_ways
def test_a_dropped_token_is_zero_wherever_it_occurs(way):
    tokens = torch.arange(1000).repeat(2, 3)
    dropped = way(EmbeddingDropout(0.25))(torch.full((2, 3000, 5), 3.0), tokens, 1000)
    assert torch.logical_or(dropped == 0, dropped == 4).all()
    assert (dropped == dropped[:1, :1000].repeat(2, 3, 1)).all()  # the same tokens in all rows, each time
    assert (dropped == dropped[..., :1]).all()  # and in all dimensions
    assert (dropped[0, :1000, 0] == 0).float().mean().item() == pytest.approx(0.25, abs=0.07)
    vectors = torch.randn(1, 2, 3)
    assert EmbeddingDropout(0.5).eval()(vectors, tokens[:1, :2], 1000) is vectors


@both_ways
def test_drop_path_zeroes_whole_rows_and_scales_the_others_up(way):
    vectors = torch.rand(4000, 2, 3) + 1
    dropped = way(DropPath(0.25))(vectors)
    is_dropped = (dropped == 0).flatten(1)
    assert torch.equal(is_dropped.any(1), is_dropped.all(1))
    assert torch.allclose(dropped[~is_dropped.any(1)], vectors[~is_dropped.any(1)] / 0.75)
    assert is_dropped.any(1).double().mean().item() == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / 4000) ** 0.5)


@both_ways
def test_drop_path_is_for_training(way):
    vectors = torch.rand(3, 2, 3)
    assert torch.equal(way(DropPath(0.5)).eval()(vectors), vectors)
    assert torch.equal(way(DropPath(0.0))(vectors), vectors)
