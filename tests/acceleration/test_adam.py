"""The AdamW kernel updates weights as torch's Adam does, and their bf16 copies.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from seq2see.acceleration.bf16_weights import Bf16Weights, attach
from seq2see.models.embeddings_and_heads import TiedHead
from seq2see.training.optimizers import Adam, AdamW, AdamWOptimizer, Optimizer, ParameterGroup, learning_rate_tensor

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCALARS = {"device": DEVICE, "dtype": torch.float32}


def build_model() -> nn.Module:
    """Weights, biases and a tied head that have bf16 copies, a norm that has none, and a bias of odd size."""
    torch.manual_seed(1)
    layers = nn.Linear(16, 8), nn.Linear(8, 48), nn.LayerNorm(48), nn.Linear(48, 3), TiedHead(nn.Embedding(6, 4))
    return nn.Sequential(*layers).to(DEVICE)


def optimize(model: nn.Module, settings: Adam | AdamW, fused: bool) -> tuple[Bf16Weights, Optimizer]:
    bf16_weights, optimizer = Bf16Weights(model), settings.build(dict(model.named_parameters()), 0.1)
    optimizer.learning_rate = optimizer.learning_rate.float()  # float64 on a CPU, and the kernel reads float32
    if fused:
        attach(optimizer, bf16_weights)
    return bf16_weights, optimizer


def step(
    model: nn.Module, bf16_weights: Bf16Weights, optimizer: Optimizer, found_inf: float = 0.0, micro_batches: int = 1
) -> None:
    """One step with gradients that depend on the index of the micro-batch only."""
    bf16_weights.refresh_if_modified()
    for micro_batch in range(micro_batches):
        random = torch.Generator(DEVICE).manual_seed(micro_batch)
        with bf16_weights.activate():
            for weight in model.parameters():
                grad = torch.randn(weight.shape, device=DEVICE, generator=random).bfloat16().to(weight.dtype)
                weight.grad = grad if weight.grad is None else weight.grad + grad
    optimizer.step(torch.tensor(3.0, **SCALARS), torch.tensor(found_inf, **SCALARS))
    optimizer.zero_grad()


def weights_after(settings: Adam | AdamW, fused: bool, micro_batches: int = 1) -> tuple[dict[str, Tensor], Optimizer]:
    model = build_model()
    bf16_weights, optimizer = optimize(model, settings, fused)
    for _ in range(4):
        step(model, bf16_weights, optimizer, micro_batches=micro_batches)
    return {name: weight.detach() for name, weight in model.named_parameters()}, optimizer


@pytest.mark.parametrize("settings", [Adam(), AdamW(weight_decay=0.0), AdamW(weight_decay=0.4)], ids=str)
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_kernel_equals_one_update_for_each_weight(settings, micro_batches):
    (actual, optimizer), (expected, other) = (weights_after(settings, fused, micro_batches) for fused in (True, False))
    for name, weight in expected.items():
        torch.testing.assert_close(actual[name], weight, rtol=1e-5, atol=1e-5, msg=name)
    for state_name, by_name in other.state.items():
        for name, number in by_name.items():
            torch.testing.assert_close(
                optimizer.state[state_name][name], number, rtol=1e-5, atol=1e-6, msg=f"{state_name} {name}"
            )


def test_copies_are_the_rounded_weights():
    model = build_model()
    bf16_weights, optimizer = optimize(model, AdamW(), fused=True)
    before = bf16_weights.flat_bf16.clone()
    step(model, bf16_weights, optimizer)
    assert not torch.equal(bf16_weights.flat_bf16, before)
    assert_copies_are_rounded(bf16_weights)
    assert "4.table.weight" in bf16_weights.copies


def assert_copies_are_rounded(bf16_weights: Bf16Weights) -> None:
    torch.testing.assert_close(
        bf16_weights.flat_bf16.float(), bf16_weights.master, rtol=2**-7, atol=0
    )  # the interpreter rounds down


def test_a_step_with_found_inf_changes_nothing():
    model = build_model()
    bf16_weights, optimizer = optimize(model, AdamW(), fused=True)
    step(model, bf16_weights, optimizer)
    before = copy.deepcopy((model.state_dict(), optimizer.state, bf16_weights.flat_bf16))
    step(model, bf16_weights, optimizer, found_inf=1.0)
    after = (model.state_dict(), optimizer.state, bf16_weights.flat_bf16)
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_a_write_to_the_weights_updates_the_copies():
    model = build_model()
    bf16_weights, optimizer = optimize(model, AdamW(), fused=True)
    step(model, bf16_weights, optimizer)
    with torch.no_grad():
        model[1].weight.copy_(torch.ones_like(model[1].weight))
    step(model, bf16_weights, optimizer, found_inf=1.0)
    assert bool((bf16_weights.copies["1.weight"] == 1).all())


def test_weights_with_a_learning_rate_scale_are_updated_one_by_one():
    model = build_model()
    bf16_weights, named = Bf16Weights(model), dict(model.named_parameters())
    attach(AdamWOptimizer([ParameterGroup(named, lr_scale=0.5)], learning_rate_tensor(named, 0.1)), bf16_weights)
    assert not bf16_weights.fused


def test_an_unused_weight_is_not_updated():
    model = build_model()
    bf16_weights, optimizer = optimize(model, AdamW(weight_decay=0.5), fused=True)
    before = model[0].weight.detach().clone()
    with bf16_weights.activate():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model[1:4](torch.randn(5, 8, device=DEVICE)).float().square().sum()
        loss.backward()
    optimizer.step(torch.tensor(1.0, **SCALARS), torch.tensor(0.0, **SCALARS))
    assert torch.equal(model[0].weight, before)
    assert not torch.equal(model[1].weight, build_model()[1].weight)
    assert_copies_are_rounded(bf16_weights)
