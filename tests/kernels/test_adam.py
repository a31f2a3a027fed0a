"""Adam over weights that exist twice moves them as torch's Adam would, and renews their copies.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from seq2see.models.heads import TiedHead
from seq2see.training.doubles import Doubles
from seq2see.training.optimisers import Adam, AdamW
from seq2see.training.steps import AdamWSteps, Group, Steps, rate_beside

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCALARS = {"device": DEVICE, "dtype": torch.float32}


def fresh() -> nn.Module:
    """Matrices, biases and a head's table that are copied, a norm that is not, and a bias that is too odd."""
    torch.manual_seed(1)
    layers = nn.Linear(16, 8), nn.Linear(8, 48), nn.LayerNorm(48), nn.Linear(48, 3), TiedHead(nn.Embedding(6, 4))
    return nn.Sequential(*layers).to(DEVICE)


def optimise(model: nn.Module, settings: Adam | AdamW, joined: bool) -> tuple[Doubles, Steps]:
    doubles, optimiser = Doubles(model), settings.build(dict(model.named_parameters()), 0.1)
    optimiser.rate = optimiser.rate.float()  # on a CPU a rate has more digits, and kernels read 32 bits
    if joined:
        optimiser.join(doubles)
    return doubles, optimiser


def move(model: nn.Module, doubles: Doubles, optimiser: Steps, broken: float = 0.0, pieces: int = 1) -> None:
    """One step along gradients that depend on nothing but the number of the piece."""
    doubles.renew_if_touched()
    for piece in range(pieces):
        draws = torch.Generator(DEVICE).manual_seed(piece)
        with doubles.at_work():
            for weight in model.parameters():
                found = torch.randn(weight.shape, device=DEVICE, generator=draws).bfloat16().to(weight.dtype)
                weight.grad = found if weight.grad is None else weight.grad + found
    optimiser.step(torch.tensor(3.0, **SCALARS), torch.tensor(broken, **SCALARS))
    optimiser.drop_gradients()


def weights_after(settings: Adam | AdamW, joined: bool, pieces: int = 1) -> tuple[dict[str, Tensor], Steps]:
    model = fresh()
    doubles, optimiser = optimise(model, settings, joined)
    for _ in range(4):
        move(model, doubles, optimiser, pieces=pieces)
    return {name: weight.detach() for name, weight in model.named_parameters()}, optimiser


@pytest.mark.parametrize("settings", [Adam(), AdamW(decay=0.0), AdamW(decay=0.4)], ids=str)
@pytest.mark.parametrize("pieces", [1, 2])
def test_all_at_once_is_one_by_one(settings, pieces):
    (ours, optimiser), (theirs, other) = (weights_after(settings, joined, pieces) for joined in (True, False))
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, rtol=1e-5, atol=1e-5, msg=name)
    for what, by_name in other.memory.items():
        for name, number in by_name.items():
            torch.testing.assert_close(optimiser.memory[what][name], number, rtol=1e-5, atol=1e-6, msg=f"{what} {name}")


def test_copies_are_what_the_weights_are_rounded():
    model = fresh()
    doubles, optimiser = optimise(model, AdamW(), joined=True)
    before = doubles.low.clone()
    move(model, doubles, optimiser)
    assert not torch.equal(doubles.low, before)
    same_but_rounded(doubles)
    assert "4.table.weight" in doubles.copies


def same_but_rounded(doubles: Doubles) -> None:
    torch.testing.assert_close(doubles.low.float(), doubles.whole, rtol=2**-7, atol=0)  # the interpreter rounds down


def test_a_broken_step_changes_nothing():
    model = fresh()
    doubles, optimiser = optimise(model, AdamW(), joined=True)
    move(model, doubles, optimiser)
    before = copy.deepcopy((model.state_dict(), optimiser.memory, doubles.low))
    move(model, doubles, optimiser, broken=1.0)
    after = (model.state_dict(), optimiser.memory, doubles.low)
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_who_writes_into_the_weights_is_heard():
    model = fresh()
    doubles, optimiser = optimise(model, AdamW(), joined=True)
    move(model, doubles, optimiser)
    with torch.no_grad():
        model[1].weight.copy_(torch.ones_like(model[1].weight))
    move(model, doubles, optimiser, broken=1.0)
    assert bool((doubles.copies["1.weight"] == 1).all())


def test_weights_of_several_paces_are_moved_one_by_one():
    model = fresh()
    doubles, named = Doubles(model), dict(model.named_parameters())
    AdamWSteps([Group(named, pace=0.5)], rate_beside(named, 0.1)).join(doubles)
    assert not doubles.joined


def test_a_weight_that_a_step_does_not_use_is_left_alone():
    model = fresh()
    doubles, optimiser = optimise(model, AdamW(decay=0.5), joined=True)
    before = model[0].weight.detach().clone()
    with doubles.at_work():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model[1:4](torch.randn(5, 8, device=DEVICE)).float().square().sum()
        loss.backward()
    optimiser.step(torch.tensor(1.0, **SCALARS), torch.tensor(0.0, **SCALARS))
    assert torch.equal(model[0].weight, before)
    assert not torch.equal(model[1].weight, fresh()[1].weight)
    same_but_rounded(doubles)
