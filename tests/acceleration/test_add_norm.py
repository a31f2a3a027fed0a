"""The kernels for dropout, residual sum and norm equal the definitions, forward and backward.

Without a GPU triton interprets them, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads
from seq2see.acceleration.layers import bias_of, link_residuals
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.layers.norms_and_dropout import LayerNorm, PostNorm, PreNorm, RMSNorm

pytestmark = pytest.mark.triton
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(2, 3, 16), (3, 5, 24), (1, 1030, 8), (2, 300, 512), (1, 3, 1100)]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few programs, because the interpreter runs them one after another."""
    if DEVICE == "cpu":
        monkeypatch.setattr("seq2see.acceleration.add_norm.PROGRAMS", 4)


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
    output = AddNorm.apply(stream, branch, norm.weight, bias_of(norm), 0.0, norm.eps, None)
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
        duplicates = AddNormDuplicate.apply(stream, branch, norm.weight, bias_of(norm), 0.3, norm.eps, async_grads)
        dropped = duplicates[0].grad_fn.saved_tensors[0] - stream  # the branch after dropout
        expected = norm(stream + branch * (dropped / branch).detach(), all_valid(SHAPES[-1]))
        actual, reference = gradients_of(duplicates[:copies], inputs[:2]), gradients_of([expected] * copies, inputs)
        ((grad_branch, parts, sum_parts),) = async_grads.bias_sums.values()
        actual += [async_grads.grads[id(weight)] for weight in norm.parameters()]
    for left, right in zip(actual, reference, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)
    assert grad_branch.data_ptr() == actual[1].data_ptr()
    torch.testing.assert_close(sum_parts(parts), reference[1].flatten(0, -2).sum(0), rtol=1e-3, atol=1e-3)


class Block(nn.Module):
    """One sublayer with its residual connection."""

    def __init__(self, residual_class: type[nn.Module], norm_class: type[nn.Module]) -> None:
        super().__init__()
        self.residual, self.part = residual_class(norm_class(16), 0.0), nn.Linear(16, 16)


class Stack(nn.Module):
    """Three sublayers on a residual stream; a pre-norm stack has a final norm."""

    def __init__(self, residual_class: type[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(residual_class, norm) for norm in (LayerNorm, RMSNorm, LayerNorm))
        self.final_norm = residual_class.final_norm(LayerNorm(16))

    def forward(self, vectors: Tensor, is_reversed: bool = False) -> Tensor:
        valid = all_valid(vectors.shape)
        for block in reversed(self.blocks) if is_reversed else self.blocks:
            vectors = block.residual(vectors, valid, block.part)
        return vectors if self.final_norm is None else self.final_norm(vectors, valid)


def accelerated_stack(
    residual_class: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> tuple[Stack, AsyncWeightGrads]:
    """A stack with the fast classes of bf16 training, which run here in float32 while gradients are asynchronous."""
    stack, async_grads = Stack(residual_class).to(DEVICE), AsyncWeightGrads(torch.device(DEVICE), kernels=True)
    monkeypatch.setattr("seq2see.acceleration.layers.can_use_kernels", lambda vectors: async_grads.active)
    accelerate(stack, Conditions("cuda", True, "bf16", kernels=True), async_grads)
    return stack, async_grads


def plain_gradients(stack: Stack, stream: Tensor, is_reversed: bool = False) -> dict[str, Tensor]:
    """The gradients of all weights by autograd."""
    loss = (stack(stream, is_reversed) * torch.arange(16, device=DEVICE)).square().sum()
    weights = dict(stack.named_parameters())
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))


def test_the_bias_gradient_is_that_of_the_norm_and_sublayers_use_the_second_copy(monkeypatch):
    stack, async_grads = accelerated_stack(PostNorm, monkeypatch)
    stream, branch_inputs = torch.randn(2, 5, 16, device=DEVICE), []
    expected = plain_gradients(stack, stream)
    monkeypatch.setattr("seq2see.acceleration.async_weight_grad.sum_rows", None)  # it must not be summed again
    for block in stack.blocks:
        block.part.register_forward_hook(lambda part, inputs, output: branch_inputs.append(inputs[0]))
    with async_grads.activate([block.part for block in stack.blocks], dict.fromkeys(map(id, stack.parameters()))):
        (stack(stream) * torch.arange(16, device=DEVICE)).square().sum().backward()
        grads = async_grads.computed_grads
    assert [each.output_nr for each in branch_inputs[1:]] == [1, 1]
    assert all(each.grad_fn.name().startswith("AddNormDuplicate") for each in branch_inputs[1:])
    for name, weight in stack.named_parameters():
        torch.testing.assert_close(grads[id(weight)], expected[name], rtol=1e-3, atol=1e-3)
    assert all(block.residual.duplicate is None for block in stack.blocks)


