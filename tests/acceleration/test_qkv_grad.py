"""Gradients of the parts of a projection are concatenated and summed by one kernel, as torch does it.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, plain_sum
from seq2see.acceleration.attention import split_heads_eagerly, split_projection
from seq2see.acceleration.bf16_weights import Bf16Weights
from seq2see.acceleration.swaps import Conditions, accelerate
from seq2see.layers.attention import GroupedSelfAttention, SelfAttention
from seq2see.layers.masks import causal_mask
from seq2see.layers.positions import RotaryPositions

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

LAYOUTS = {
    "time, head": lambda part: part.transpose(1, 2).contiguous().transpose(1, 2),
    "head, time": lambda part: part.contiguous(),
    "transposed": lambda part: part.mT.contiguous().mT,
    "expanded": lambda part: part[:1, :, :1].expand_as(part),
}
CASES = [  # rows, positions, heads of each part, head size
    (3, 37, (4, 4, 4), 64),  # as wide as a program's tile
    (2, 5, (5, 2, 2), 24),  # grouped-query attention
    (1, 1, (1, 1, 1), 3),
    (2, 150, (7, 3), 40),  # two parts, one of them wider than a tile
    (1, 9, (2,), 16),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("rows, times, heads, size", CASES)
def test_they_are_concatenated_and_summed_as_torch_does_it(rows, times, heads, size, layout, dtype, monkeypatch):
    from seq2see.acceleration import qkv_grad

    monkeypatch.setattr(qkv_grad, "SLICE", 16)
    grads = [layout(torch.randn(rows, each, times, size, device=DEVICE, dtype=dtype)) for each in heads]
    expected = torch.cat([grad.transpose(1, 2) for grad in grads], dim=2).flatten(2)
    joined, parts = qkv_grad.join_head_grads(grads)
    assert torch.equal(joined, expected)
    assert joined.is_contiguous()
    torch.testing.assert_close(parts.sum(0), plain_sum(expected.flatten(0, 1)), rtol=1e-4, atol=1e-4)
    for grad, part in zip(grads, split_heads_eagerly(joined, heads), strict=True):
        assert torch.equal(grad, part)


@pytest.mark.parametrize("count, groups, width", [(1, 1, 1), (300, 3, 23), (128, 2, 32), (5, 3, 40)])
def test_partial_sums_of_any_layout_are_summed_and_written_to_a_tensor(count, groups, width):
    from seq2see.acceleration.row_sums import sum_parts

    parts = torch.randn(count, groups, width, device=DEVICE)
    torch.testing.assert_close(sum_parts(parts), parts.sum(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sum_parts(parts[:, -1]), parts[:, -1].sum(0), rtol=1e-4, atol=1e-4)
    out = torch.zeros(3, width, device=DEVICE, dtype=torch.bfloat16)
    assert sum_parts(parts[:, 0], out[1]).data_ptr() == out[1].data_ptr()
    # A GPU rounds to nearest; the interpreter truncates.
    torch.testing.assert_close(out[1].float(), parts[:, 0].sum(0), rtol=2**-7, atol=1e-4)
    assert not out[[0, 2]].any()  # other rows are not changed
    assert torch.equal(sum_parts(parts), sum_parts(parts))


def rotated_self_attention(width: int, heads: int) -> SelfAttention:
    """Queries and keys are rotated together, so that there are two gradients."""
    return SelfAttention(width, heads, RotaryPositions(width // heads))


@pytest.mark.parametrize("used", ["all", "values"])
@pytest.mark.parametrize(
    "build_layer", [SelfAttention, rotated_self_attention, lambda width, heads: GroupedSelfAttention(width, heads, 2)]
)
def test_an_attention_layer_gets_its_gradients_and_its_bias_is_summed_once(build_layer, used, monkeypatch):
    sum_calls = []
    monkeypatch.setattr(
        "seq2see.acceleration.async_weight_grad.sum_rows",
        lambda rows, *out: (sum_calls.append(rows), plain_sum(rows, *out))[1],
    )
    layer = build_layer(24, 4).to(DEVICE)
    if used == "values":  # one key: all weights are 1, and the gradients of queries and keys are zeros
        vectors = torch.randn(3, 1, 24, device=DEVICE, requires_grad=True)
    else:
        vectors = torch.randn(3, 11, 24, device=DEVICE, requires_grad=True)
    weights, target = dict(layer.named_parameters()), torch.randn_like(vectors)

    def loss() -> Tensor:
        return (layer(vectors, causal_mask()) - target).square().sum()

    expected = torch.autograd.grad(loss(), [vectors, *weights.values()])
    async_grads = AsyncWeightGrads(torch.device(DEVICE), kernels=True)
    accelerate(layer, Conditions(DEVICE, training=True), async_grads)
    grads = {id(weight): torch.full_like(weight, torch.nan, dtype=torch.bfloat16) for weight in weights.values()}
    with async_grads.activate([each for each in layer.modules() if isinstance(each, nn.Linear)], grads):
        (grad_vectors,) = torch.autograd.grad(loss(), [vectors])
    torch.testing.assert_close(grad_vectors, expected[0], rtol=1e-4, atol=1e-4)
    for weight, reference in zip(weights.values(), expected[1:], strict=True):
        actual = grads[id(weight)].float()
        torch.testing.assert_close(actual, reference, rtol=1e-2, atol=0.01 * float(reference.abs().max()) + 1e-6)
    assert [rows.size(-1) for rows in sum_calls] == [24]  # only for the output projection


def test_in_16_bits_a_training_step_has_the_gradients_without_kernels(monkeypatch):
    from seq2see.acceleration import qkv_grad

    calls, join = [], qkv_grad.join_head_grads
    monkeypatch.setattr(qkv_grad, "join_head_grads", lambda grads: (calls.append(grads[0].dtype), join(grads))[1])
    vectors = torch.randn(
        3, 30 if DEVICE == "cpu" else 300, 64, device=DEVICE
    )  # too long for the kernels for short sequences
    model, results = nn.ModuleList([SelfAttention(64, 2)]).to(DEVICE), []
    for allowed in (False, True):
        bf16_weights = Bf16Weights(copied := copy.deepcopy(model), kernels=allowed)
        accelerate(copied, Conditions(DEVICE, training=True), bf16_weights.async_grads)
        with bf16_weights.activate(), torch.autocast(DEVICE, dtype=torch.bfloat16):
            copied[0](vectors, causal_mask()).float().square().sum().backward()
        results.append({name: weight.grad for name, weight in copied.named_parameters()})
    assert calls == [torch.bfloat16]
    for name, reference in results[0].items():
        torch.testing.assert_close(
            results[1][name], reference, rtol=0, atol=0.01 * float(reference.abs().max()), msg=name
        )


def test_an_unused_part_has_a_gradient_of_zeros():
    projected = torch.randn(2, 3, 20, device=DEVICE, requires_grad=True)
    async_grads = AsyncWeightGrads(torch.device(DEVICE), kernels=True)
    with async_grads.activate([], {}):
        _, keys, _ = split_projection(projected, (1, 2, 2), async_grads)
        (grad,) = torch.autograd.grad((keys * keys).sum(), [projected])
    expected = torch.zeros_like(projected)
    expected[..., 4:12] = 2 * projected[..., 4:12].detach()
    torch.testing.assert_close(grad, expected)
