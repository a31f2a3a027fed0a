"""Adapters of a linear layer, by numbers that can be computed by hand and by their formulas in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.adapters.layers import Adapter, LowRank, NormalizedScaled, Scaled, StackedLinear, split_rows
from seq2see.adapters.settings import LoRA
from seq2see.core.errors import UserError

KINDS = {
    "svf": Scaled,
    "svf-normalized": NormalizedScaled,
    "lora": lambda layer: LowRank(layer, rank=2, alpha=6.0),
}


def linear(rows: int = 5, columns: int = 7, bias: bool = True) -> nn.Linear:
    return nn.Linear(columns, rows, bias=bias)


def disturbed(adapter: Adapter) -> Adapter:
    """The adapter with trained weights that are not the initial ones."""
    with torch.no_grad():
        for weight in adapter.parameters():
            if weight.requires_grad:
                weight.add_(0.3 * torch.randn_like(weight))
    return adapter


def test_z_of_one_gives_the_matrix():
    for rows, columns in ((5, 7), (7, 5), (96, 96), (97, 389)):
        layer = linear(rows, columns)
        torch.testing.assert_close(Scaled(layer).weight, layer.weight, atol=1e-5, rtol=0)


def test_lora_begins_with_the_matrix_itself():
    layer = linear()
    assert torch.equal(LowRank(layer, 2, 4.0).weight, layer.weight)


def test_svf_of_a_diagonal_matrix_scales_its_elements_in_the_order_of_their_size():
    layer = nn.Linear(3, 3, bias=False)
    layer.weight.data = torch.diag(torch.tensor([2.0, 7.0, 3.0]))
    adapter = Scaled(layer)
    adapter.scales.data = torch.tensor([10.0, 100.0, 1000.0])  # for the singular values 7, 3 and 2
    expected = torch.diag(torch.tensor([2000.0, 70.0, 300.0]))
    torch.testing.assert_close(adapter.weight, expected)
    torch.testing.assert_close(adapter(torch.eye(3)), expected)


def test_svf_of_a_matrix_that_is_not_symmetric():
    """W = 5 e₂ e₁ᵀ + 3 e₁ e₃ᵀ; its singular values are 5 and 3. With U and V exchanged the result has another shape."""
    layer = nn.Linear(3, 2, bias=False)
    layer.weight.data = torch.tensor([[0.0, 0.0, 3.0], [5.0, 0.0, 0.0]])
    adapter = Scaled(layer)
    adapter.scales.data = torch.tensor([2.0, -1.0])
    torch.testing.assert_close(adapter.weight, torch.tensor([[0.0, 0.0, -3.0], [10.0, 0.0, 0.0]]))


def test_the_normalized_form_keeps_the_sum_of_the_singular_values():
    adapter = disturbed(NormalizedScaled(linear()))
    assert torch.linalg.svdvals(adapter.weight.detach()).sum().item() == pytest.approx(
        adapter.singular_values.sum().item(), rel=1e-5
    )


def test_the_normalized_form_by_hand():
    """Singular values 6, 2 and z = 3/4, 1/4: s z = 9/2, 1/2, so the factor is 8/5, and the new values are 7.2, 0.8."""
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.diag(torch.tensor([6.0, 2.0]))
    adapter = NormalizedScaled(layer)
    adapter.logits.data = torch.tensor([3.0, 1 / 3]).log()  # sigmoid(log a) = a / (1 + a)
    torch.testing.assert_close(adapter.z, torch.tensor([0.75, 0.25]))
    torch.testing.assert_close(adapter.weight, torch.diag(torch.tensor([7.2, 0.8])))


def test_the_normalized_form_with_a_constant_z_is_the_matrix():
    layer = linear()
    adapter = NormalizedScaled(layer)
    adapter.logits.data.fill_(-0.7)
    torch.testing.assert_close(adapter.weight, layer.weight, atol=1e-6, rtol=0)


def test_the_logits_begin_near_0_1():
    logits = NormalizedScaled(linear(400, 400)).logits
    assert logits.mean().item() == pytest.approx(0.1, abs=0.002)
    assert logits.std().item() == pytest.approx(0.01, rel=0.15)


def test_lora_by_hand():
    """α / r = 6 / 2 = 3, and B A has the single element 2 · 5 in row 1, column 2."""
    layer = nn.Linear(3, 2, bias=False)
    layer.weight.data.zero_()
    adapter = LowRank(layer, rank=2, alpha=6.0)
    adapter.a.data = torch.tensor([[0.0, 5.0, 0.0], [0.0, 0.0, 0.0]])
    adapter.b.data = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(adapter.weight, torch.tensor([[0.0, 30.0, 0.0], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(adapter(torch.tensor([0.0, 1.0, 0.0])), torch.tensor([30.0, 0.0]))


def test_a_rank_above_the_smaller_side_is_refused():
    with pytest.raises(UserError, match=r"rank 6 is above 5, the smaller side of a matrix of 5 x 7"):
        LoRA(rank=6).check(5, 7)
    LoRA(rank=5).check(5, 7)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_forward_weight_and_merged_layer_are_the_same_function(kind, bias):
    adapter = disturbed(KINDS[kind](linear(bias=bias)))
    vectors = torch.randn(2, 3, 7)
    by_formula = nn.functional.linear(vectors, adapter.weight, adapter.bias)
    torch.testing.assert_close(adapter(vectors), by_formula)
    torch.testing.assert_close(adapter.merged()(vectors), by_formula)
    assert not torch.allclose(adapter.base(vectors), by_formula, atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_weights_of_the_adapter_get_gradients(kind):
    adapter = disturbed(KINDS[kind](linear()))
    adapter(torch.randn(3, 7)).square().sum().backward()
    trained = [name for name, weight in adapter.named_parameters() if weight.grad is not None]
    assert trained == {"svf": ["scales"], "svf-normalized": ["logits"], "lora": ["a", "b"]}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_changed_matrix(kind):
    """Through the formula of `forward`, and through W' = `weight`."""
    adapter, vectors = disturbed(KINDS[kind](linear())), torch.randn(3, 7)
    weights = [weight for weight in adapter.parameters() if weight.requires_grad]
    direct = torch.autograd.grad(adapter(vectors).square().sum(), weights)
    by_matrix = torch.autograd.grad(nn.functional.linear(vectors, adapter.weight, adapter.bias).square().sum(), weights)
    for first, second in zip(direct, by_matrix, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_the_parts_of_a_stacked_matrix_have_singular_values_of_their_own():
    layer = linear(rows=8)
    parts = split_rows(layer, {"q_proj": 5, "k_proj": 3})
    stacked = StackedLinear({name: Scaled(part) for name, part in parts.items()})
    torch.testing.assert_close(
        stacked.parts["k_proj"].singular_values,
        torch.linalg.svdvals(layer.weight.detach()[5:]),  # type: ignore[arg-type]
    )
    vectors = torch.randn(2, 7)
    torch.testing.assert_close(stacked(vectors), layer(vectors))
    torch.testing.assert_close(stacked.weight, layer.weight)
    torch.testing.assert_close(stacked.merged()(vectors), layer(vectors))


def test_a_matrix_for_any_z():
    """For the mixture of several experts: W' is linear in z."""
    adapter = Scaled(linear())
    first, second = torch.rand(5), torch.rand(5)
    mixture = 0.25 * adapter.matrix(first) + 0.75 * adapter.matrix(second)
    torch.testing.assert_close(adapter.matrix(0.25 * first + 0.75 * second), mixture)
