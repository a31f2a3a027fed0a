"""Products by oneDNN on a CPU: the same numbers, both ways, and only while a model learns."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from seq2see.kernels import onednn_linear
from seq2see.kernels.onednn_linear import linear_layers, use_onednn
from seq2see.training.loop import Trainer
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


class Two(nn.Module):
    """Two products, the second without a bias, on vectors that lie in rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(24, 40), nn.Linear(40, 16, bias=False)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(vectors).tanh())


@pytest.fixture
def used(monkeypatch):
    """How often a product is asked of oneDNN: however small it is."""
    monkeypatch.setattr(onednn_linear, "LEAST", 0)
    counts = []
    plain = onednn_linear._multiply
    monkeypatch.setattr(onednn_linear, "_multiply", lambda *given: counts.append(1) or plain(*given))
    return counts


def gradients_of(model: nn.Module, vectors: torch.Tensor) -> list[torch.Tensor]:
    (model(vectors) * torch.arange(16)).sum().backward()
    return [vectors.grad, *(weight.grad for weight in model.parameters())]


@pytest.mark.parametrize("turned", [False, True])
def test_output_and_gradients_are_those_of_torch(turned, used):
    torch.manual_seed(1)
    model = Two()
    vectors = torch.randn(7, 5, 24) if not turned else torch.randn(5, 7, 24).transpose(0, 1)
    plain, same = copy.deepcopy(model), copy.deepcopy(vectors)
    expected = gradients_of(plain, same.requires_grad_())
    with use_onednn(linear_layers(model)):
        torch.testing.assert_close(model(vectors), plain(same))
        found = gradients_of(model, vectors.requires_grad_())
    assert len(used) == 2 + 2 + 2  # asked, and asked again with the way back
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_afterwards_all_is_as_before_whatever_happened(used):
    model = Two()
    with pytest.raises(RuntimeError, match="primitive"), use_onednn(linear_layers(model)):
        model.second(model.first.weight.new_zeros(3, 24))
    assert used
    used.clear()
    model(torch.randn(3, 24))
    assert not used
    assert "forward" not in vars(model.first)


def test_what_needs_no_slope_gets_none(used):
    model = Two()
    model.first.weight.requires_grad_(False)
    with use_onednn(linear_layers(model)):
        model(torch.randn(3, 24)).sum().backward()
    assert model.first.weight.grad is None
    assert model.first.bias.grad is not None
    assert len(used) == 3  # nobody asks for the slope by the numbers that went in


def name_of(found: torch.Tensor) -> str:
    """What autograd calls the way back, past the view that gives vectors their rows again."""
    node = found.grad_fn
    return node.next_functions[0][0].name() if "View" in node.name() else node.name()


@pytest.mark.parametrize(("rows", "asked"), [(3, False), (600, True)])
def test_small_products_stay_with_torch(rows, asked):
    torch.manual_seed(2)
    layer, vectors = nn.Linear(256, 512), torch.randn(rows, 256)
    with use_onednn([layer]):
        found = layer(vectors)
    assert ("OneDNNLinearBackward" in name_of(found)) == asked
    torch.testing.assert_close(found, layer(vectors))


@pytest.mark.parametrize(
    ("changes", "counted"), [({}, True), ({"custom_kernels": False}, False), ({"precision": "bf16"}, False)]
)
def test_a_trainer_on_a_cpu_takes_them_in_float32_unless_told_otherwise(changes, counted, used):
    trainer = Trainer(perturbed_model(FAMILIES["transformer, pre-norm"]), NextToken(), Training(**changes), CPU)
    trainer.train_step(pairs([3, 5, 2]))
    assert bool(used) == counted
