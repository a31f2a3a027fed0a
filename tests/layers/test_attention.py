"""Attention: numbers by hand, eager = fused in both passes, what a hook records, and the cache."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from seq2see.acceleration.attention import fused_attention
from seq2see.core.batch import DenseSequences, Sequences
from seq2see.layers.attention import (
    AttentionRecord,
    CrossAttention,
    GroupedSelfAttention,
    KeyValueCache,
    SelfAttention,
    attention_weights,
    eager_attention,
    merge_heads,
    split_heads,
)
from seq2see.layers.masks import AttentionMask, cache_mask, causal_mask, full_mask, padding_mask
from ways import both_ways, fast


def dense(vectors: torch.Tensor) -> DenseSequences:
    """Vectors as rows without padding."""
    return DenseSequences(vectors, torch.full((len(vectors),), vectors.size(1)))


def padded_rows(lengths: list[int], time: int) -> Sequences:
    return Sequences(torch.zeros(len(lengths), time, dtype=torch.long), torch.tensor(lengths))


# All kinds of masks; rows 3, queries 5, keys 7. "no key at all" has rows without any key.
MASKS: dict[str, AttentionMask] = {
    "full": full_mask(),
    "causal": causal_mask(),
    "padding": padding_mask(padded_rows([7, 2, 4], 7)),
    "causal and padding": causal_mask() & padding_mask(padded_rows([7, 2, 4], 7)),
    "cache": cache_mask(torch.tensor([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [1, 2, 3, 4, 5]]), 7),
    "no key at all": padding_mask(padded_rows([0, 7, 0], 7)),
    "no key for some queries": AttentionMask(torch.arange(5)[:, None].expand(3, 1, 5, 7) % 2 == 0),
}
every_mask = pytest.mark.parametrize("attention_mask", MASKS.values(), ids=list(MASKS))


def random_qkv(dtype: torch.dtype, seed: int = 0, size: int = 3) -> list[torch.Tensor]:
    """Queries, keys and values: 3 rows, 2 heads, 5 queries, 7 keys."""
    random = torch.Generator().manual_seed(seed)
    shapes = [(3, 2, 5, size), (3, 2, 7, size), (3, 2, 7, size)]
    return [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


# The definition


def test_weights_and_sum_by_hand():
    # 2·ln 3 / √4 = ln 3 and 0: the weights are as 3 to 1; the third key is hidden.
    queries = torch.tensor([2.0, 0, 0, 0]).view(1, 1, 1, 4)
    keys = torch.tensor([[math.log(3), 0, 0, 0], [0, 5, 0, 0], [9, 0, 0, 0]]).view(1, 1, 3, 4)
    values = torch.tensor([[8.0, 0, 0, 0], [4, 0, 0, 1], [99, 99, 99, 99]]).view(1, 1, 3, 4)
    attention_mask = padding_mask(padded_rows([2], 3))
    assert_close(attention_weights(queries, keys, attention_mask).flatten(), torch.tensor([0.75, 0.25, 0.0]))
    for attend in (eager_attention, fused_attention):
        assert_close(attend(queries, keys, values, attention_mask).flatten(), torch.tensor([7.0, 0, 0, 0.25]))


def test_masked_keys_have_no_weight_whatever_the_scores():
    queries, keys = torch.ones(1, 1, 1, 1), torch.tensor([-1e6, -1e6, 0.0]).view(1, 1, 3, 1)
    weights = attention_weights(queries, keys, padding_mask(padded_rows([2], 3)))
    assert weights.flatten().tolist() == [0.5, 0.5, 0.0]


@every_mask
def test_weights_sum_to_one_and_are_exactly_zero_where_the_mask_is_false(attention_mask):
    queries, keys, _ = random_qkv(torch.float32)
    weights = attention_weights(queries, keys, attention_mask)
    mask = attention_mask.to_dense(5, 7, queries.device).expand_as(weights)
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()
    assert_close(weights.sum(-1), mask.any(-1).float(), rtol=0, atol=1e-6)


@every_mask
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_fused_attention_is_eager_attention_forward_and_backward(attention_mask, dtype, tolerance):
    eager_inputs, fused_inputs = random_qkv(dtype), random_qkv(dtype)
    eager = eager_attention(*eager_inputs, attention_mask)
    fused = fused_attention(*fused_inputs, attention_mask)
    assert_close(fused, eager, rtol=0, atol=tolerance)
    grads = torch.randn(eager.shape, dtype=dtype)
    eager.backward(grads)
    fused.backward(grads)
    for actual, expected in zip(fused_inputs, eager_inputs, strict=True):
        assert_close(actual.grad, expected.grad, rtol=0, atol=10 * tolerance)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 999), st.booleans())
def test_fused_attention_is_eager_attention_for_any_length(time, length, seed, causal):
    random = torch.Generator().manual_seed(seed)
    qkv = [3 * torch.randn(1, 2, time, 4, generator=random) for _ in range(3)]
    attention_mask = padding_mask(padded_rows([length], time))
    attention_mask = attention_mask & causal_mask() if causal else attention_mask
    assert_close(fused_attention(*qkv, attention_mask), eager_attention(*qkv, attention_mask), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=lambda each: each.name)
@pytest.mark.parametrize("name", ["full", "causal", "padding", "cache"])
def test_every_kernel_that_torch_may_choose_agrees(backend, name):
    qkv = [part.detach() for part in random_qkv(torch.float32, size=8)]
    with sdpa_kernel(backend):
        fused = fused_attention(*qkv, MASKS[name])
    assert_close(fused, eager_attention(*qkv, MASKS[name]), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "dtype, training, name, max_keys, is_fused",  # `max_keys` is the limit for this dtype
    [
        (torch.bfloat16, True, "padding", 256, False),
        (torch.bfloat16, False, "padding", 256, True),
        (torch.bfloat16, False, "full", 7, False),
        (torch.bfloat16, False, "full", 6, True),
        (torch.bfloat16, False, "causal", 256, True),
        (torch.float32, True, "padding", 256, True),
        (torch.float32, True, "full", 7, False),
        (torch.float32, True, "full", 6, True),
        (torch.float32, False, "full", 256, True),
    ],
)
def test_eager_attention_runs_on_a_cpu_where_it_is_faster(dtype, training, name, max_keys, is_fused, monkeypatch):
    kernel, calls = nn.functional.scaled_dot_product_attention, []
    monkeypatch.setattr(
        "seq2see.acceleration.attention.functional.scaled_dot_product_attention",
        lambda *qkv, **options: calls.append(qkv[0].dtype) or kernel(*qkv, **options),
    )
    monkeypatch.setattr(
        f"seq2see.acceleration.attention.MAX_KEYS_{'BF16' if dtype == torch.bfloat16 else 'FLOAT32'}", max_keys
    )
    qkv = [part.detach().requires_grad_(training) for part in random_qkv(dtype)]
    output = fused_attention(*qkv, MASKS[name])
    assert (calls == [dtype]) is is_fused
    assert output.dtype == dtype
    exact = eager_attention(*(part.detach().double() for part in qkv), MASKS[name])
    assert_close(output.detach().double(), exact, rtol=0, atol=2e-2)


def test_a_full_mask_gives_the_weights_of_a_dense_mask_of_ones():
    queries, keys, _ = random_qkv(torch.float32)
    dense = AttentionMask(torch.ones(1, 1, 5, 7, dtype=torch.bool))
    assert MASKS["full"].is_full
    assert not dense.is_full
    assert torch.equal(attention_weights(queries, keys, MASKS["full"]), attention_weights(queries, keys, dense))


@pytest.mark.parametrize("attend", [eager_attention, fused_attention])
@pytest.mark.parametrize("name", ["no key at all", "no key for some queries"])
def test_a_query_without_a_key_gets_zeros_and_no_nan(attend, name):
    qkv = random_qkv(torch.float32)
    output = attend(*qkv, MASKS[name])
    keyless = ~MASKS[name].to_dense(5, 7, output.device).any(-1).expand(3, 2, 5)
    assert (output[keyless] == 0).all()
    assert (output[~keyless] != 0).all()
    output.sum().backward()
    for part in qkv:
        assert part.grad.isfinite().all()


def test_anomaly_detection_finds_no_nan_in_the_backward_pass():
    qkv = random_qkv(torch.float32)
    with torch.autograd.set_detect_anomaly(True):
        eager_attention(*qkv, MASKS["no key at all"]).sum().backward()


@pytest.mark.parametrize("attend", [eager_attention, fused_attention])
@pytest.mark.parametrize("name", ["causal", "padding", "no key for some queries"])
def test_gradients_are_those_of_finite_differences(attend, name):
    assert torch.autograd.gradcheck(lambda *qkv: attend(*qkv, MASKS[name]), random_qkv(torch.float64))


def test_a_very_large_score_does_not_overflow():
    queries = torch.full((1, 1, 1, 1), 1e18)
    keys = torch.tensor([1e18, 1.0]).view(1, 1, 2, 1)
    assert_close(attention_weights(queries, keys, full_mask()).flatten(), torch.tensor([1.0, 0.0]))


# Heads


def test_heads_are_adjacent_parts_of_a_vector():
    vectors = torch.arange(12.0).view(1, 2, 6)
    heads = split_heads(vectors, 2)
    assert heads.tolist() == [[[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]]
    assert torch.equal(merge_heads(heads), vectors)


def test_one_head_of_self_attention_by_hand():
    layer = SelfAttention(width=1, heads=1)
    with torch.no_grad():
        layer.qkv_proj.weight.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
        layer.qkv_proj.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
        layer.out_proj.weight.fill_(10.0)
        layer.out_proj.bias.fill_(0.5)
    vectors = torch.tensor([0.0, 1.0]).view(1, 2, 1)
    # Query 0 has equal weights for both values (1 and 4); query 1 has the scores 0 and 2: weights 1 and e².
    weight = math.exp(2) / (1 + math.exp(2))
    expected = [10 * 2.5 + 0.5, 10 * (1 + 3 * weight) + 0.5]
    assert_close(layer(vectors, full_mask()).flatten(), torch.tensor(expected))
    assert_close(layer(vectors, causal_mask()).flatten(), torch.tensor([10.5, expected[1]]))


def copied_to_torch(own: SelfAttention) -> nn.MultiheadAttention:
    width = own.out_proj.weight.size(0)
    theirs = nn.MultiheadAttention(width, own.heads, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(own.qkv_proj.weight)
        theirs.in_proj_bias.copy_(own.qkv_proj.bias.uniform_(-1, 1))
        theirs.out_proj.weight.copy_(own.out_proj.weight)
        theirs.out_proj.bias.copy_(own.out_proj.bias.uniform_(-1, 1))
    return theirs


def test_self_attention_is_torchs_with_the_same_weights():
    own = SelfAttention(width=6, heads=3).eval()
    theirs, source = copied_to_torch(own), padded_rows([5, 2, 3], 5)
    vectors, records = torch.randn(3, 5, 6), []
    own.hook = records.append
    expected, weights = theirs(vectors, vectors, vectors, key_padding_mask=~source.valid, average_attn_weights=False)
    assert_close(own(vectors, padding_mask(source)), expected, rtol=0, atol=1e-6)
    assert_close(records[0].weights, weights, rtol=0, atol=1e-6)


@both_ways
def test_cross_attention_is_torchs_with_the_same_weights(way):
    own = way(CrossAttention(width=6, heads=2, memory_width=5).eval())
    theirs = nn.MultiheadAttention(6, 2, kdim=5, vdim=5, batch_first=True).eval()
    with torch.no_grad():
        theirs.q_proj_weight.copy_(own.q_proj.weight)
        theirs.k_proj_weight.copy_(own.kv_proj.weight[:6])
        theirs.v_proj_weight.copy_(own.kv_proj.weight[6:])
        theirs.in_proj_bias.copy_(torch.cat([own.q_proj.bias, own.kv_proj.bias]))
        theirs.out_proj.weight.copy_(own.out_proj.weight)
        theirs.out_proj.bias.copy_(own.out_proj.bias)
    vectors, memory, source = torch.randn(3, 4, 6), torch.randn(3, 7, 5), padded_rows([7, 1, 3], 7)
    expected, _ = theirs(vectors, memory, memory, key_padding_mask=~source.valid)
    assert_close(own(vectors, own.project_memory(dense(memory)), padding_mask(source)), expected, rtol=0, atol=1e-6)


def test_gradients_of_queries_keys_and_values_are_concatenated_once():
    """The backward pass of a slice would fill a tensor with zeros for each of them, and add all three."""
    vectors = torch.randn(2, 5, 16, requires_grad=True)
    outputs = [
        fast(SelfAttention(16, 4))(vectors, full_mask()),
        fast(GroupedSelfAttention(16, 4, 2))(vectors, full_mask()),
        (cross := fast(CrossAttention(16, 4, 16)))(vectors, cross.project_memory(dense(vectors)), full_mask()),
    ]
    for output in outputs:
        names, pending = set(), [output.grad_fn]
        while pending:
            node = pending.pop()
            names.add(node.name())
            pending += [function for function, _ in node.next_functions if function is not None]
        assert any(name.startswith("Split") for name in names)
        assert not any(name.startswith(("Slice", "Select")) for name in names)


def test_self_attention_alone_does_not_depend_on_the_order():
    layer, vectors, order = SelfAttention(6, 2), torch.randn(1, 5, 6), [3, 0, 4, 1, 2]
    assert_close(layer(vectors[:, order], full_mask()), layer(vectors, full_mask())[:, order])


@both_ways
def test_layers_have_the_gradients_of_finite_differences(way):
    own, cross = way(SelfAttention(4, 2).double()), way(CrossAttention(4, 2, 3).double())
    vectors = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    attention_mask = padding_mask(padded_rows([5, 2], 5))
    assert torch.autograd.gradcheck(lambda x: own(x, causal_mask()), [vectors])
    assert torch.autograd.gradcheck(
        lambda x, m: cross(x, cross.project_memory(dense(m)), attention_mask), [vectors, memory]
    )
    weights = [weight.detach().requires_grad_() for weight in own.parameters()]
    names = [name for name, _ in own.named_parameters()]

    def from_weights(*values):
        return torch.func.functional_call(own, dict(zip(names, values, strict=True)), (vectors.detach(), causal_mask()))

    assert torch.autograd.gradcheck(from_weights, weights)


# Hooks


@both_ways
@every_mask
def test_a_hook_records_the_weights_and_the_output_is_bit_identical(attention_mask, way):
    queries, keys, values = (part.detach() for part in random_qkv(torch.float32))
    layer, records = way(SelfAttention(6, 2)), []
    without_hook = layer.attend(queries, keys, values, attention_mask)
    layer.hook = records.append
    assert torch.equal(layer.attend(queries, keys, values, attention_mask), without_hook)
    layer.hook = None
    assert torch.equal(layer.attend(queries, keys, values, attention_mask), without_hook)
    assert len(records) == 1
    assert torch.equal(records[0].weights, attention_weights(queries, keys, attention_mask))
    # The recorded weights are those of the output.
    assert_close(layer.out_proj(merge_heads(records[0].weights @ records[0].values)), without_hook, rtol=0, atol=1e-6)


def test_the_hook_of_one_layer_is_not_the_hook_of_another():
    hooked, other = SelfAttention(4, 2), SelfAttention(4, 2)
    hooked.hook = print
    assert other.hook is None


# The cache


def test_the_cache_is_written_at_the_positions_of_each_row():
    cache = KeyValueCache(torch.zeros(2, 2, 1, 4, 1))
    keys = torch.tensor([[5.0, 6.0], [7.0, 8.0]]).view(2, 1, 2, 1)
    cache.write(torch.stack([keys, -keys], dim=1), torch.tensor([[0, 1], [2, 3]]))
    assert cache.keys.flatten(1).tolist() == [[5, 6, 0, 0], [0, 0, 7, 8]]
    assert cache.values.flatten(1).tolist() == [[-5, -6, 0, 0], [0, 0, -7, -8]]


def test_an_empty_cache_has_zeros_for_every_head():
    cache = SelfAttention(width=6, heads=3).empty_cache(rows=2, max_length=5)
    assert cache.keys.shape == cache.values.shape == (2, 3, 5, 2)
    assert cache.keys.count_nonzero() == cache.values.count_nonzero() == 0


@both_ways
@pytest.mark.parametrize("kv_heads", [2, 1])
def test_steps_equal_the_causal_forward_pass_at_every_split(way, kv_heads):
    layer, vectors = way(GroupedSelfAttention(6, 2, kv_heads).double()), torch.randn(3, 5, 6, dtype=torch.float64)
    expected = layer(vectors, causal_mask())
    for first in range(1, 5):
        cache, outputs = layer.empty_cache(3, 5), []
        for positions in torch.arange(5).split([first, *[1] * (5 - first)]):
            outputs.append(layer.step(vectors[:, positions], cache, positions.expand(3, -1)))
        assert_close(torch.cat(outputs, dim=1), expected, rtol=0, atol=1e-12)


@both_ways
def test_rows_may_have_different_positions(way):
    layer, vectors = way(SelfAttention(6, 2)), torch.randn(2, 5, 6)
    expected = layer(vectors, causal_mask())
    cache = layer.empty_cache(2, 5)
    # Row 0 has one vector in its cache, row 1 has four: each gets one more.
    for row, length in ((0, 1), (1, 4)):
        row_cache = KeyValueCache(cache.keys_values[row : row + 1])
        layer.step(vectors[row : row + 1, :length], row_cache, torch.arange(length)[None])
    new = torch.stack([vectors[0, 1], vectors[1, 4]])[:, None]
    stepped = layer.step(new, cache, torch.tensor([[1], [4]]))
    assert_close(stepped[:, 0], torch.stack([expected[0, 1], expected[1, 4]]))


def test_unwritten_positions_of_the_cache_have_no_influence():
    layer, vectors = SelfAttention(6, 2), torch.randn(1, 2, 6)
    cache = layer.empty_cache(1, 4)
    dirty = KeyValueCache(torch.stack([cache.keys + 1e3, cache.values - 1e3], dim=1))
    position_ids = torch.arange(2)[None]
    assert torch.equal(layer.step(vectors, dirty, position_ids), layer.step(vectors, cache, position_ids))


def test_the_fast_layer_reads_only_the_part_of_the_cache_that_is_written():
    layer, vectors = fast(SelfAttention(6, 2)), torch.randn(2, 3, 6)
    cache = layer.empty_cache(2, 1000)
    cache.keys_values[:, :, :, 3:] = float("nan")  # a weight of zero would not hide it
    seen: list[AttentionRecord] = []
    layer.hook = seen.append
    output = layer.step(vectors, cache, torch.arange(3).expand(2, -1))
    assert seen[0].keys.shape == (2, 2, 3, 3)
    assert_close(output, layer(vectors, causal_mask()))
    assert cache.keys[:, :, :3].count_nonzero()  # it was written, not a copy


# Grouped-query attention


def test_grouped_heads_are_heads_with_equal_keys_and_values():
    torch.manual_seed(4)
    grouped, plain = GroupedSelfAttention(12, heads=4, kv_heads=2).eval(), SelfAttention(12, heads=4).eval()
    with torch.no_grad():
        for name in ("weight", "bias"):
            parameter = getattr(grouped.qkv_proj, name)
            queries, keys, values = parameter.split([12, 6, 6])
            repeated = [each.unflatten(0, (2, 3)).repeat_interleave(2, dim=0).flatten(0, 1) for each in (keys, values)]
            getattr(plain.qkv_proj, name).copy_(torch.cat([queries, *repeated]))
    plain.out_proj.load_state_dict(grouped.out_proj.state_dict())
    vectors = torch.randn(2, 5, 12)
    assert_close(grouped(vectors, causal_mask()), plain(vectors, causal_mask()))
    assert grouped.empty_cache(2, 7).keys.shape == (2, 2, 7, 3)
    assert sum(each.numel() for each in grouped.parameters()) < sum(each.numel() for each in plain.parameters())


def test_a_record_has_a_mask_for_every_row():
    """A mask that is equal for all rows has one row; the record expands it, so that each row can be indexed."""
    attention, records = SelfAttention(6, 2), []
    attention.hook = records.append
    attention(torch.randn(3, 4, 6), causal_mask())
    assert records[0].mask.shape == (3, 1, 4, 4)
    assert torch.equal(records[0].mask[2, 0], torch.ones(4, 4, dtype=torch.bool).tril())
