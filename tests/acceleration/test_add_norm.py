"""The kernels for dropout, residual sum and norm equal the definitions, forward and backward.

Without a GPU triton interprets them, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, current_async_grads
from seq2see.layers.norms import LayerNorm, RMSNorm
from seq2see.layers.residual import PostNorm, PreNorm, bias_of

pytestmark = pytest.mark.triton
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(2, 3, 16), (3, 5, 24), (1, 1030, 8), (2, 300, 512), (1, 3, 1100)]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few programs, because the interpreter runs them one after another."""
    if DEVICE == "cpu":
        monkeypatch.setattr("seq2see.acceleration.add_norm_kernels.PROGRAMS", 4)


def random_case(norm_class: type[nn.Module], shape: tuple[int, ...]) -> tuple[nn.Module, list[Tensor]]:
    """A norm with random weights, and vectors far from mean 0 and variance 1."""
    torch.manual_seed(1)
    norm = norm_class(shape[-1], 1e-3).to(DEVICE)
    for weight in norm.parameters():
        nn.init.uniform_(weight, -1, 2)
    return norm, [(3 * torch.randn(shape, device=DEVICE) + 1).requires_grad_() for _ in range(2)]


def all_valid(shape: tuple[int, ...]) -> Tensor:
    """No padding."""
    return torch.ones(shape[:2], dtype=torch.bool, device=DEVICE)


