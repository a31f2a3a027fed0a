"""The kernels around a norm give what the plain formulas give, forward and backward.

Without a GPU triton interprets them, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from seq2see.kernels.async_weight_grad import AsyncWeightGrads, current_async_grads
from seq2see.layers.norms import LayerNorm, RMSNorm
from seq2see.layers.residual import PostNorm, PreNorm, bias_of

pytestmark = pytest.mark.triton
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(2, 3, 16), (3, 5, 24), (1, 1030, 8), (2, 300, 512), (1, 3, 1100)]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted one after another, programs need not be as many as keep a GPU busy."""
    if DEVICE == "cpu":
        monkeypatch.setattr("seq2see.kernels.add_norm_kernels.PROGRAMS", 4)


def case(kind: type[nn.Module], shape: tuple[int, ...]) -> tuple[nn.Module, list[Tensor]]:
    """A norm that has learned something, and vectors far from mean 0 and variance 1."""
    torch.manual_seed(1)
    norm = kind(shape[-1], 1e-3).to(DEVICE)
    for weight in norm.parameters():
        nn.init.uniform_(weight, -1, 2)
    return norm, [(3 * torch.randn(shape, device=DEVICE) + 1).requires_grad_() for _ in range(2)]


def everywhere(shape: tuple[int, ...]) -> Tensor:
    """No padding."""
    return torch.ones(shape[:2], dtype=torch.bool, device=DEVICE)


