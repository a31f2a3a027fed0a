"""Slopes by the pieces of a product are put side by side and summed: what torch joins and sums, by one walk.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from seq2see.kernels.async_layers import split_heads_eagerly, split_projection
from seq2see.kernels.async_weight_grad import AsyncWeightGrads, plain_sum
from seq2see.layers.attention import GroupedSelfAttention, SelfAttention
from seq2see.layers.masks import causal_mask
from seq2see.layers.relative_positions import RotaryPositions
from seq2see.training.bf16_weights import Bf16Weights

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

LAYOUTS = {
    "time by time": lambda piece: piece.transpose(1, 2).contiguous().transpose(1, 2),
    "head by head": lambda piece: piece.contiguous(),
    "crosswise": lambda piece: piece.mT.contiguous().mT,
    "the same everywhere": lambda piece: piece[:1, :, :1].expand_as(piece),
}
CASES = [  # rows, times, heads of each piece, size of a head
    (3, 37, (4, 4, 4), 64),  # as wide as a program
    (2, 5, (5, 2, 2), 24),  # several heads ask the same keys
    (1, 1, (1, 1, 1), 3),
    (2, 150, (7, 3), 40),  # two pieces, one of them wider than a program
    (1, 9, (2,), 16),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lie", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("rows, times, heads, size", CASES)
def test_they_are_joined_and_summed_as_torch_does_it(rows, times, heads, size, lie, dtype, monkeypatch):
    from seq2see.kernels import qkv_grad

    monkeypatch.setattr(qkv_grad, "SLICE", 16)
    grads = [lie(torch.randn(rows, each, times, size, device=DEVICE, dtype=dtype)) for each in heads]
    expected = torch.cat([grad.transpose(1, 2) for grad in grads], dim=2).flatten(2)
    found, parts = qkv_grad.join_head_grads(grads)
    assert torch.equal(found, expected)
    assert found.is_contiguous()
    torch.testing.assert_close(parts.sum(0), plain_sum(expected.flatten(0, 1)), rtol=1e-4, atol=1e-4)
    for grad, piece in zip(grads, split_heads_eagerly(found, heads), strict=True):
        assert torch.equal(grad, piece)


@pytest.mark.parametrize("count, kinds, width", [(1, 1, 1), (300, 3, 23), (128, 2, 32), (5, 3, 40)])
def test_parts_are_added_up_wherever_they_lie_and_written_where_they_shall(count, kinds, width):
    from seq2see.kernels.row_sums import sum_parts

    parts = torch.randn(count, kinds, width, device=DEVICE)
    torch.testing.assert_close(sum_parts(parts), parts.sum(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sum_parts(parts[:, -1]), parts[:, -1].sum(0), rtol=1e-4, atol=1e-4)
    whole = torch.zeros(3, width, device=DEVICE, dtype=torch.bfloat16)
    assert sum_parts(parts[:, 0], whole[1]).data_ptr() == whole[1].data_ptr()
    # A GPU rounds to the nearest; the interpreter cuts off.
    torch.testing.assert_close(whole[1].float(), parts[:, 0].sum(0), rtol=2**-7, atol=1e-4)
    assert not whole[[0, 2]].any()  # its neighbors are left alone
    assert torch.equal(sum_parts(parts), sum_parts(parts))


class Rotated(SelfAttention):
    """Queries and keys are turned together, so that two pieces come back."""

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads, RotaryPositions(width // heads))


@pytest.mark.parametrize("read", ["all", "values"])
@pytest.mark.parametrize("way", [SelfAttention, Rotated, lambda width, heads: GroupedSelfAttention(width, heads, 2)])
def test_a_layer_that_looks_gets_its_plain_gradients_and_its_bias_is_summed_once(way, read, monkeypatch):
    monkeypatch.setattr("seq2see.kernels.async_layers.kernels_enabled", lambda device: True)
    sum_over_rows = []
    monkeypatch.setattr(
        "seq2see.kernels.async_grads.sum_rows",
        lambda rows, *place: (sum_over_rows.append(rows), plain_sum(rows, *place))[1],
    )
    layer = way(24, 4).to(DEVICE)
    if read == "values":  # one key: the weights are 1 whatever queries and keys are, and their slopes are zeros
        vectors = torch.randn(3, 1, 24, device=DEVICE, requires_grad=True)
    else:
        vectors = torch.randn(3, 11, 24, device=DEVICE, requires_grad=True)
    weights, target = dict(layer.named_parameters()), torch.randn_like(vectors)

    def loss() -> Tensor:
        return (layer(vectors, causal_mask()) - target).square().sum()

    expected = torch.autograd.grad(loss(), [vectors, *weights.values()])
    async_grads = AsyncWeightGrads(torch.device(DEVICE))
    places = {id(weight): torch.full_like(weight, torch.nan, dtype=torch.bfloat16) for weight in weights.values()}
    with async_grads.activate([each for each in layer.modules() if isinstance(each, nn.Linear)], places):
        (by_vectors,) = torch.autograd.grad(loss(), [vectors])
    torch.testing.assert_close(by_vectors, expected[0], rtol=1e-4, atol=1e-4)
    for weight, theirs in zip(weights.values(), expected[1:], strict=True):
        actual = places[id(weight)].float()
        torch.testing.assert_close(actual, theirs, rtol=1e-2, atol=0.01 * float(theirs.abs().max()) + 1e-6)
    assert [rows.size(-1) for rows in sum_over_rows] == [24]  # that of the output alone


def test_in_16_bits_a_training_step_finds_what_it_finds_without_kernels(monkeypatch):
    from seq2see.kernels import qkv_grad

    joined, own = [], qkv_grad.join_head_grads
    monkeypatch.setattr(qkv_grad, "join_head_grads", lambda grads: (joined.append(grads[0].dtype), own(grads))[1])
    vectors = torch.randn(
        3, 30 if DEVICE == "cpu" else 300, 64, device=DEVICE
    )  # too many for the kernels of short texts
    model, found = nn.ModuleList([SelfAttention(64, 2)]).to(DEVICE), []
    for allowed in (False, True):
        monkeypatch.setattr("seq2see.kernels.async_layers.kernels_enabled", lambda device, allowed=allowed: allowed)
        bf16_weights = Bf16Weights(twin := copy.deepcopy(model))
        with bf16_weights.activate(), torch.autocast(DEVICE, dtype=torch.bfloat16):
            twin[0](vectors, causal_mask()).float().square().sum().backward()
        found.append({name: weight.grad for name, weight in twin.named_parameters()})
    assert joined == [torch.bfloat16]
    for name, theirs in found[0].items():
        torch.testing.assert_close(found[1][name], theirs, rtol=0, atol=0.01 * float(theirs.abs().max()), msg=name)


def test_a_piece_that_nobody_reads_has_a_slope_of_zeros(monkeypatch):
    monkeypatch.setattr("seq2see.kernels.async_layers.kernels_enabled", lambda device: True)
    together = torch.randn(2, 3, 20, device=DEVICE, requires_grad=True)
    with AsyncWeightGrads(torch.device(DEVICE)).activate([], {}):
        _, keys, _ = split_projection(together, 1, 2, 2)
        (grad,) = torch.autograd.grad((keys * keys).sum(), [together])
    expected = torch.zeros_like(together)
    expected[..., 4:12] = 2 * together[..., 4:12].detach()
    torch.testing.assert_close(grad, expected)
