"""Our optimizers change weights exactly as torch's own of the same names do, and not at all if a step is skipped."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seq2see.training.optimizers import (
    BETAS,
    EPSILON,
    MUON_MOMENTUM,
    SGD,
    Adam,
    AdamW,
    Muon,
    Optimizer,
    OptimizerSettings,
    orthogonalize,
)

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]
SHAPES = {"table": (7, 5), "kernel": (3, 5, 2), "decoder.blocks.0.weight": (6, 5), "bias": (19,), "scale": ()}
LEARNING_RATES = [0.1, 0.3, 0.05, 0.2, 0.01, 0.123]
Groups = list[dict[str, object]]


def torch_sgd(groups: Groups) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=1.0, momentum=0.9, fused=True)


PAIRS: dict[str, tuple[OptimizerSettings, float, Callable[[Groups], torch.optim.Optimizer]]] = {
    "plain sgd": (SGD(), 0.0, lambda groups: torch.optim.SGD(groups, lr=1.0, fused=True)),
    "sgd": (SGD(momentum=0.9), 0.0, torch_sgd),
    "sgd with weight decay": (SGD(momentum=0.9, weight_decay=0.03), 0.03, torch_sgd),
    "adam": (Adam(), 0.0, lambda groups: torch.optim.Adam(groups, betas=BETAS, eps=EPSILON, fused=True)),
    "adamw": (
        AdamW(weight_decay=0.2),
        0.2,
        lambda groups: torch.optim.AdamW(groups, betas=BETAS, eps=EPSILON, weight_decay=9.0, fused=True),
    ),
}


def fresh(device: str) -> dict[str, nn.Parameter]:
    rng = torch.Generator().manual_seed(3)
    return {name: nn.Parameter(torch.randn(shape, generator=rng).to(device)) for name, shape in SHAPES.items()}


def gradients_at(step: int, device: str) -> dict[str, Tensor | None]:
    """Gradients of very different sizes; at the fourth step one weight has none."""
    rng = torch.Generator().manual_seed(step)
    gradients = {name: (torch.randn(shape, generator=rng) * 10**size).to(device) for size, (name, shape) in
                 enumerate(SHAPES.items(), -2)}  # fmt: skip
    return gradients | {"table": None} if step == 3 else gradients


def step_torch(optimizer: torch.optim.Optimizer, learning_rate: float, device: str) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate if device == "cpu" else torch.tensor(learning_rate, device=device)
    optimizer.step()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", PAIRS)
def test_steps_are_those_of_torch_to_the_last_bit(kind: str, device: str):
    settings, weight_decay, build = PAIRS[kind]
    actual, theirs = fresh(device), fresh(device)
    mine = settings.build(actual, 1.0)
    other = build(
        [
            {"params": [each for each in theirs.values() if each.dim() >= 2], "weight_decay": weight_decay},
            {"params": [each for each in theirs.values() if each.dim() < 2], "weight_decay": 0.0},
        ]
    )
    go, grad_scale = torch.zeros((), device=device), torch.tensor(3.7, device=device)
    for step, learning_rate in enumerate(LEARNING_RATES):
        for name, gradient in gradients_at(step, device).items():
            actual[name].grad = gradient
            theirs[name].grad = None if gradient is None else gradient / grad_scale
        mine.learning_rate.fill_(learning_rate)
        mine.step(grad_scale, go)
        step_torch(other, learning_rate, device)
        for name, weight in actual.items():
            assert torch.equal(weight, theirs[name]), (step, name)


KINDS = [SGD(), SGD(momentum=0.9), Adam(), AdamW(), Muon()]


def everything(weights: dict[str, nn.Parameter], optimizer: Optimizer) -> list[Tensor]:
    state = [tensor for by_name in optimizer.state.values() for tensor in by_name.values()]
    return [tensor.detach().clone() for tensor in (*weights.values(), *state)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_skipped_steps_leave_no_trace_be_they_the_first_or_a_later_one(settings: OptimizerSettings, device: str):
    results = []
    for skipped in ((), (0, 1, 4)):
        weights = fresh(device)
        optimizer = settings.build(weights, 0.1)
        for step in range(6):
            if step in skipped:
                before = everything(weights, optimizer)
                for weight in weights.values():
                    weight.grad = torch.full_like(weight, math.nan)
                optimizer.step(torch.tensor(math.nan, device=device), torch.ones((), device=device))
                assert all(map(torch.equal, before, everything(weights, optimizer)))
            for name, gradient in gradients_at(step, device).items():
                weights[name].grad = gradient
            optimizer.step(torch.ones((), device=device), torch.zeros((), device=device))
        results.append(everything(weights, optimizer))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_a_weight_without_a_gradient_does_not_change(settings: OptimizerSettings):
    weights = fresh("cpu")
    optimizer = settings.build(weights, 0.1)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    weights["bias"].grad = torch.ones(19)
    optimizer.step(torch.ones(()), torch.zeros(()))
    assert [name for name in weights if not torch.equal(before[name], weights[name])] == ["bias"]
    assert all(not tensor.any() for by_name in optimizer.state.values() for name, tensor in by_name.items()
               if name != "bias")  # fmt: skip


def test_zero_grad_removes_the_gradients_of_all_weights():
    weights = fresh("cpu")
    optimizer = Muon().build(weights, 0.1)
    for weight in weights.values():
        weight.grad = torch.ones_like(weight)
    optimizer.zero_grad()
    assert all(weight.grad is None for weight in weights.values())


# Muon


def test_muon_by_its_formula():
    weights = fresh("cpu")
    one = weights["decoder.blocks.0.weight"]
    expected, direction = one.detach().clone(), torch.zeros_like(one)
    optimizer = Muon(weight_decay=0.3).build(weights, 0.1)
    for step, learning_rate in enumerate(LEARNING_RATES):
        gradient = gradients_at(step, "cpu")["decoder.blocks.0.weight"]
        one.grad = gradient.clone()
        optimizer.learning_rate.fill_(learning_rate)
        optimizer.step(torch.tensor(2.5), torch.zeros(()))
        direction = MUON_MOMENTUM * direction + (1 - MUON_MOMENTUM) * gradient / 2.5
        nesterov = MUON_MOMENTUM * direction + (1 - MUON_MOMENTUM) * gradient / 2.5
        update = orthogonalize(nesterov[None])[0] * 0.2 * math.sqrt(6)
        expected = expected - learning_rate * (update + 0.3 * expected)
        assert_close(one.detach(), expected, rtol=1e-4, atol=1e-5)
        assert_close(optimizer.state["momentum"]["decoder.blocks.0.weight"], direction)


def test_muon_treats_a_convolution_as_one_row_per_output_channel():
    kernels, matrix = (nn.Parameter(torch.linspace(-1, 1, 54).view(shape)) for shape in ((3, 2, 3, 3), (3, 18)))
    for weight in (kernels, matrix):
        weight.grad = torch.linspace(0, 3, 54).sin().view_as(weight)
        Muon().build({"encoder.blocks.0.weight": weight}, 0.1).step(torch.ones(()), torch.zeros(()))
    assert_close(kernels.detach().flatten(1), matrix.detach())
    assert (kernels - torch.linspace(-1, 1, 54).view_as(kernels)).abs().max() > 0.01


def test_muon_is_torchs_up_to_rounding():
    """Torch's is computed in bf16, on a CPU too."""
    actual, theirs = fresh("cpu")["decoder.blocks.0.weight"], fresh("cpu")["decoder.blocks.0.weight"]
    mine = Muon().build({"decoder.blocks.0.weight": actual}, 0.05)
    other = torch.optim.Muon(
        [theirs], lr=0.05, weight_decay=0.01, momentum=MUON_MOMENTUM, nesterov=True, adjust_lr_fn="match_rms_adamw"
    )
    for step in range(5):
        actual.grad = gradients_at(step, "cpu")["decoder.blocks.0.weight"]
        theirs.grad = actual.grad.clone()
        mine.step(torch.ones(()), torch.zeros(()))
        other.step()
    assert (actual - fresh("cpu")["decoder.blocks.0.weight"]).abs().max() > 0.05
    assert_close(actual.detach(), theirs.detach(), rtol=0, atol=0.01)
