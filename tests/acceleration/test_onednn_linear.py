"""Linear layers by oneDNN on a CPU: equal outputs and gradients, and only in training."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from seq2see.acceleration import layers
from seq2see.acceleration.layers import linear_layers, use_onednn
from seq2see.acceleration.trainer import AcceleratedTrainer
from seq2see.training.objectives import NextToken
from seq2see.training.settings import Training
from tiny_models import FAMILIES, pairs, perturbed_model

CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")


class TwoLayers(nn.Module):
    """Two linear layers, the second without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(24, 40), nn.Linear(40, 16, bias=False)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(vectors).tanh())


@pytest.fixture
def onednn_calls(monkeypatch):
    """The calls of oneDNN, which is used for matmuls of any size here."""
    monkeypatch.setattr(layers, "MIN_MULTIPLICATIONS", 0)
    counts = []
    linear = layers._linear
    monkeypatch.setattr(layers, "_linear", lambda *inputs: counts.append(1) or linear(*inputs))
    return counts


def gradients_of(model: nn.Module, vectors: torch.Tensor) -> list[torch.Tensor]:
    (model(vectors) * torch.arange(16)).sum().backward()
    return [vectors.grad, *(weight.grad for weight in model.parameters())]


@pytest.mark.parametrize("transposed", [False, True])
def test_output_and_gradients_are_those_of_torch(transposed, onednn_calls):
    torch.manual_seed(1)
    model = TwoLayers()
    vectors = torch.randn(7, 5, 24) if not transposed else torch.randn(5, 7, 24).transpose(0, 1)
    plain, same_vectors = copy.deepcopy(model), copy.deepcopy(vectors)
    expected = gradients_of(plain, same_vectors.requires_grad_())
    with use_onednn(linear_layers(model)):
        torch.testing.assert_close(model(vectors), plain(same_vectors))
        grads = gradients_of(model, vectors.requires_grad_())
    assert len(onednn_calls) == 2 + 2 + 2  # one forward pass, and one with a backward pass
    for actual, reference in zip(grads, expected, strict=True):
        torch.testing.assert_close(actual, reference)


def test_layers_are_restored_after_an_error(onednn_calls):
    model = TwoLayers()
    with pytest.raises(RuntimeError, match="primitive"), use_onednn(linear_layers(model)):
        model.second(model.first.weight.new_zeros(3, 24))
    assert onednn_calls
    onednn_calls.clear()
    model(torch.randn(3, 24))
    assert not onednn_calls
    assert "forward" not in vars(model.first)


def test_a_frozen_weight_gets_no_gradient(onednn_calls):
    model = TwoLayers()
    model.first.weight.requires_grad_(False)
    with use_onednn(linear_layers(model)):
        model(torch.randn(3, 24)).sum().backward()
    assert model.first.weight.grad is None
    assert model.first.bias.grad is not None
    assert len(onednn_calls) == 3  # the gradient of the model input is not needed


def grad_function_name(output: torch.Tensor) -> str:
    """The name of the autograd node, before the view that restores the shape."""
    node = output.grad_fn
    return node.next_functions[0][0].name() if "View" in node.name() else node.name()


@pytest.mark.parametrize(("rows", "uses_onednn"), [(3, False), (600, True)])
def test_small_matmuls_use_torchs_default(rows, uses_onednn):
    torch.manual_seed(2)
    layer, vectors = nn.Linear(256, 512), torch.randn(rows, 256)
    with use_onednn([layer]):
        output = layer(vectors)
    assert ("OneDNNLinearBackward" in grad_function_name(output)) == uses_onednn
    torch.testing.assert_close(output, layer(vectors))


@pytest.mark.parametrize(
    ("changes", "uses_onednn"), [({}, True), ({"custom_kernels": False}, False), ({"precision": "bf16"}, False)]
)
def test_a_trainer_on_a_cpu_uses_onednn_in_float32_by_default(changes, uses_onednn, onednn_calls):
    trainer = AcceleratedTrainer(
        perturbed_model(FAMILIES["transformer, pre-norm"]), NextToken(), Training(**changes), CPU
    )
    trainer.train_step(pairs([3, 5, 2]))
    assert bool(onednn_calls) == uses_onednn