def gradients_of(found: list[Tensor], by: list[Tensor]) -> list[Tensor]:
    """The slopes of a sum in which every number of what was found counts differently."""
    torch.manual_seed(2)
    total = sum((each.float() * torch.randn(each.shape, device=DEVICE)).sum() for each in found)
    return list(torch.autograd.grad(total, by))


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_norm_of_a_sum_is_the_plain_one(kind, shape):
    from seq2see.kernels.add_norm import AddNorm

    norm, (stream, branch) = case(kind, shape)
    by = [stream, branch, *norm.parameters()]
    expected = norm(stream + branch, everywhere(shape))
    found = AddNorm.apply(stream, branch, norm.weight, bias_of(norm), 0.0, norm.eps)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for actual, theirs in zip(gradients_of([found], by), gradients_of([expected], by), strict=True):
        torch.testing.assert_close(actual, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("readers", [1, 2])
def test_who_reads_it_twice_sends_two_slopes_back_and_the_slope_by_the_part_is_summed(kind, readers):
    from seq2see.kernels.add_norm import AddNormDuplicate

    norm, (stream, branch) = case(kind, SHAPES[-1])
    by, async_grads = [stream, branch, *norm.parameters()], AsyncWeightGrads(torch.device(DEVICE))
    with async_grads.activate([], dict.fromkeys(map(id, norm.parameters()))):
        forked = AddNormDuplicate.apply(stream, branch, norm.weight, bias_of(norm), 0.3, norm.eps)
        dropped = forked[0].grad_fn.saved_tensors[0] - stream  # which is not what was given, but what stayed of it
        expected = norm(stream + branch * (dropped / branch).detach(), everywhere(SHAPES[-1]))
        actual, theirs = gradients_of(forked[:readers], by[:2]), gradients_of([expected] * readers, by)
        ((by_part, parts, sum_parts),) = async_grads.sums.values()
        actual += [async_grads.grads[id(weight)] for weight in norm.parameters()]
    for mine, other in zip(actual, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)
    assert by_part.data_ptr() == actual[1].data_ptr()
    torch.testing.assert_close(sum_parts(parts), theirs[1].flatten(0, -2).sum(0), rtol=1e-3, atol=1e-3)


def test_what_stands_beside_is_given_the_biases_slope_by_the_norm_and_parts_read_the_second_of_two(monkeypatch):
    monkeypatch.setattr("seq2see.layers.residual.fits", lambda norm, vectors: True)
    monkeypatch.setattr("seq2see.kernels.async_grads.sum_rows", None)  # it need not be summed once more
    blocks = [(PostNorm(LayerNorm(16).to(DEVICE), 0.0), nn.Linear(16, 16).to(DEVICE)) for _ in range(2)]
    weights = [weight for pair in blocks for each in pair for weight in each.parameters()]
    stream, async_grads, read = torch.randn(2, 5, 16, device=DEVICE), AsyncWeightGrads(torch.device(DEVICE)), []
    valid = everywhere(stream.shape)

    def run() -> Tensor:
        vectors = stream
        for around, branch in blocks:
            vectors = around(vectors, valid, lambda x, branch=branch: (read.append(x), branch(x))[1])
        return (vectors * torch.arange(16, device=DEVICE)).square().sum()

    expected = torch.autograd.grad(run(), weights)
    read.clear()
    with async_grads.activate([branch for _, branch in blocks], dict.fromkeys(map(id, weights))):
        run().backward()
        found = async_grads.found
    assert read[1].grad_fn.name().startswith("ForkedNormOfSum")
    assert read[1].output_nr == 1
    for weight, grad_output in zip(weights, expected, strict=True):
        torch.testing.assert_close(found[id(weight)], grad_output, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("read", [(0,), (1,), (0, 1)], ids=["the sum", "its norm", "both"])
def test_a_sum_and_the_norm_of_it_in_one_walk_are_the_plain_ones(kind, read):
    from seq2see.kernels.add_norm import AddThenNorm

    norm, (stream, branch) = case(kind, SHAPES[-1])
    by = [stream, branch, *norm.parameters()]
    actual = AddThenNorm.apply(stream, branch, norm.weight, bias_of(norm), 0.3, norm.eps)
    total = stream + branch * ((actual[0] - stream) / branch).detach()  # the same numbers have fallen out
    theirs = [total, norm(total, everywhere(SHAPES[-1]))]
    for mine, other in zip(actual, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    actual, theirs = (torch.autograd.grad(weighed(some, read), by, allow_unused=True) for some in (actual, theirs))
    for mine, other in zip(actual, theirs, strict=True):
        other = torch.zeros_like(mine) if other is None else other
        torch.testing.assert_close(mine, other, rtol=1e-2, atol=1e-3)


def weighed(found: tuple[Tensor, ...], read: tuple[int, ...]) -> Tensor:
    """A sum in which every number of what is read counts differently."""
    torch.manual_seed(2)
    return sum((found[each] * torch.randn(found[each].shape, device=DEVICE)).sum() for each in read)


class Stack(nn.Module):
    """Two parts on a stream, and a norm at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.arounds = nn.ModuleList(PreNorm(norm(16), 0.0) for norm in (LayerNorm, RMSNorm))
        self.parts = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.final_norm = LayerNorm(16)

    def forward(self, vectors: Tensor, turned: bool = False) -> Tensor:
        valid, pairs = everywhere(vectors.shape), list(zip(self.arounds, self.parts, strict=True))
        for around, branch in reversed(pairs) if turned else pairs:
            vectors = around(vectors, valid, branch)
        return self.final_norm(vectors, valid)


def test_who_reads_the_stream_next_is_known_from_the_step_before(monkeypatch):
    monkeypatch.setattr("seq2see.layers.residual.fits", lambda norm, vectors: current_async_grads() is not None)
    stack, async_grads = Stack().to(DEVICE), AsyncWeightGrads(torch.device(DEVICE))
    stream = torch.randn(2, 5, 16, device=DEVICE, requires_grad=True)
    weights, grads = list(stack.parameters()), dict.fromkeys(map(id, stack.parameters()))
    by_hand = []

    def sum_parts(rows: Tensor) -> Tensor:
        by_hand.append(rows)
        return rows.sum(0)

    monkeypatch.setattr("seq2see.kernels.async_grads.sum_rows", sum_parts)
    # In the third step the parts come in another order: whoever was expected to read the stream does not.
    for turned, sums, ends in ((False, 2, "NativeLayerNorm"), (False, 0, "SumThenNorm"), (True, 0, "NativeLayerNorm")):
        expected = torch.autograd.grad(
            (stack(stream, turned) * torch.arange(16, device=DEVICE)).square().sum(), weights
        )
        by_hand.clear()
        with async_grads.activate(list(stack.parts), grads):
            found = stack(stream, turned)
            assert found.grad_fn.name().startswith(ends)
            (found * torch.arange(16, device=DEVICE)).square().sum().backward()
            slopes_found = async_grads.found | {id(each): each.grad for each in weights if each.grad is not None}
        assert len(by_hand) == sums
        for name, grad_output in zip(dict(stack.named_parameters()), expected, strict=True):
            near = 0.02 * float(grad_output.abs().max())
            torch.testing.assert_close(slopes_found[id(stack.get_parameter(name))], grad_output, rtol=0, atol=near)
        stack.zero_grad()
    assert not async_grads.next_norms.layer_outputs
    assert not async_grads.next_norms.normalized


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_norm_beside_the_stream_is_the_plain_one(kind, shape, dtype):
    from seq2see.kernels.add_norm import NormWithResidual

    norm, (stream, _) = case(kind, shape)
    stream = stream.detach().to(dtype).requires_grad_()
    by = [stream, *norm.parameters()]
    expected = norm(stream.float(), everywhere(shape))
    passed, found = NormWithResidual.apply(stream, norm.weight, bias_of(norm), norm.eps)
    assert torch.equal(passed, stream)
    assert (found.dtype, passed.dtype) == (torch.bfloat16, dtype)
    torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-2)
    for actual, theirs in zip(gradients_of([passed, found], by), gradients_of([stream, expected], by), strict=True):
        near = 0.02 * float(theirs.abs().max())
        torch.testing.assert_close(actual.float(), theirs.float(), rtol=1e-2, atol=near)


def test_what_falls_out_on_the_way_forward_falls_out_on_the_way_back():
    from seq2see.kernels.add_norm import AddNorm

    dropout_p, shape = 0.3, (5, 41, 512)
    stream, branch = torch.zeros(shape, device=DEVICE), torch.ones(shape, device=DEVICE).requires_grad_()
    weight, bias = torch.ones(512, device=DEVICE), torch.zeros(512, device=DEVICE)
    found = AddNorm.apply(stream, branch, weight, bias, dropout_p, 1e-5)
    stayed = found > 0  # of zeros and ones, the ones lie above the mean
    assert float(stayed.float().mean()) == pytest.approx(1 - dropout_p, abs=0.005)
    (grad_output,) = gradients_of([found], [branch])
    assert torch.equal(grad_output != 0, stayed)
    # What stays grows, so that sums stay what they were.
    total = torch.ops.seq2see.add_norm(stream, branch, weight, bias, None, dropout_p, 1e-5)[1]
    assert float(total.detach().max()) == pytest.approx(1 / (1 - dropout_p))
    assert float(total.detach().mean()) == pytest.approx(1, abs=0.01)


def test_where_nothing_falls_out_nothing_is_drawn():
    stream, ones = torch.zeros(1, 3, 16, device=DEVICE), torch.ones(16, device=DEVICE)
    draws = []
    for dropout_p in (0.0, 0.5):
        torch.manual_seed(1)
        torch.ops.seq2see.add_norm(stream, stream, ones, None, None, dropout_p, 1e-5)
        draws.append(float(torch.rand((), device=DEVICE)))
    torch.manual_seed(1)
    assert draws[0] == float(torch.rand((), device=DEVICE)) != draws[1]


def test_numbers_fall_out_independently_and_anew_each_time():
    dropout_p, shape = 0.5, (1, 600, 64)
    stream, branch = torch.zeros(shape, device=DEVICE), torch.ones(shape, device=DEVICE)
    ones = torch.ones(64, device=DEVICE)
    draws = [torch.ops.seq2see.add_norm(stream, branch, ones, None, None, dropout_p, 1e-5)[1][0] > 0 for _ in range(2)]
    assert float((draws[0] == draws[1]).float().mean()) == pytest.approx(0.5, abs=0.02)
    agreeing = torch.corrcoef(draws[0].float().T) - torch.eye(64, device=DEVICE)  # columns with one another
    assert float(agreeing.abs().max()) < 0.2
    torch.manual_seed(3)
    first = torch.ops.seq2see.add_norm(stream, branch, ones, None, None, dropout_p, 1e-5)[1]
    torch.manual_seed(3)
    assert torch.equal(first, torch.ops.seq2see.add_norm(stream, branch, ones, None, None, dropout_p, 1e-5)[1])


@needs_gpu
@pytest.mark.parametrize("order", [PostNorm, PreNorm])
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_residual_on_a_gpu_is_near_that_of_a_cpu(order, kind, compiled):
    norm, (stream, _) = case(kind, (3, 50, 96))
    around, branch = order(norm, 0.0), nn.Linear(96, 96).to(DEVICE)
    results = []
    for device in ("cuda", "cpu"):
        around, branch = around.to(device), branch.to(device)
        vectors = stream.detach().to(device).requires_grad_()
        run = torch.compile(around) if compiled and device == "cuda" else around
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device == "cuda"):
            found = run(vectors, torch.ones(3, 50, dtype=torch.bool, device=device), branch)
        counted = (found.float() * torch.linspace(-1, 1, 96, device=device)).square().sum()
        by = torch.autograd.grad(counted, [vectors, *around.parameters(), *branch.parameters()])
        results.append([each.float().cpu() for each in (found, *by)])
    for actual, theirs in zip(*results, strict=True):
        torch.testing.assert_close(actual, theirs, rtol=0, atol=0.03 * float(theirs.detach().abs().max()))
