"""Adam over weights that exist twice moves them as torch's Adam would, and renews their copies.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from seq2see.models.heads import TiedHead
from seq2see.training.bf16_weights import Bf16Weights
from seq2see.training.optimizer_settings import Adam, AdamW
from seq2see.training.optimizers import AdamWOptimizer, Optimizer, ParameterGroup, learning_rate_tensor

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCALARS = {"device": DEVICE, "dtype": torch.float32}


def fresh() -> nn.Module:
    """Matrices, biases and a head's table that are copied, a norm that is not, and a bias that is too odd."""
    torch.manual_seed(1)
    layers = nn.Linear(16, 8), nn.Linear(8, 48), nn.LayerNorm(48), nn.Linear(48, 3), TiedHead(nn.Embedding(6, 4))
    return nn.Sequential(*layers).to(DEVICE)


def optimize(model: nn.Module, settings: Adam | AdamW, joined: bool) -> tuple[Bf16Weights, Optimizer]:
    bf16_weights, optimizer = Bf16Weights(model), settings.build(dict(model.named_parameters()), 0.1)
    optimizer.learning_rate = (
        optimizer.learning_rate.float()
    )  # on a CPU a rate has more digits, and kernels read 32 bits
    if joined:
        optimizer.attach(bf16_weights)
    return bf16_weights, optimizer


def move(
    model: nn.Module, bf16_weights: Bf16Weights, optimizer: Optimizer, found_inf: float = 0.0, pieces: int = 1
) -> None:
    """One step along gradients that depend on nothing but the number of the piece."""
    bf16_weights.refresh_if_modified()
    for piece in range(pieces):
        draws = torch.Generator(DEVICE).manual_seed(piece)
        with bf16_weights.activate():
            for weight in model.parameters():
                found = torch.randn(weight.shape, device=DEVICE, generator=draws).bfloat16().to(weight.dtype)
                weight.grad = found if weight.grad is None else weight.grad + found
    optimizer.step(torch.tensor(3.0, **SCALARS), torch.tensor(found_inf, **SCALARS))
    optimizer.zero_grad()


def weights_after(settings: Adam | AdamW, joined: bool, pieces: int = 1) -> tuple[dict[str, Tensor], Optimizer]:
    model = fresh()
    bf16_weights, optimizer = optimize(model, settings, joined)
    for _ in range(4):
        move(model, bf16_weights, optimizer, pieces=pieces)
    return {name: weight.detach() for name, weight in model.named_parameters()}, optimizer


@pytest.mark.parametrize("settings", [Adam(), AdamW(weight_decay=0.0), AdamW(weight_decay=0.4)], ids=str)
@pytest.mark.parametrize("pieces", [1, 2])
def test_all_at_once_is_one_by_one(settings, pieces):
    (actual, optimizer), (theirs, other) = (weights_after(settings, joined, pieces) for joined in (True, False))
    for name, weight in theirs.items():
        torch.testing.assert_close(actual[name], weight, rtol=1e-5, atol=1e-5, msg=name)
    for what, by_name in other.state.items():
        for name, number in by_name.items():
            torch.testing.assert_close(optimizer.state[what][name], number, rtol=1e-5, atol=1e-6, msg=f"{what} {name}")


def test_copies_are_what_the_weights_are_rounded():
    model = fresh()
    bf16_weights, optimizer = optimize(model, AdamW(), fused=True)
    before = bf16_weights.flat_bf16.clone()
    move(model, bf16_weights, optimizer)
    assert not torch.equal(bf16_weights.flat_bf16, before)
    same_but_rounded(bf16_weights)
    assert "4.table.weight" in bf16_weights.copies


def same_but_rounded(bf16_weights: Bf16Weights) -> None:
    torch.testing.assert_close(
        bf16_weights.flat_bf16.float(), bf16_weights.master, rtol=2**-7, atol=0
    )  # the interpreter rounds down


def test_a_broken_step_changes_nothing():
    model = fresh()
    bf16_weights, optimizer = optimize(model, AdamW(), fused=True)
    move(model, bf16_weights, optimizer)
    before = copy.deepcopy((model.state_dict(), optimizer.state, bf16_weights.flat_bf16))
    move(model, bf16_weights, optimizer, found_inf=1.0)
    after = (model.state_dict(), optimizer.state, bf16_weights.flat_bf16)
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_who_writes_into_the_weights_is_heard():
    model = fresh()
    bf16_weights, optimizer = optimize(model, AdamW(), fused=True)
    move(model, bf16_weights, optimizer)
    with torch.no_grad():
        model[1].weight.copy_(torch.ones_like(model[1].weight))
    move(model, bf16_weights, optimizer, found_inf=1.0)
    assert bool((bf16_weights.copies["1.weight"] == 1).all())


def test_weights_of_several_paces_are_moved_one_by_one():
    model = fresh()
    bf16_weights, named = Bf16Weights(model), dict(model.named_parameters())
    AdamWOptimizer([ParameterGroup(named, lr_scale=0.5)], learning_rate_tensor(named, 0.1)).attach(bf16_weights)
    assert not bf16_weights.fused


def test_a_weight_that_a_step_does_not_use_is_left_alone():
    model = fresh()
    bf16_weights, optimizer = optimize(model, AdamW(weight_decay=0.5), fused=True)
    before = model[0].weight.detach().clone()
    with bf16_weights.activate():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model[1:4](torch.randn(5, 8, device=DEVICE)).float().square().sum()
        loss.backward()
    optimizer.step(torch.tensor(1.0, **SCALARS), torch.tensor(0.0, **SCALARS))
    assert torch.equal(model[0].weight, before)
    assert not torch.equal(model[1].weight, fresh()[1].weight)
    same_but_rounded(bf16_weights)
