"""One step of each optimizer by hand, weight decay of matrices only, and clipping by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

from seq2see.training.optimizers import (
    CUBIC,
    LINEAR,
    MUON_ITERATIONS,
    QUINTIC,
    SGD,
    Adam,
    AdamW,
    Muon,
    Optimizer,
    grad_norm_and_scale,
    orthogonalize,
)
from seq2see.training.settings import Training

ONE, GO, SKIP = torch.ones(()), torch.zeros(()), torch.ones(())


def weight(values: list, gradient: list) -> nn.Parameter:
    parameter = nn.Parameter(torch.tensor(values))
    parameter.grad = torch.tensor(gradient)
    return parameter


def named(*weights: nn.Parameter) -> dict[str, nn.Parameter]:
    return {f"w{number}": weight for number, weight in enumerate(weights)}


def test_two_steps_of_sgd_with_momentum_by_hand():
    one = weight([1.0], [2.0])
    optimizer = SGD(momentum=0.5).build(named(one), learning_rate=0.1)
    optimizer.step(ONE, GO)
    assert one.item() == pytest.approx(0.8)  # 1 - 0.1 · 2
    optimizer.step(ONE, GO)
    assert one.item() == pytest.approx(0.5)  # velocity 2 + 0.5 · 2 = 3


def test_weight_decay_of_sgd_is_for_matrices_only():
    matrix, bias = weight([[1.0]], [[2.0]]), weight([1.0], [2.0])
    SGD(weight_decay=0.5).build(named(matrix, bias), learning_rate=0.1).step(ONE, GO)
    assert matrix.item() == pytest.approx(1 - 0.1 * 2 - 0.1 * 0.5)
    assert bias.item() == pytest.approx(1 - 0.1 * 2)


def test_a_weight_decay_is_not_carried_over_between_adamw_and_sgd():
    training = Training(optimizer=AdamW(weight_decay=0.1))
    assert training.with_(**{"optimizer.kind": "sgd"}).optimizer == SGD()
    assert training.with_(**{"optimizer.kind": "muon"}).optimizer == Muon(weight_decay=0.1)
    assert Training(optimizer=SGD(weight_decay=0.1)).with_(**{"optimizer.kind": "adamw"}).optimizer == AdamW()


def test_two_steps_of_adam_by_hand():
    one = weight([1.0], [2.0])
    optimizer = Adam().build(named(one), learning_rate=0.1)
    optimizer.step(ONE, GO)
    # Corrected for their start at 0, both averages are the gradient's own: 0.1 · 2 / √4.
    assert one.item() == pytest.approx(0.9, rel=1e-6)
    one.grad = torch.tensor([-1.0])
    optimizer.step(ONE, GO)
    mean = (0.9 * 0.1 * 2 + 0.1 * -1) / (1 - 0.9**2)
    square = (0.98 * 0.02 * 4 + 0.02 * 1) / (1 - 0.98**2)
    assert one.item() == pytest.approx(0.9 - 0.1 * mean / math.sqrt(square), rel=1e-5)


def test_weight_decay_of_adamw_is_for_matrices_only():
    matrix, bias = weight([[1.0]], [[0.0]]), weight([1.0], [0.0])
    stack = weight([[[1.0]]], [[[0.0]]])
    AdamW(weight_decay=0.5).build(named(matrix, bias, stack), learning_rate=0.1).step(ONE, GO)
    assert matrix.item() == pytest.approx(0.95)  # 1 - 0.1 · 0.5
    assert stack.item() == pytest.approx(0.95)  # the kernels of a convolution count as matrices
    assert bias.item() == 1.0


def test_one_step_of_adamw_by_hand():
    matrix, bias = weight([[2.0]], [[3.0]]), weight([2.0], [-3.0])
    AdamW(weight_decay=0.5).build(named(matrix, bias), learning_rate=0.1).step(ONE, GO)
    assert matrix.item() == pytest.approx(2.0 * 0.95 - 0.1, rel=1e-6)
    assert bias.item() == pytest.approx(2.1, rel=1e-6)


LAYERED = {
    "source.table.weight": 4, "encoder.input_projection.weight": 4, "encoder.blocks.0.self_attention.weight": 3,
    "encoder.blocks.0.self_attention.bias": 3, "encoder.blocks.1.feed_forward.weight": 2,
    "encoder.blocks.2.feed_forward.weight": 1, "encoder.final_norm.weight": 0, "head.project.weight": 0,
    "head.project.bias": 0,
}  # fmt: skip
"""The number of layers above each weight of a stack of three blocks."""


def test_with_layer_decay_weights_near_the_input_move_less():
    weights = {name: weight([1.0], [3.0]) if "bias" in name else weight([[1.0]], [[3.0]]) for name in LAYERED}
    optimizer = AdamW(weight_decay=0.5, layer_decay=0.5).build(weights, learning_rate=0.1)
    optimizer.step(ONE, GO)
    for name, above in LAYERED.items():
        learning_rate = 0.1 * 0.5**above
        # Adam's first step is the learning rate itself; weight decay is in proportion to the learning rate, too.
        decay = 0.0 if "bias" in name else 0.5 * learning_rate
        assert weights[name].item() == pytest.approx(1 - learning_rate - decay, rel=1e-5), name
    assert set(optimizer.weights) == set(LAYERED)


def test_a_new_learning_rate_reaches_every_layer():
    weights = {name: weight([[1.0]], [[3.0]]) for name in LAYERED}
    optimizer = AdamW(weight_decay=0.0, layer_decay=0.5).build(weights, learning_rate=0.1)
    optimizer.learning_rate.fill_(0.2)
    optimizer.step(ONE, GO)
    for name, above in LAYERED.items():
        assert weights[name].item() == pytest.approx(1 - 0.2 * 0.5**above, rel=1e-5)


def test_without_layer_decay_all_weights_move_equally_in_two_groups():
    weights = {name: weight([[1.0]], [[3.0]]) for name in LAYERED}
    optimizer = AdamW(weight_decay=0.0).build(weights, learning_rate=0.1)
    optimizer.step(ONE, GO)
    assert len(optimizer.groups) == 2
    assert {round(each.item(), 6) for each in weights.values()} == {0.9}


def test_the_learning_rate_of_the_next_step_can_be_changed_for_all_weights():
    matrix, bias = weight([[2.0]], [[3.0]]), weight([2.0], [3.0])
    optimizer = AdamW(weight_decay=0.0).build(named(matrix, bias), learning_rate=0.1)
    optimizer.learning_rate.fill_(0.5)
    optimizer.step(ONE, GO)
    assert matrix.item() == pytest.approx(1.5, rel=1e-6)
    assert bias.item() == pytest.approx(1.5, rel=1e-6)


def test_clipping_by_hand():
    one, two = torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])
    norm, grad_scale = grad_norm_and_scale(nn.utils.get_total_norm([one, two]), torch.tensor(2), 0.5)
    assert float(norm) == pytest.approx(2.5)  # the length of (3, 0, 4) / 2, as it was
    assert float(grad_scale) == pytest.approx(10)  # the length of (3, 0, 4) / 10 is 0.5
    assert one.tolist() == [3.0, 0.0]


def test_a_short_gradient_is_only_averaged_and_zero_never_clips():
    norm, grad_scale = grad_norm_and_scale(torch.tensor(0.5), torch.tensor(2), 1.0)
    assert (float(norm), float(grad_scale)) == (pytest.approx(0.25), 2.0)
    norm, grad_scale = grad_norm_and_scale(torch.tensor(1e6), torch.tensor(3), 0.0)
    assert (float(norm), float(grad_scale)) == (pytest.approx(1e6 / 3), 3.0)


# Muon


def test_all_directions_count_equally():
    rng = torch.Generator().manual_seed(1)
    for rows, columns in ((6, 6), (4, 9), (9, 4)):
        matrices = torch.randn(3, rows, columns, generator=rng) * torch.tensor([1e-4, 1.0, 1e3])[:, None, None]
        update = orthogonalize(matrices)
        singular_values = torch.linalg.svdvals(update)
        assert (singular_values > 0.6).all()
        assert (singular_values < 1.3).all()
        left, _, right = torch.linalg.svd(matrices, full_matrices=False)
        assert functional.cosine_similarity(update.flatten(1), (left @ right).flatten(1)).min() > 0.95


def test_every_singular_value_is_mapped_by_the_polynomial():
    matrices = torch.randn(3, 4, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    left, singular_values, right = torch.linalg.svd(matrices, full_matrices=False)
    singular_values = singular_values / (singular_values.norm(dim=1, keepdim=True) + 1e-7)
    for _ in range(MUON_ITERATIONS):
        singular_values = LINEAR * singular_values + CUBIC * singular_values**3 + QUINTIC * singular_values**5
    expected = left @ torch.diag_embed(singular_values) @ right
    assert_close(orthogonalize(matrices), expected)
    assert_close(orthogonalize(matrices.mT), expected.mT)


def test_in_bf16_its_fused_matmuls_round_no_more_than_separate_sums_would():
    matrices = torch.randn(3, 40, 90, generator=torch.Generator().manual_seed(3)).bfloat16()
    exact, plain = orthogonalize(matrices.double()), matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(MUON_ITERATIONS):
        square = plain @ plain.mT
        plain = LINEAR * plain + (CUBIC * square + QUINTIC * square @ square) @ plain
    found = orthogonalize(matrices)
    assert found.dtype == torch.bfloat16
    assert (found - exact).norm() < (plain - exact).norm() < 0.05 * exact.norm()


def muon(*gradients: list, learning_rate: float = 0.1) -> tuple[dict[str, nn.Parameter], Optimizer]:
    names = [f"decoder.blocks.{number}.weight" for number in range(len(gradients))]
    weights = {name: weight([[0.0] * 3] * 2, each) for name, each in zip(names, gradients, strict=True)}
    return weights, Muon().build(weights, learning_rate)


def test_the_first_step_of_muon_goes_along_its_gradient_as_far_as_adam_would():
    weights, optimizer = muon([[3.0, 0.0, 0.0], [0.0, 0.1, 0.0]])
    optimizer.step(ONE, GO)
    step = -weights["decoder.blocks.0.weight"].detach() / 0.1
    assert step[0, 0].item() == pytest.approx(0.2 * math.sqrt(3), rel=0.35)
    assert step[1, 1].item() == pytest.approx(step[0, 0].item(), rel=0.8)  # thirty times smaller in the gradient
    assert step[0, 1].item() == pytest.approx(0.0, abs=1e-6)


def test_muon_has_momentum_and_weight_decay():
    weights, optimizer = muon([[0.0] * 3] * 2)
    one = weights["decoder.blocks.0.weight"]
    one.data.fill_(1.0)
    optimizer.step(ONE, GO)
    assert one.flatten().tolist() == pytest.approx([1 - 0.1 * 0.01] * 6)  # without momentum there is only weight decay
    assert optimizer.state["momentum"]["decoder.blocks.0.weight"].abs().max() == 0
    one.grad = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    optimizer.step(ONE, GO)
    assert optimizer.state["momentum"]["decoder.blocks.0.weight"][0, 0].item() == pytest.approx(0.05 * 2)


def test_only_matrices_of_blocks_move_by_muon():
    names = ["decoder.blocks.0.weight", "decoder.blocks.0.bias", "target.table.weight"]
    weights = dict(zip(names, (weight([[1.0]], [[1.0]]), weight([1.0], [1.0]), weight([[1.0]], [[1.0]])), strict=True))
    optimizer = Muon().build(weights, 0.1)
    optimizer.step(ONE, GO)
    assert {kind: list(by_name) for kind, by_name in optimizer.state.items()} == {
        "momentum": [names[0]],
        "exp_avg": [names[2], names[1]],
        "exp_avg_sq": [names[2], names[1]],
        "step": [names[2], names[1]],
    }
    moved = {name: 1 - each.item() for name, each in weights.items()}
    assert moved == {
        names[0]: pytest.approx(0.1 * 0.2, rel=0.3),
        names[1]: pytest.approx(0.1),
        names[2]: pytest.approx(0.101),
    }


def test_a_skipped_step_moves_nothing_by_muon():
    weights, optimizer = muon([[float("nan"), 0.0, 0.0], [0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    optimizer.step(ONE, SKIP)
    assert all(each.abs().max() == 0 for each in weights.values())
    assert all(each.abs().max() == 0 for each in optimizer.state["momentum"].values())