@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=["sum", "norm", "both"])
def test_add_then_norm_equals_its_definition(norm_class, used):
    from seq2see.acceleration.add_norm import AddThenNorm

    norm, (stream, branch) = random_case(norm_class, SHAPES[-1])
    inputs = [stream, branch, *norm.parameters()]
    actual = AddThenNorm.apply(stream, branch, norm.weight, bias_of(norm), 0.3, norm.eps, None)
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


def test_the_next_norm_is_known_from_the_order_of_the_blocks(monkeypatch):
    stack, async_grads = accelerated_stack(PreNorm, monkeypatch)
    stream = torch.randn(2, 5, 16, device=DEVICE, requires_grad=True)
    sum_calls, parts = [], [block.part for block in stack.blocks]

    def sum_rows(rows: Tensor) -> Tensor:
        sum_calls.append(rows)
        return rows.sum(0)

    monkeypatch.setattr("seq2see.acceleration.async_weight_grad.sum_rows", sum_rows)
    # In the second step the sublayers have another order, so the expected norm is not the next one.
    for is_reversed, ends in ((False, "AddThenNorm"), (True, "NativeLayerNorm"), (False, "AddThenNorm")):
        expected = plain_gradients(stack, stream, is_reversed)
        sum_calls.clear()
        with async_grads.activate(parts, dict.fromkeys(map(id, stack.parameters()))):
            output = stack(stream, is_reversed)
            assert output.grad_fn.name().startswith(ends)
            (output * torch.arange(16, device=DEVICE)).square().sum().backward()
            grads = async_grads.computed_grads | {
                id(each): each.grad for each in stack.parameters() if each.grad is not None
            }
        assert not sum_calls
        for name, reference in expected.items():
            tolerance = 0.02 * float(reference.abs().max())
            torch.testing.assert_close(grads[id(stack.get_parameter(name))], reference, rtol=0, atol=tolerance)
        stack.zero_grad()


@pytest.mark.parametrize("residual_class", [PostNorm, PreNorm])
def test_links_follow_the_order_in_which_residual_connections_run(residual_class):
    stack = Stack(residual_class)
    accelerate(stack, Conditions("cuda", True, "bf16", kernels=True))
    residuals, ran = [block.residual for block in stack.blocks], []
    for each in residuals:
        each.register_forward_hook(lambda residual, *_: ran.append(residual))
    stack.cpu()(torch.randn(2, 3, 16))
    assert ran == residuals
    if residual_class is PostNorm:
        assert [each.after for each in residuals] == [(residuals[1],), (residuals[2],), ()]
    else:
        norms = [residuals[1].norm, residuals[2].norm, stack.final_norm]
        assert [each.norm_after for each in residuals] == [(norm,) for norm in norms]
    link_residuals(stack)  # twice is once
    assert len(stack.state_dict()) == len(Stack(residual_class).state_dict())  # a link is no submodule


@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_with_residual_equals_its_definition(norm_class, shape, dtype):
    from seq2see.acceleration.add_norm import NormWithResidual

    norm, (stream, _) = random_case(norm_class, shape)
    stream = stream.detach().to(dtype).requires_grad_()
    inputs = [stream, *norm.parameters()]
    expected = norm(stream.float(), all_valid(shape))
    passed, output = NormWithResidual.apply(stream, norm.weight, bias_of(norm), norm.eps, None)
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
    output = AddNorm.apply(stream, branch, weight, bias, dropout_p, 1e-5, None)
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


@pytest.mark.usefixtures("compilable")
@needs_gpu
@pytest.mark.parametrize("residual_class", [PostNorm, PreNorm])
@pytest.mark.parametrize("norm_class", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_residual_on_a_gpu_is_near_that_of_a_cpu(residual_class, norm_class, compiled):
    norm, (stream, _) = random_case(norm_class, (3, 50, 96))
    residual, branch = residual_class(norm, 0.0), nn.Linear(96, 96).to(DEVICE)
    accelerate(residual, Conditions("cuda", True, "bf16", kernels=True))
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
