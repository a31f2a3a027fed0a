"""The attention kernels for short sequences equal eager attention, forward and backward.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, plain_sum
from seq2see.acceleration.attention import can_use_short_attention, split_projection
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.core.batch import Sequences
from seq2see.layers.attention import CrossAttention, SelfAttention, eager_attention, split_heads
from seq2see.layers.masks import AttentionMask, causal_mask, full_mask

pytestmark = [
    pytest.mark.triton,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # infinities that are masked afterwards
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE, TOLERANCE = (torch.bfloat16, 0.02) if torch.cuda.is_available() else (torch.float32, 1e-5)

CASES = [  # queries, keys, head size, causal, rows and queries of the mask
    (32, 32, 64, True, None),
    (7, 7, 16, True, None),
    (20, 33, 32, False, (3, 20)),
    (20, 33, 32, False, (3, 1)),
    (20, 33, 32, False, (1, 20)),
    (128, 128, 64, False, (3, 128)),
    (100, 128, 64, False, None),
    (1, 5, 64, False, None),
]


def random_heads(rows: int, heads: int, times: int, size: int, parts: int) -> list[Tensor]:
    """Heads as views of one projection: not contiguous."""
    projected = torch.randn(rows, times, parts * heads * size, device=DEVICE, dtype=DTYPE)
    return [part.unflatten(-1, (heads, size)).transpose(1, 2) for part in projected.chunk(parts, dim=-1)]


def random_mask(rows: int, queries: int, keys: int) -> Tensor:
    """A random mask; the first query of the first row has no visible key."""
    mask = torch.rand(rows, 1, queries, keys, device=DEVICE) > 0.4
    mask[0, 0, 0] = False
    return mask


@pytest.mark.parametrize("queries, keys, size, is_causal, mask_shape", CASES)
def test_outputs_and_gradients_equal_eager_attention(queries, keys, size, is_causal, mask_shape):
    from seq2see.acceleration.short_attention import short_attention

    torch.manual_seed(1)
    q, (k, v) = random_heads(3, 2, queries, size, 1)[0], random_heads(3, 2, keys, size, 2)
    mask = random_mask(*mask_shape, keys) if mask_shape else None
    grad_output = torch.randn_like(q)
    fused, expected = [], []
    for attend, dtype, results in ((short_attention, DTYPE, fused), (eager_attention, torch.float64, expected)):
        parts = [each.detach().to(dtype).requires_grad_() for each in (q, k, v)]
        mask_inputs = (mask, is_causal) if attend is short_attention else (AttentionMask(mask, is_causal),)
        output = attend(*parts, *mask_inputs)
        results += [output, *torch.autograd.grad(output, parts, grad_output.to(dtype))]
    for actual, reference in zip(fused, expected, strict=True):
        assert actual.dtype == DTYPE
        torch.testing.assert_close(
            actual.double(), reference, rtol=0, atol=TOLERANCE * float(reference.detach().abs().max())
        )


@pytest.mark.parametrize("layout", ["one projection", "two tensors", "swapped"])
def test_gradients_of_keys_and_values_of_one_projection_are_joined_without_a_copy(layout, monkeypatch):
    from seq2see.acceleration.short_attention import short_attention

    torch.manual_seed(1)
    queries, projected = (
        torch.randn(2, 5, 32, device=DEVICE, dtype=DTYPE),
        torch.randn(2, 9, 64, device=DEVICE, dtype=DTYPE),
    )
    grads = []
    for device in ("none", DEVICE):
        q, kv = (each.clone().requires_grad_() for each in (queries, projected))
        async_grads = AsyncWeightGrads(torch.device(DEVICE), kernels=True) if device != "none" else None
        with async_grads.activate([], {}) if async_grads else nullcontext():
            keys, values = split_projection(kv, (2, 2), async_grads)
            values = 2 * values if layout == "two tensors" else values
            if layout == "swapped":
                keys, values = values, keys
            output = short_attention(split_heads(q, 2), keys, values, None, False, async_grads)
            if device != "none" and layout == "one projection":
                monkeypatch.setattr(torch, "cat", None)
            grads.append(torch.autograd.grad(output.square().sum(), [q, kv]))
    for actual, reference in zip(*grads, strict=True):
        torch.testing.assert_close(actual, reference, rtol=0, atol=TOLERANCE * float(reference.abs().max()))


@pytest.mark.parametrize("kind", ["self", "cross"])
@pytest.mark.parametrize("max_rows", [2048, 2])
def test_bias_gradients_come_from_the_attention_kernel(kind, max_rows, monkeypatch):
    from seq2see.acceleration.short_attention import short_attention, short_self_attention

    monkeypatch.setattr("seq2see.acceleration.short_attention.MAX_ROWS", max_rows)
    sum_calls = []
    monkeypatch.setattr(
        "seq2see.acceleration.async_weight_grad.sum_rows",
        lambda rows, *out: (sum_calls.append(rows), plain_sum(rows, *out))[1],
    )
    torch.manual_seed(1)
    projections = [nn.Linear(32, width).to(DEVICE, DTYPE) for width in ((96,) if kind == "self" else (32, 64))]
    queries, memory = (torch.randn(3, times, 32, device=DEVICE, dtype=DTYPE) for times in (7, 20))

    def loss(async_grads: AsyncWeightGrads | None = None) -> Tensor:
        if kind == "self":
            return short_self_attention(projections[0](queries), 2, None, True, async_grads).square().sum()
        q, (keys, values) = (
            split_heads(projections[0](queries), 2),
            split_projection(projections[1](memory), (2, 2), async_grads),
        )
        return short_attention(q, keys, values, None, False, async_grads).square().sum()

    weights = [weight for layer in projections for weight in layer.parameters()]
    expected = torch.autograd.grad(loss(), weights)
    async_grads = AsyncWeightGrads(torch.device(DEVICE), kernels=True)
    with async_grads.activate(projections, dict.fromkeys(map(id, weights))):
        loss(async_grads).backward()
        grads = async_grads.computed_grads
    # The kernel that joins the gradients of keys and values sums them, if the attention kernel has not.
    assert len(sum_calls) == (0 if max_rows == 2048 else 1)
    for weight, reference in zip(weights, expected, strict=True):
        actual = grads[id(weight)].to(DTYPE)
        torch.testing.assert_close(actual, reference, rtol=0, atol=TOLERANCE * float(reference.abs().max()))


def test_the_memory_layout_of_the_inputs_has_no_influence():
    from seq2see.acceleration.short_attention import short_attention

    torch.manual_seed(1)
    parts = random_heads(2, 3, 20, 16, 3)
    layouts = (lambda part: part.contiguous(), lambda part: part.mT.contiguous().mT)
    expected = short_attention(*parts, None, True)
    for change_layout in layouts:
        assert torch.equal(short_attention(*map(change_layout, parts), None, True), expected)


def test_the_memory_layout_of_the_gradient_has_no_influence():
    from seq2see.acceleration.short_attention import short_attention

    torch.manual_seed(1)
    parts = [part.requires_grad_() for part in random_heads(2, 3, 20, 16, 3)]
    grad_output = torch.randn(2, 20, 3, 16, device=DEVICE, dtype=DTYPE).transpose(1, 2)  # the layout of merged heads
    layouts = (lambda part: part.contiguous(), lambda part: part.mT.contiguous().mT)
    expected = torch.autograd.grad(short_attention(*parts, None, True), parts, grad_output)
    for change_layout in layouts:
        output = torch.autograd.grad(short_attention(*parts, None, True), parts, change_layout(grad_output))
        assert all(map(torch.equal, output, expected))
    # The gradient of a sum is an expanded scalar, with strides of 0.
    of_sum = torch.autograd.grad(short_attention(*parts, None, True).sum(), parts)
    ones = torch.autograd.grad(short_attention(*parts, None, True), parts, torch.ones_like(grad_output))
    assert all(map(torch.equal, of_sum, ones))


@pytest.mark.parametrize("is_causal", [True, False])
def test_self_attention_of_one_projection_equals_attention_of_its_parts(is_causal):
    from seq2see.acceleration.short_attention import short_attention, short_self_attention

    torch.manual_seed(1)
    rows, heads, times, size = 3, 2, 20, 16
    projected = torch.randn(rows, times, 3 * heads * size, device=DEVICE, dtype=DTYPE).requires_grad_()
    mask = None if is_causal else random_mask(rows, times, times)
    parts = [part.unflatten(-1, (heads, size)).transpose(1, 2) for part in projected.chunk(3, dim=-1)]
    expected = short_attention(*parts, mask, is_causal).transpose(1, 2).flatten(2)
    output = short_self_attention(projected, heads, mask, is_causal)
    assert torch.equal(output, expected)
    for grad_output in (torch.randn_like(output), torch.ones(1, device=DEVICE, dtype=DTYPE).expand_as(output)):
        reference = torch.autograd.grad(expected, projected, grad_output, retain_graph=True)
        assert torch.equal(*reference, *torch.autograd.grad(output, projected, grad_output, retain_graph=True))


def test_it_is_a_valid_torch_operator():
    """Its registered shapes, its gradient, and its behavior in torch.compile."""
    import seq2see.acceleration.short_attention  # noqa: F401

    parts = [part.detach().requires_grad_() for part in random_heads(2, 3, 20, 16, 3)]
    torch.library.opcheck(torch.ops.seq2see.short_attention.default, (*parts, random_mask(2, 20, 20), False))


CALL_SCRIPT = """
import sys, torch
from seq2see.acceleration.short_attention import short_attention
part = torch.randn(1, 1, 4, 16, device=sys.argv[1], requires_grad=True)
short_attention(part, part, part, None, True).sum().backward()
assert part.grad is not None
sys.exit("torch._dynamo" in sys.modules)
"""


def test_a_call_does_not_import_the_compiler():
    subprocess.run([sys.executable, "-c", CALL_SCRIPT, DEVICE], check=True, timeout=100)


@needs_gpu
def test_it_is_for_supported_inputs_only():
    def supported(length: int, size: int, change=lambda part: part.detach().requires_grad_()) -> bool:
        q, k, _ = (change(part) for part in random_heads(2, 2, length, size, 3))
        return can_use_short_attention(q, k, causal_mask())

    assert supported(128, 64)
    assert not supported(128, 64, lambda part: part.float().requires_grad_())
    assert not supported(129, 64)
    assert not supported(9, 48)
    assert not supported(128, 64, torch.Tensor.detach)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("kind", ["self", "cross", "hooked"])
def test_a_layer_runs_it_if_it_is_allowed_and_its_output_is_that_of_the_definition(kind, allowed, monkeypatch):
    from seq2see.acceleration import short_attention

    calls: list[str] = []
    for name in ("short_attention", "short_self_attention"):
        kernel = getattr(short_attention, name)
        monkeypatch.setattr(
            short_attention, name, lambda *inputs, name=name, kernel=kernel: calls.append(name) or kernel(*inputs)
        )
    monkeypatch.setattr("seq2see.acceleration.attention.can_use_short_attention", lambda *inputs: True)
    layer = (CrossAttention(32, 2, 32) if kind == "cross" else SelfAttention(32, 2)).to(DEVICE)
    vectors = torch.randn(2, 7, 32, device=DEVICE, requires_grad=True)
    memory = Sequences(vectors, torch.full((2,), 7, device=DEVICE))
    if kind == "hooked":
        layer.hook = lambda record: None

    def run() -> Tensor:
        if kind != "cross":
            return layer(vectors, causal_mask())
        return layer(vectors, layer.project_memory(memory), full_mask())

    expected = run()
    accelerate(layer, Conditions("cuda", True, "bf16", kernels=allowed))
    tolerance = 1e-5 if DEVICE == "cpu" else 2e-3  # the kernel is for bf16: on a GPU its products of float32 are TF32
    torch.testing.assert_close(run(), expected, rtol=1e-4, atol=tolerance)
    assert calls == [{"self": "short_self_attention"}.get(kind, "short_attention")] * allowed


@pytest.mark.usefixtures("compilable")
@needs_gpu
def test_compiled_attention_is_equal():
    torch.manual_seed(1)
    layer = nn.ModuleList([SelfAttention(128, 2)]).cuda()[0]
    accelerate(layer, Conditions("cuda", True, "bf16", kernels=True))
    vectors = torch.randn(4, 20, 128, device="cuda", requires_grad=True)
    results = []
    for run in (layer, torch.compile(layer, dynamic=False)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = run(vectors, causal_mask())
        results.append([output, *torch.autograd.grad(output.float().square().sum(), [vectors, *layer.parameters()])])
    for actual, reference in zip(*results, strict=True):
        torch.testing.assert_close(
            actual.float(), reference.float(), rtol=0, atol=0.02 * float(reference.detach().abs().max())
        )
