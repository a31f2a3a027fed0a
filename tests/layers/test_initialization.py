"""Initial weights have the variances of the papers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.core.errors import UserError
from seq2see.layers.initialization import INITIALIZERS, he, initialize, xavier, zero
from seq2see.layers.norms_and_dropout import NORMS


def test_xavier_has_two_over_fan_in_plus_fan_out():
    weight = torch.empty(300, 500)
    xavier(weight)
    assert weight.mean().item() == pytest.approx(0, abs=5e-4)
    assert weight.var().item() == pytest.approx(2 / 800, rel=0.02)
    assert 0.08 < weight.abs().max().item() <= (6 / 800) ** 0.5  # uniform: no tails beyond 0.0866


def test_he_has_two_over_fan_in():
    weight = torch.empty(300, 500)
    he(weight)
    assert weight.mean().item() == pytest.approx(0, abs=1e-3)
    assert weight.var().item() == pytest.approx(2 / 500, rel=0.02)
    assert weight.abs().max() > 3.5 * (2 / 500) ** 0.5  # normal: it has tails


def test_zero_is_zero():
    weight = torch.ones(3, 5)
    zero(weight)
    assert not weight.any()


@pytest.mark.parametrize(("name", "gain"), [("xavier", 0.5), ("he", 1.0)])
def test_he_keeps_the_signal_through_relu_and_xavier_halves_it(name, gain):
    """The mean square after a square ReLU layer: E[relu(z)²] = var(z) / 2, times 2 for He."""
    signal = torch.randn(64, 400)
    weight = torch.empty(400, 400)
    for _ in range(3):
        INITIALIZERS[name](weight)
        before = signal.square().mean()
        signal = (signal @ weight.T).relu()
        assert (signal.square().mean() / before).item() == pytest.approx(gain, rel=0.2)


class SmallModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(2000, 64, padding_idx=0)
        self.positions = nn.Embedding(100, 64)
        self.linear = nn.Linear(64, 192)
        self.norm = nn.ModuleList(NORMS[name](64) for name in NORMS)
        self.recurrent = nn.GRU(64, 5)
        self.head = nn.Linear(64, 2000)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize(("name", "variance"), [("xavier", 2 / 256), ("he", 2 / 64), ("zero", 0)])
def test_a_whole_model(name, variance):
    model = SmallModel()
    with torch.no_grad():
        for norm in model.norm:
            norm.weight.fill_(17)
    recurrent = [weight.clone() for weight in model.recurrent.parameters()]
    initialize(model, name)
    assert model.linear.weight.var().item() == pytest.approx(variance, rel=0.05)
    assert not model.linear.bias.any()
    assert not model.head.bias.any()
    # A tied head counts as an embedding: N(0, 1 / width) and a padding row of zeros.
    assert model.head.weight is model.embedding.weight
    assert model.embedding.weight[1:].var().item() == pytest.approx(1 / 64, rel=0.02)
    assert not model.embedding.weight[0].any()
    assert model.positions.weight[0].any()  # no padding row was declared
    assert all((norm.weight == 17).all() for norm in model.norm)
    assert all(torch.equal(a, b) for a, b in zip(recurrent, model.recurrent.parameters(), strict=True))


def test_the_same_seed_gives_the_same_weights():
    first, second = nn.Linear(3, 5), nn.Linear(3, 5)
    for model in (first, second):
        torch.manual_seed(7)
        initialize(model, "he")
    assert torch.equal(first.weight, second.weight)
    assert first.weight.requires_grad


def test_a_misspelled_name_is_an_error():
    with pytest.raises(UserError, match="Did you mean 'xavier'"):
        initialize(nn.Linear(2, 2), "xaver")
