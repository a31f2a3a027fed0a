"""Our optimisers move weights exactly as torch's own of the same names do, and not at all where a step is broken."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from seq2see.training.muon import MOMENTUM, orthogonalise
from seq2see.training.optimisers import SGD, Adam, AdamW, Muon, Optimiser
from seq2see.training.steps import BETAS, EPSILON, Steps

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]
SHAPES = {"table": (7, 5), "kernel": (3, 5, 2), "decoder.blocks.0.weight": (6, 5), "bias": (19,), "scale": ()}
RATES = [0.1, 0.3, 0.05, 0.2, 0.01, 0.123]
Groups = list[dict[str, object]]


def torch_sgd(groups: Groups) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=1.0, momentum=0.9, fused=True)


PAIRS: dict[str, tuple[Optimiser, float, Callable[[Groups], torch.optim.Optimizer]]] = {
    "plain sgd": (SGD(), 0.0, lambda groups: torch.optim.SGD(groups, lr=1.0, fused=True)),
    "sgd": (SGD(momentum=0.9), 0.0, torch_sgd),
    "sgd that shrinks": (SGD(momentum=0.9, penalty=0.03), 0.03, torch_sgd),
    "adam": (Adam(), 0.0, lambda groups: torch.optim.Adam(groups, betas=BETAS, eps=EPSILON, fused=True)),
    "adamw": (
        AdamW(decay=0.2),
        0.2,
        lambda groups: torch.optim.AdamW(groups, betas=BETAS, eps=EPSILON, weight_decay=9.0, fused=True),
    ),
}


def fresh(device: str) -> dict[str, nn.Parameter]:
    draws = torch.Generator().manual_seed(3)
    return {name: nn.Parameter(torch.randn(shape, generator=draws).to(device)) for name, shape in SHAPES.items()}


def gradients_at(step: int, device: str) -> dict[str, Tensor | None]:
    """Of very different sizes; at the fourth step one weight has none."""
    draws = torch.Generator().manual_seed(step)
    drawn = {name: (torch.randn(shape, generator=draws) * 10**size).to(device) for size, (name, shape) in
             enumerate(SHAPES.items(), -2)}  # fmt: skip
    return drawn | {"table": None} if step == 3 else drawn


def step_torch(optimiser: torch.optim.Optimizer, rate: float, device: str) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate if device == "cpu" else torch.tensor(rate, device=device)
    optimiser.step()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", PAIRS)
def test_steps_are_those_of_torch_to_the_last_bit(kind: str, device: str):
    settings, shrinking, build = PAIRS[kind]
    ours, theirs = fresh(device), fresh(device)
    mine = settings.build(ours, 1.0)
    other = build(
        [
            {"params": [each for each in theirs.values() if each.dim() >= 2], "weight_decay": shrinking},
            {"params": [each for each in theirs.values() if each.dim() < 2], "weight_decay": 0.0},
        ]
    )
    go, divisor = torch.zeros((), device=device), torch.tensor(3.7, device=device)
    for step, rate in enumerate(RATES):
        for name, gradient in gradients_at(step, device).items():
            ours[name].grad = gradient
            theirs[name].grad = None if gradient is None else gradient / divisor
        mine.rate.fill_(rate)
        mine.step(divisor, go)
        step_torch(other, rate, device)
        for name, weight in ours.items():
            assert torch.equal(weight, theirs[name]), (step, name)


KINDS = [SGD(), SGD(momentum=0.9), Adam(), AdamW(), Muon()]


def everything(weights: dict[str, nn.Parameter], optimiser: Steps) -> list[Tensor]:
    remembered = [tensor for by_name in optimiser.memory.values() for tensor in by_name.values()]
    return [tensor.detach().clone() for tensor in (*weights.values(), *remembered)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_broken_steps_leave_no_trace_be_they_the_first_or_a_later_one(settings: Optimiser, device: str):
    found = []
    for broken_ones in ((), (0, 1, 4)):
        weights = fresh(device)
        optimiser = settings.build(weights, 0.1)
        for step in range(6):
            if step in broken_ones:
                before = everything(weights, optimiser)
                for weight in weights.values():
                    weight.grad = torch.full_like(weight, math.nan)
                optimiser.step(torch.tensor(math.nan, device=device), torch.ones((), device=device))
                assert all(map(torch.equal, before, everything(weights, optimiser)))
            for name, gradient in gradients_at(step, device).items():
                weights[name].grad = gradient
            optimiser.step(torch.ones((), device=device), torch.zeros((), device=device))
        found.append(everything(weights, optimiser))
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_a_weight_without_a_gradient_is_left_alone(settings: Optimiser):
    weights = fresh("cpu")
    optimiser = settings.build(weights, 0.1)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    weights["bias"].grad = torch.ones(19)
    optimiser.step(torch.ones(()), torch.zeros(()))
    assert [name for name in weights if not torch.equal(before[name], weights[name])] == ["bias"]
    assert all(not tensor.any() for by_name in optimiser.memory.values() for name, tensor in by_name.items()
               if name != "bias")  # fmt: skip


def test_gradients_are_dropped_of_all_weights():
    weights = fresh("cpu")
    optimiser = Muon().build(weights, 0.1)
    for weight in weights.values():
        weight.grad = torch.ones_like(weight)
    optimiser.drop_gradients()
    assert all(weight.grad is None for weight in weights.values())


# Muon


def test_muon_by_its_formula():
    weights = fresh("cpu")
    one = weights["decoder.blocks.0.weight"]
    expected, direction = one.detach().clone(), torch.zeros_like(one)
    optimiser = Muon(decay=0.3).build(weights, 0.1)
    for step, rate in enumerate(RATES):
        gradient = gradients_at(step, "cpu")["decoder.blocks.0.weight"]
        one.grad = gradient.clone()
        optimiser.rate.fill_(rate)
        optimiser.step(torch.tensor(2.5), torch.zeros(()))
        direction = MOMENTUM * direction + (1 - MOMENTUM) * gradient / 2.5
        ahead = MOMENTUM * direction + (1 - MOMENTUM) * gradient / 2.5
        turned = orthogonalise(ahead[None])[0] * 0.2 * math.sqrt(6)
        expected = expected - rate * (turned + 0.3 * expected)
        assert_close(one.detach(), expected, rtol=1e-4, atol=1e-5)
        assert_close(optimiser.memory["momentum"]["decoder.blocks.0.weight"], direction)


def test_of_a_convolution_muon_turns_all_that_one_output_is_made_of():
    windows, matrix = (nn.Parameter(torch.linspace(-1, 1, 54).view(shape)) for shape in ((3, 2, 3, 3), (3, 18)))
    for weight in (windows, matrix):
        weight.grad = torch.linspace(0, 3, 54).sin().view_as(weight)
        Muon().build({"encoder.blocks.0.weight": weight}, 0.1).step(torch.ones(()), torch.zeros(()))
    assert_close(windows.detach().flatten(1), matrix.detach())
    assert (windows - torch.linspace(-1, 1, 54).view_as(windows)).abs().max() > 0.01


def test_muon_is_torchs_up_to_its_rounding():
    """There it is computed in bf16, on a CPU too."""
    ours, theirs = fresh("cpu")["decoder.blocks.0.weight"], fresh("cpu")["decoder.blocks.0.weight"]
    mine = Muon().build({"decoder.blocks.0.weight": ours}, 0.05)
    other = torch.optim.Muon(
        [theirs], lr=0.05, weight_decay=0.01, momentum=MOMENTUM, nesterov=True, adjust_lr_fn="match_rms_adamw"
    )
    for step in range(5):
        ours.grad = gradients_at(step, "cpu")["decoder.blocks.0.weight"]
        theirs.grad = ours.grad.clone()
        mine.step(torch.ones(()), torch.zeros(()))
        other.step()
    assert (ours - fresh("cpu")["decoder.blocks.0.weight"]).abs().max() > 0.05
    assert_close(ours.detach(), theirs.detach(), rtol=0, atol=0.01)