def gradients_of(output: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """The gradients of a randomly weighted sum of the outputs."""
    torch.manual_seed(2)
    total = sum((each.float() * torch.randn(each.shape, device=DEVICE)).sum() for each in output)
    return list(torch.autograd.grad(total, inputs))


@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", SHAPES)
def test_add_norm_equals_its_definition(norm_class, shape):
    from seq2see.acceleration.add_norm import AddNorm

    norm, (stream, branch) = random_case(norm_class, shape)
    inputs = [stream, branch, *norm.parameters()]
    expected = norm(stream + branch, all_valid(shape))
    output = AddNorm.apply(stream, branch, norm.weight, bias_of(norm), 0.0, norm.eps)
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
    for actual, reference in zip(gradients_of([output], inputs), gradients_of([expected], inputs), strict=True):
        torch.testing.assert_close(actual, reference, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("copies", [1, 2])
def test_gradients_of_two_copies_are_added_and_the_gradient_of_the_branch_is_summed(norm_class, copies):
    from seq2see.acceleration.add_norm import AddNormDuplicate

    norm, (stream, branch) = random_case(norm_class, SHAPES[-1])
    inputs, async_grads = [stream, branch, *norm.parameters()], AsyncWeightGrads(torch.device(DEVICE))
    with async_grads.activate([], dict.fromkeys(map(id, norm.parameters()))):
        duplicates = AddNormDuplicate.apply(stream, branch, norm.weight, bias_of(norm), 0.3, norm.eps)
        dropped = duplicates[0].grad_fn.saved_tensors[0] - stream  # the branch after dropout
        expected = norm(stream + branch * (dropped / branch).detach(), all_valid(SHAPES[-1]))
        actual, reference = gradients_of(duplicates[:copies], inputs[:2]), gradients_of([expected] * copies, inputs)
        ((grad_branch, parts, sum_parts),) = async_grads.bias_sums.values()
        actual += [async_grads.grads[id(weight)] for weight in norm.parameters()]
    for left, right in zip(actual, reference, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)
    assert grad_branch.data_ptr() == actual[1].data_ptr()
    torch.testing.assert_close(sum_parts(parts), reference[1].flatten(0, -2).sum(0), rtol=1e-3, atol=1e-3)


def test_the_bias_gradient_is_that_of_the_norm_and_sublayers_use_the_second_copy(monkeypatch):
    monkeypatch.setattr("seq2see.layers.residual.can_fuse", lambda norm, vectors: True)
    monkeypatch.setattr("seq2see.acceleration.async_weight_grad.sum_rows", None)  # it must not be summed again
    blocks = [(PostNorm(LayerNorm(16).to(DEVICE), 0.0), nn.Linear(16, 16).to(DEVICE)) for _ in range(2)]
    weights = [weight for pair in blocks for each in pair for weight in each.parameters()]
    stream, async_grads = torch.randn(2, 5, 16, device=DEVICE), AsyncWeightGrads(torch.device(DEVICE))
    branch_inputs = []
    valid = all_valid(stream.shape)

    def run() -> Tensor:
        vectors = stream
        for residual, branch in blocks:
            vectors = residual(vectors, valid, lambda x, branch=branch: (branch_inputs.append(x), branch(x))[1])
        return (vectors * torch.arange(16, device=DEVICE)).square().sum()

    expected = torch.autograd.grad(run(), weights)
    branch_inputs.clear()
    with async_grads.activate([branch for _, branch in blocks], dict.fromkeys(map(id, weights))):
        run().backward()
        grads = async_grads.computed_grads
    assert branch_inputs[1].grad_fn.name().startswith("AddNormDuplicate")
    assert branch_inputs[1].output_nr == 1
    for weight, grad_output in zip(weights, expected, strict=True):
        torch.testing.assert_close(grads[id(weight)], grad_output, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=["sum", "norm", "both"])
def test_add_then_norm_equals_its_definition(norm_class, used):
    from seq2see.acceleration.add_norm import AddThenNorm

    norm, (stream, branch) = random_case(norm_class, SHAPES[-1])
    inputs = [stream, branch, *norm.parameters()]
    actual = AddThenNorm.apply(stream, branch, norm.weight, bias_of(norm), 0.3, norm.eps)
    total = stream + branch * ((actual[0] - stream) / branch).detach()  # the same elements are dropped
    reference = [total, norm(total, all_valid(SHAPES[-1]))]
    for left, right in zip(actual, reference, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4)
    actual, reference = (
        torch.autograd.grad(weighted_sum(some, used), inputs, allow_unused=True) for some in (actual, reference)
    )
    for left, right in zip(actual, reference, strict=True):
        right = torch.zeros_like(left) if right is None else right
        torch.testing.assert_close(left, right, rtol=1e-2, atol=1e-3)


def weighted_sum(output: tuple[Tensor, ...], used: tuple[int, ...]) -> Tensor:
    """A randomly weighted sum of the used outputs."""
    torch.manual_seed(2)
    return sum((output[each] * torch.randn(output[each].shape, device=DEVICE)).sum() for each in used)


class Stack(nn.Module):
    """Two sublayers on a residual stream, and a final norm."""

    def __init__(self) -> None:
        super().__init__()
        self.residuals = nn.ModuleList(PreNorm(norm(16), 0.0) for norm in (LayerNorm, RMSNorm))
        self.parts = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.final_norm = LayerNorm(16)

    def forward(self, vectors: Tensor, is_reversed: bool = False) -> Tensor:
        valid, pairs = all_valid(vectors.shape), list(zip(self.residuals, self.parts, strict=True))
        for residual, branch in reversed(pairs) if is_reversed else pairs:
            vectors = residual(vectors, valid, branch)
        return self.final_norm(vectors, valid)


def test_the_next_norm_is_known_from_the_step_before(monkeypatch):
    monkeypatch.setattr("seq2see.layers.residual.can_fuse", lambda norm, vectors: current_async_grads() is not None)
    stack, async_grads = Stack().to(DEVICE), AsyncWeightGrads(torch.device(DEVICE))
    stream = torch.randn(2, 5, 16, device=DEVICE, requires_grad=True)
    weights, grads = list(stack.parameters()), dict.fromkeys(map(id, stack.parameters()))
    sum_calls = []

    def sum_parts(rows: Tensor) -> Tensor:
        sum_calls.append(rows)
        return rows.sum(0)

    monkeypatch.setattr("seq2see.acceleration.async_weight_grad.sum_rows", sum_parts)
    # In the third step the sublayers have another order, so the expected norm is not the next one.
    for is_reversed, sums, ends in (
        (False, 2, "NativeLayerNorm"),
        (False, 0, "AddThenNorm"),
        (True, 0, "NativeLayerNorm"),
    ):
        expected = torch.autograd.grad(
            (stack(stream, is_reversed) * torch.arange(16, device=DEVICE)).square().sum(), weights
        )
        sum_calls.clear()
        with async_grads.activate(list(stack.parts), grads):
            output = stack(stream, is_reversed)
            assert output.grad_fn.name().startswith(ends)
            (output * torch.arange(16, device=DEVICE)).square().sum().backward()
            grads_by_id = async_grads.computed_grads | {
                id(each): each.grad for each in weights if each.grad is not None
            }
        assert len(sum_calls) == sums
        for name, grad_output in zip(dict(stack.named_parameters()), expected, strict=True):
            tolerance = 0.02 * float(grad_output.abs().max())
            torch.testing.assert_close(grads_by_id[id(stack.get_parameter(name))], grad_output, rtol=0, atol=tolerance)
        stack.zero_grad()
    assert not async_grads.next_norms.layer_outputs
    assert not async_grads.next_norms.normalized


@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_with_residual_equals_its_definition(norm_class, shape, dtype):
    from seq2see.acceleration.add_norm import NormWithResidual

    norm, (stream, _) = random_case(norm_class, shape)
    stream = stream.detach().to(dtype).requires_grad_()
    inputs = [stream, *norm.parameters()]
    expected = norm(stream.float(), all_valid(shape))
    passed, output = NormWithResidual.apply(stream, norm.weight, bias_of(norm), norm.eps)
    assert torch.equal(passed, stream)
    assert (output.dtype, passed.dtype) == (torch.bfloat16, dtype)
    torch.testing.assert_close(output.float(), expected, rtol=1e-2, atol=1e-2)
    for actual, reference in zip(
        gradients_of([passed, output], inputs), gradients_of([stream, expected], inputs), strict=True
    ):
        tolerance = 0.02 * float(reference.abs().max())
        torch.testing.assert_close(actual.float(), reference.float(), rtol=1e-2, atol=tolerance)


def test_the_dropout_mask_is_the_same_in_both_passes():
    from seq2see.acceleration.add_norm import AddNorm

    dropout_p, shape = 0.3, (5, 41, 512)
    stream, branch = torch.zeros(shape, device=DEVICE), torch.ones(shape, device=DEVICE).requires_grad_()
    weight, bias = torch.ones(512, device=DEVICE), torch.zeros(512, device=DEVICE)
    output = AddNorm.apply(stream, branch, weight, bias, dropout_p, 1e-5)
    kept = output > 0  # of zeros and ones, the ones are above the mean
    assert float(kept.float().mean()) == pytest.approx(1 - dropout_p, abs=0.005)
    (grad_output,) = gradients_of([output], [branch])
    assert torch.equal(grad_output != 0, kept)
    # Kept elements are scaled up, so that the expected sum stays the same.
    total = torch.ops.seq2see.add_norm(stream, branch, weight, bias, None, dropout_p, 1e-5)[1]
    assert float(total.detach().max()) == pytest.approx(1 / (1 - dropout_p))
    assert float(total.detach().mean()) == pytest.approx(1, abs=0.01)


def test_without_dropout_no_random_number_is_drawn():
    stream, ones = torch.zeros(1, 3, 16, device=DEVICE), torch.ones(16, device=DEVICE)
    draws = []
    for dropout_p in (0.0, 0.5):
        torch.manual_seed(1)
        torch.ops.seq2see.add_norm(stream, stream, ones, None, None, dropout_p, 1e-5)
        draws.append(float(torch.rand((), device=DEVICE)))
    torch.manual_seed(1)
    assert draws[0] == float(torch.rand((), device=DEVICE)) != draws[1]


def test_elements_are_dropped_independently_in_each_call():
    dropout_p, shape = 0.5, (1, 600, 64)
    stream, branch = torch.zeros(shape, device=DEVICE), torch.ones(shape, device=DEVICE)
    ones = torch.ones(64, device=DEVICE)
    draws = [torch.ops.seq2see.add_norm(stream, branch, ones, None, None, dropout_p, 1e-5)[1][0] > 0 for _ in range(2)]
    assert float((draws[0] == draws[1]).float().mean()) == pytest.approx(0.5, abs=0.02)
    correlation = torch.corrcoef(draws[0].float().T) - torch.eye(64, device=DEVICE)  # between columns
    assert float(correlation.abs().max()) < 0.2
    torch.manual_seed(3)
    first = torch.ops.seq2see.add_norm(stream, branch, ones, None, None, dropout_p, 1e-5)[1]
    torch.manual_seed(3)
    assert torch.equal(first, torch.ops.seq2see.add_norm(stream, branch, ones, None, None, dropout_p, 1e-5)[1])


@needs_gpu
@pytest.mark.parametrize("residual_class", [PostNorm, PreNorm])
@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_residual_on_a_gpu_is_near_that_of_a_cpu(residual_class, norm_class, compiled):
    norm, (stream, _) = random_case(norm_class, (3, 50, 96))
    residual, branch = residual_class(norm, 0.0), nn.Linear(96, 96).to(DEVICE)
    results = []
    for device in ("cuda", "cpu"):
        residual, branch = residual.to(device), branch.to(device)
        vectors = stream.detach().to(device).requires_grad_()
        run = torch.compile(residual) if compiled and device == "cuda" else residual
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            output = run(vectors, torch.ones(3, 50, dtype=torch.bool, device=device), branch)
        loss = (output.float() * torch.linspace(-1, 1, 96, device=device)).square().sum()
        inputs = torch.autograd.grad(loss, [vectors, *residual.parameters(), *branch.parameters()])
        results.append([each.float().cpu() for each in (output, *inputs)])
    for actual, reference in zip(*results, strict=True):
        torch.testing.assert_close(actual, reference, rtol=0, atol=0.03 * float(reference.detach().abs().max()))
