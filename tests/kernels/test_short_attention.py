"""The kernel for short texts gives what the plain formula gives, forward and backward.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from seq2see.kernels.async_layers import pieces as pieces_of
from seq2see.kernels.async_weight_grad import AsyncWeightGrads, plain_sum
from seq2see.layers.attention import SelfAttention, eager_attention, fused_attention, split_heads
from seq2see.layers.masks import AttentionMask, causal_mask

pytestmark = [
    pytest.mark.triton,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # infinities that are masked afterwards
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE, NEAR = (torch.bfloat16, 0.02) if torch.cuda.is_available() else (torch.float32, 1e-5)

CASES = [  # queries, keys, size of a head, causal, rows and queries of the table
    (32, 32, 64, True, None),
    (7, 7, 16, True, None),
    (20, 33, 32, False, (3, 20)),
    (20, 33, 32, False, (3, 1)),
    (20, 33, 32, False, (1, 20)),
    (128, 128, 64, False, (3, 128)),
    (100, 128, 64, False, None),
    (1, 5, 64, False, None),
]


def pieces(rows: int, heads: int, times: int, size: int, parts: int) -> list[Tensor]:
    """Parts of one product, as a layer cuts them: not contiguous."""
    product = torch.randn(rows, times, parts * heads * size, device=DEVICE, dtype=DTYPE)
    return [part.unflatten(-1, (heads, size)).transpose(1, 2) for part in product.chunk(parts, dim=-1)]


def table_for(rows: int, queries: int, keys: int) -> Tensor:
    """Anything may be hidden; the first query of the first row may look at nothing."""
    mask = torch.rand(rows, 1, queries, keys, device=DEVICE) > 0.4
    mask[0, 0, 0] = False
    return mask


@pytest.mark.parametrize("queries, keys, size, is_causal, told", CASES)
def test_it_is_the_plain_formula_in_the_output_and_in_every_gradient(queries, keys, size, is_causal, told):
    from seq2see.kernels.short_attention import short_attention

    torch.manual_seed(1)
    q, (k, v) = pieces(3, 2, queries, size, 1)[0], pieces(3, 2, keys, size, 2)
    mask = table_for(*told, keys) if told else None
    grad_output = torch.randn_like(q)
    found, expected = [], []
    for way, dtype, results in ((short_attention, DTYPE, found), (eager_attention, torch.float64, expected)):
        parts = [each.detach().to(dtype).requires_grad_() for each in (q, k, v)]
        attention_forward = (mask, is_causal) if way is short_attention else (AttentionMask(mask, is_causal),)
        output = way(*parts, *attention_forward)
        results += [output, *torch.autograd.grad(output, parts, grad_output.to(dtype))]
    for actual, theirs in zip(found, expected, strict=True):
        assert actual.dtype == DTYPE
        torch.testing.assert_close(actual.double(), theirs, rtol=0, atol=NEAR * float(theirs.detach().abs().max()))


@pytest.mark.parametrize("others", ["one product", "two products", "the other way round"])
def test_slopes_by_keys_and_values_of_one_product_are_not_copied_together(others, monkeypatch):
    from seq2see.kernels.short_attention import short_attention

    torch.manual_seed(1)
    queries, product = (
        torch.randn(2, 5, 32, device=DEVICE, dtype=DTYPE),
        torch.randn(2, 9, 64, device=DEVICE, dtype=DTYPE),
    )
    found = []
    for device in ("none", DEVICE):
        q, both = (each.clone().requires_grad_() for each in (queries, product))
        with AsyncWeightGrads(torch.device(DEVICE)).activate([], {}) if device != "none" else nullcontext():
            keys, values = pieces_of(both, 2, 2)
            values = 2 * values if others == "two products" else values
            if others == "the other way round":
                keys, values = values, keys
            output = short_attention(split_heads(q, 2), keys, values, None, False)
            if device != "none" and others == "one product":
                monkeypatch.setattr(torch, "cat", None)
            found.append(torch.autograd.grad(output.square().sum(), [q, both]))
    for actual, theirs in zip(*found, strict=True):
        torch.testing.assert_close(actual, theirs, rtol=0, atol=NEAR * float(theirs.abs().max()))


@pytest.mark.parametrize("at", ["itself", "others"])
@pytest.mark.parametrize("most", [2048, 2])
def test_biases_get_their_slopes_from_who_looks(at, most, monkeypatch):
    from seq2see.kernels.short_attention import short_attention, short_self_attention

    monkeypatch.setattr("seq2see.kernels.short_attention.MOST", most)
    sum_over_rows = []
    monkeypatch.setattr(
        "seq2see.kernels.async_grads.sum_rows",
        lambda rows, *place: (sum_over_rows.append(rows), plain_sum(rows, *place))[1],
    )
    torch.manual_seed(1)
    products = [nn.Linear(32, width).to(DEVICE, DTYPE) for width in ((96,) if at == "itself" else (32, 64))]
    here, there = (torch.randn(3, times, 32, device=DEVICE, dtype=DTYPE) for times in (7, 20))

    def attention_forward() -> Tensor:
        if at == "itself":
            return short_self_attention(products[0](here), 2, None, True).square().sum()
        keys, values = pieces_of(products[1](there), 2, 2)
        return short_attention(split_heads(products[0](here), 2), keys, values, None, False).square().sum()

    weights = [weight for product in products for weight in product.parameters()]
    expected = torch.autograd.grad(attention_forward(), weights)
    async_grads = AsyncWeightGrads(torch.device(DEVICE))
    with async_grads.activate(products, dict.fromkeys(map(id, weights))):
        attention_forward().backward()
        found = async_grads.found
    # On a GPU whoever joins the slopes by keys and values sums them, if the others have not.
    assert len(sum_over_rows) == (0 if most == 2048 else 1 if DEVICE == "cuda" else len(products))
    for weight, theirs in zip(weights, expected, strict=True):
        actual = found[id(weight)].to(DTYPE)
        torch.testing.assert_close(actual, theirs, rtol=0, atol=NEAR * float(theirs.abs().max()))


def test_it_does_not_matter_how_the_numbers_lie():
    from seq2see.kernels.short_attention import short_attention

    torch.manual_seed(1)
    parts = pieces(2, 3, 20, 16, 3)
    other_ways = (lambda part: part.contiguous(), lambda part: part.mT.contiguous().mT)
    expected = short_attention(*parts, None, True)
    for way in other_ways:
        assert torch.equal(short_attention(*map(way, parts), None, True), expected)


def test_it_does_not_matter_how_the_slope_lies():
    from seq2see.kernels.short_attention import short_attention

    torch.manual_seed(1)
    parts = [part.requires_grad_() for part in pieces(2, 3, 20, 16, 3)]
    grad_output = torch.randn(2, 20, 3, 16, device=DEVICE, dtype=DTYPE).transpose(1, 2)  # as the heads were joined
    other_ways = (lambda part: part.contiguous(), lambda part: part.mT.contiguous().mT)
    expected = torch.autograd.grad(short_attention(*parts, None, True), parts, grad_output)
    for way in other_ways:
        found = torch.autograd.grad(short_attention(*parts, None, True), parts, way(grad_output))
        assert all(map(torch.equal, found, expected))
    # The slope of a sum is one number for all, with steps of 0.
    sum_over_rows = torch.autograd.grad(short_attention(*parts, None, True).sum(), parts)
    ones = torch.autograd.grad(short_attention(*parts, None, True), parts, torch.ones_like(grad_output))
    assert all(map(torch.equal, sum_over_rows, ones))


@pytest.mark.parametrize("is_causal", [True, False])
def test_queries_keys_and_values_may_lie_side_by_side(is_causal):
    from seq2see.kernels.short_attention import short_attention, short_self_attention

    torch.manual_seed(1)
    rows, heads, times, size = 3, 2, 20, 16
    together = torch.randn(rows, times, 3 * heads * size, device=DEVICE, dtype=DTYPE).requires_grad_()
    mask = None if is_causal else table_for(rows, times, times)
    parts = [part.unflatten(-1, (heads, size)).transpose(1, 2) for part in together.chunk(3, dim=-1)]
    expected = short_attention(*parts, mask, is_causal).transpose(1, 2).flatten(2)
    found = short_self_attention(together, heads, mask, is_causal)
    assert torch.equal(found, expected)
    for grad_output in (torch.randn_like(found), torch.ones(1, device=DEVICE, dtype=DTYPE).expand_as(found)):
        theirs = torch.autograd.grad(expected, together, grad_output, retain_graph=True)
        assert torch.equal(*theirs, *torch.autograd.grad(found, together, grad_output, retain_graph=True))


def test_torch_finds_it_a_proper_operator():
    """Its shapes as it tells them, its gradient, and what torch.compile makes of it."""
    import seq2see.kernels.short_attention  # noqa: F401

    parts = [part.detach().requires_grad_() for part in pieces(2, 3, 20, 16, 3)]
    torch.library.opcheck(torch.ops.seq2see.short_attention.default, (*parts, table_for(2, 20, 20), False))


CALL = """
import sys, torch
from seq2see.kernels.short_attention import short_attention
part = torch.randn(1, 1, 4, 16, device=sys.argv[1], requires_grad=True)
short_attention(part, part, part, None, True).sum().backward()
assert part.grad is not None
sys.exit("torch._dynamo" in sys.modules)
"""


def test_a_call_imports_no_compiler():
    subprocess.run([sys.executable, "-c", CALL, DEVICE], check=True, timeout=100)


@needs_gpu
def test_a_layer_takes_it_where_it_fits_and_only_there(monkeypatch):
    from seq2see.kernels import short_attention

    taken: list[int] = []
    own = short_attention.short_attention
    monkeypatch.setattr(short_attention, "short_attention", lambda q, *rest: taken.append(q.size(2)) or own(q, *rest))
    q, k, v = (part.detach().requires_grad_() for part in pieces(2, 2, 128, 64, 3))
    fused_attention(q, k, v, causal_mask())
    fused_attention(q.float(), k.float(), v.float(), causal_mask())
    fused_attention(*(part.detach().requires_grad_() for part in pieces(2, 2, 129, 64, 3)), causal_mask())
    fused_attention(*(part.detach().requires_grad_() for part in pieces(2, 2, 9, 48, 3)), causal_mask())
    with torch.no_grad():
        fused_attention(q.detach(), k, v, causal_mask())
    assert taken == [128]


@needs_gpu
def test_compiled_it_is_the_same():
    torch.manual_seed(1)
    layer = nn.ModuleList([SelfAttention(128, 2)]).cuda()[0]
    vectors = torch.randn(4, 20, 128, device="cuda", requires_grad=True)
    results = []
    for way in (layer, torch.compile(layer, dynamic=False)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = way(vectors, causal_mask())
        results.append([output, *torch.autograd.grad(output.float().square().sum(), [vectors, *layer.parameters()])])
    for actual, theirs in zip(*results, strict=True):
        torch.testing.assert_close(
            actual.float(), theirs.float(), rtol=0, atol=0.02 * float(theirs.detach().abs().max())
        )
