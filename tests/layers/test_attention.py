"""Attention: numbers by hand, plain = fused both ways, what a probe sees, and the cache."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.layers.attention import (
    CrossAttention,
    GroupedSelfAttention,
    KeyValueCache,
    SelfAttention,
    attention_weights,
    eager_attention,
    fused_attention,
    merge_heads,
    split_heads,
)
from seq2see.layers.masks import AttentionMask, cache_mask, causal_mask, full_mask, padding_mask


def ragged(lengths: list[int], time: int) -> Sequences:
    return Sequences(torch.zeros(len(lengths), time, dtype=torch.long), torch.tensor(lengths))


# Every way of hiding something; rows 3, queries 5, keys 7. "nothing at all" leaves rows without any key.
MASKS: dict[str, AttentionMask] = {
    "everyone": full_mask(),
    "causal": causal_mask(),
    "real": padding_mask(ragged([7, 2, 4], 7)),
    "causal and real": causal_mask() & padding_mask(ragged([7, 2, 4], 7)),
    "so far": cache_mask(torch.tensor([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [1, 2, 3, 4, 5]]), 7),
    "nothing at all": padding_mask(ragged([0, 7, 0], 7)),
    "nothing for some queries": AttentionMask(torch.arange(5)[:, None].expand(3, 1, 5, 7) % 2 == 0),
}
every_mask = pytest.mark.parametrize("may_look", MASKS.values(), ids=list(MASKS))


def looks(dtype: torch.dtype, seed: int = 0, size: int = 3) -> list[torch.Tensor]:
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
    attention_mask = padding_mask(ragged([2], 3))
    assert_close(attention_weights(queries, keys, attention_mask).flatten(), torch.tensor([0.75, 0.25, 0.0]))
    for attend in (eager_attention, fused_attention):
        assert_close(attend(queries, keys, values, attention_mask).flatten(), torch.tensor([7.0, 0, 0, 0.25]))


def test_whatever_the_scores_what_is_hidden_is_further_below():
    queries, keys = torch.ones(1, 1, 1, 1), torch.tensor([-1e6, -1e6, 0.0]).view(1, 1, 3, 1)
    weights = attention_weights(queries, keys, padding_mask(ragged([2], 3)))
    assert weights.flatten().tolist() == [0.5, 0.5, 0.0]


@every_mask
def test_weights_sum_to_one_and_are_exactly_zero_where_nobody_may_look(attention_mask):
    queries, keys, _ = looks(torch.float32)
    weights = attention_weights(queries, keys, attention_mask)
    mask = attention_mask.table(5, 7, queries.device).expand_as(weights)
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()
    assert_close(weights.sum(-1), mask.any(-1).float(), rtol=0, atol=1e-6)


@every_mask
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_fused_attention_is_plain_attention_forward_and_backward(attention_mask, dtype, tolerance):
    one, other = looks(dtype), looks(dtype)
    plain, fused = eager_attention(*one, attention_mask), fused_attention(*other, attention_mask)
    assert_close(fused, plain, rtol=0, atol=tolerance)
    grads = torch.randn(plain.shape, dtype=dtype)
    plain.backward(grads)
    fused.backward(grads)
    for mine, theirs in zip(one, other, strict=True):
        assert_close(mine.grad, theirs.grad, rtol=0, atol=10 * tolerance)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 999), st.booleans())
def test_fused_attention_is_plain_attention_for_any_length(time, length, seed, hidden_future):
    random = torch.Generator().manual_seed(seed)
    parts = [3 * torch.randn(1, 2, time, 4, generator=random) for _ in range(3)]
    attention_mask = padding_mask(ragged([length], time))
    attention_mask = attention_mask & causal_mask() if hidden_future else attention_mask
    assert_close(fused_attention(*parts, attention_mask), eager_attention(*parts, attention_mask), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=lambda each: each.name)
@pytest.mark.parametrize("word", ["everyone", "causal", "real", "so far"])
def test_every_kernel_that_torch_may_choose_agrees(backend, word):
    parts = [part.detach() for part in looks(torch.float32, size=8)]
    with sdpa_kernel(backend):
        fused = fused_attention(*parts, MASKS[word])
    assert_close(fused, eager_attention(*parts, MASKS[word]), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "dtype, learning, word, few, by_kernel",  # how few keys are few: in the one number format or in the other
    [
        (torch.bfloat16, True, "real", 256, False),
        (torch.bfloat16, False, "real", 256, True),
        (torch.bfloat16, False, "everyone", 7, False),
        (torch.bfloat16, False, "everyone", 6, True),
        (torch.bfloat16, False, "causal", 256, True),
        (torch.float32, True, "real", 256, True),
        (torch.float32, True, "everyone", 7, False),
        (torch.float32, True, "everyone", 6, True),
        (torch.float32, False, "everyone", 256, True),
    ],
)
def test_a_cpu_looks_by_plain_products_where_they_are_sooner(dtype, learning, word, few, by_kernel, monkeypatch):
    kernel, seen = nn.functional.scaled_dot_product_attention, []
    monkeypatch.setattr(
        "seq2see.layers.attention.functional.scaled_dot_product_attention",
        lambda *parts, **words: seen.append(parts[0].dtype) or kernel(*parts, **words),
    )
    monkeypatch.setattr(f"seq2see.layers.attention.{'FEW' if dtype == torch.bfloat16 else 'FEWER'}", few)
    parts = [part.detach().requires_grad_(learning) for part in looks(dtype)]
    looked = fused_attention(*parts, MASKS[word])
    assert (seen == [dtype]) is by_kernel
    assert looked.dtype == dtype
    exact = eager_attention(*(part.detach().double() for part in parts), MASKS[word])
    assert_close(looked.detach().double(), exact, rtol=0, atol=2e-2)


def test_where_nothing_is_hidden_weights_are_those_of_a_table_that_hides_nothing():
    queries, keys, _ = looks(torch.float32)
    shown = AttentionMask(torch.ones(1, 1, 5, 7, dtype=torch.bool))
    assert MASKS["everyone"].is_full
    assert not shown.is_full
    assert torch.equal(attention_weights(queries, keys, MASKS["everyone"]), attention_weights(queries, keys, shown))


@pytest.mark.parametrize("attend", [eager_attention, fused_attention])
@pytest.mark.parametrize("word", ["nothing at all", "nothing for some queries"])
def test_who_may_look_at_nothing_gets_nothing_and_no_nan(attend, word):
    parts = looks(torch.float32)
    looked = attend(*parts, MASKS[word])
    blind = ~MASKS[word].table(5, 7, looked.device).any(-1).expand(3, 2, 5)
    assert (looked[blind] == 0).all()
    assert (looked[~blind] != 0).all()
    looked.sum().backward()
    for part in parts:
        assert part.grad.isfinite().all()


def test_not_even_on_the_way_is_there_a_nan_that_would_alarm_whoever_hunts_for_them():
    parts = looks(torch.float32)
    with torch.autograd.set_detect_anomaly(True):
        eager_attention(*parts, MASKS["nothing at all"]).sum().backward()


@pytest.mark.parametrize("attend", [eager_attention, fused_attention])
@pytest.mark.parametrize("word", ["causal", "real", "nothing for some queries"])
def test_gradients_are_those_of_finite_differences(attend, word):
    assert torch.autograd.gradcheck(lambda *parts: attend(*parts, MASKS[word]), looks(torch.float64))


def test_a_very_large_score_does_not_overflow():
    queries = torch.full((1, 1, 1, 1), 1e18)
    keys = torch.tensor([1e18, 1.0]).view(1, 1, 2, 1)
    assert_close(attention_weights(queries, keys, full_mask()).flatten(), torch.tensor([1.0, 0.0]))


# Heads


def test_heads_are_neighboring_pieces_of_a_vector():
    vectors = torch.arange(12.0).view(1, 2, 6)
    pieces = split_heads(vectors, 2)
    assert pieces.tolist() == [[[[0, 1, 2], [6, 7, 8]], [[3, 4, 5], [9, 10, 11]]]]
    assert torch.equal(merge_heads(pieces), vectors)


def test_one_head_of_self_attention_by_hand():
    layer = SelfAttention(width=1, heads=1)
    with torch.no_grad():
        layer.qkv_proj.weight.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
        layer.qkv_proj.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
        layer.out_proj.weight.fill_(10.0)
        layer.out_proj.bias.fill_(0.5)
    vectors = torch.tensor([0.0, 1.0]).view(1, 2, 1)
    # Query 0 weighs both values (1 and 4) alike; query 1 scores its keys 0 and 2: shares 1 and e².
    share = math.exp(2) / (1 + math.exp(2))
    expected = [10 * 2.5 + 0.5, 10 * (1 + 3 * share) + 0.5]
    assert_close(layer(vectors, full_mask()).flatten(), torch.tensor(expected))
    assert_close(layer(vectors, causal_mask()).flatten(), torch.tensor([10.5, expected[1]]))


def copied(own: SelfAttention) -> nn.MultiheadAttention:
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
    theirs, source = copied(own), ragged([5, 2, 3], 5)
    vectors, seen = torch.randn(3, 5, 6), []
    own.hook = seen.append
    expected, weights = theirs(
        vectors, vectors, vectors, key_padding_mask=~source.padding_mask, average_attn_weights=False
    )
    assert_close(own(vectors, padding_mask(source)), expected, rtol=0, atol=1e-6)
    assert_close(seen[0].weights, weights, rtol=0, atol=1e-6)


def test_cross_attention_is_torchs_with_the_same_weights():
    own = CrossAttention(width=6, heads=2, memory_width=5).eval()
    theirs = nn.MultiheadAttention(6, 2, kdim=5, vdim=5, batch_first=True).eval()
    with torch.no_grad():
        theirs.q_proj_weight.copy_(own.q_proj.weight)
        theirs.k_proj_weight.copy_(own.kv_proj.weight[:6])
        theirs.v_proj_weight.copy_(own.kv_proj.weight[6:])
        theirs.in_proj_bias.copy_(torch.cat([own.q_proj.bias, own.kv_proj.bias]))
        theirs.out_proj.weight.copy_(own.out_proj.weight)
        theirs.out_proj.bias.copy_(own.out_proj.bias)
    vectors, memory, source = torch.randn(3, 4, 6), torch.randn(3, 7, 5), ragged([7, 1, 3], 7)
    expected, _ = theirs(vectors, memory, memory, key_padding_mask=~source.padding_mask)
    assert_close(own(vectors, own.project_memory(memory), padding_mask(source)), expected, rtol=0, atol=1e-6)


def test_on_the_way_back_queries_keys_and_values_are_put_together_once():
    """A slice would fill a tensor with zeros for each of them, write into it, and add them all up."""
    vectors = torch.randn(2, 5, 16, requires_grad=True)
    looks = [
        SelfAttention(16, 4)(vectors, full_mask()),
        GroupedSelfAttention(16, 4, 2)(vectors, full_mask()),
        CrossAttention(16, 4, 16)(vectors, CrossAttention(16, 4, 16).project_memory(vectors), full_mask()),
    ]
    for looked in looks:
        steps, waiting = set(), [looked.grad_fn]
        while waiting:
            step = waiting.pop()
            steps.add(step.name())
            waiting += [before for before, _ in step.next_functions if before is not None]
        assert any(step.startswith("Split") for step in steps)
        assert not any(step.startswith(("Slice", "Select")) for step in steps)


def test_self_attention_alone_knows_no_order():
    layer, vectors, order = SelfAttention(6, 2), torch.randn(1, 5, 6), [3, 0, 4, 1, 2]
    assert_close(layer(vectors[:, order], full_mask()), layer(vectors, full_mask())[:, order])


def test_layers_have_the_gradients_of_finite_differences():
    own, across = SelfAttention(4, 2).double(), CrossAttention(4, 2, 3).double()
    vectors = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    attention_mask = padding_mask(ragged([5, 2], 5))
    assert torch.autograd.gradcheck(lambda x: own(x, causal_mask()), [vectors])
    assert torch.autograd.gradcheck(lambda x, m: across(x, across.project_memory(m), attention_mask), [vectors, memory])
    weights = [weight.detach().requires_grad_() for weight in own.parameters()]
    names = [name for name, _ in own.named_parameters()]

    def by_weights(*values):
        return torch.func.functional_call(own, dict(zip(names, values, strict=True)), (vectors.detach(), causal_mask()))

    assert torch.autograd.gradcheck(by_weights, weights)


# Watching


@every_mask
def test_a_probe_sees_the_weights_and_the_output_is_the_same_to_the_last_bit(attention_mask):
    queries, keys, values = (part.detach() for part in looks(torch.float32))
    layer, seen = SelfAttention(6, 2), []
    unwatched = layer.attend(queries, keys, values, attention_mask)
    layer.hook = seen.append
    assert torch.equal(layer.attend(queries, keys, values, attention_mask), unwatched)
    layer.hook = None
    assert torch.equal(layer.attend(queries, keys, values, attention_mask), unwatched)
    assert len(seen) == 1
    assert torch.equal(seen[0].weights, attention_weights(queries, keys, attention_mask))
    # What is shown is what is used: the shown weights give the output.
    assert_close(layer.out_proj(merge_heads(seen[0].weights @ seen[0].values)), unwatched, rtol=0, atol=1e-6)


def test_watching_one_layer_leaves_another_unwatched():
    watched, other = SelfAttention(4, 2), SelfAttention(4, 2)
    watched.hook = print
    assert other.hook is None


# The cache


def test_the_cache_is_written_at_each_rows_own_times():
    cache = KeyValueCache(torch.zeros(2, 2, 1, 4, 1))
    keys = torch.tensor([[5.0, 6.0], [7.0, 8.0]]).view(2, 1, 2, 1)
    cache.write(torch.stack([keys, -keys], dim=1), torch.tensor([[0, 1], [2, 3]]))
    assert cache.keys.flatten(1).tolist() == [[5, 6, 0, 0], [0, 0, 7, 8]]
    assert cache.values.flatten(1).tolist() == [[-5, -6, 0, 0], [0, 0, -7, -8]]


def test_the_cache_begins_empty_with_room_for_every_head():
    cache = SelfAttention(width=6, heads=3).empty_cache(rows=2, empty_cache=5)
    assert cache.keys.shape == cache.values.shape == (2, 3, 5, 2)
    assert cache.keys.count_nonzero() == cache.values.count_nonzero() == 0


def test_stepping_equals_looking_back_at_everything_at_every_split():
    layer, vectors = SelfAttention(6, 2).double(), torch.randn(3, 5, 6, dtype=torch.float64)
    expected = layer(vectors, causal_mask())
    for first in range(1, 5):
        cache, looked = layer.empty_cache(3, 5), []
        for times in torch.arange(5).split([first, *[1] * (5 - first)]):
            looked.append(layer.step(vectors[:, times], cache, times.expand(3, -1)))
        assert_close(torch.cat(looked, dim=1), expected, rtol=0, atol=1e-12)


def test_rows_may_stand_at_different_times():
    layer, vectors = SelfAttention(6, 2), torch.randn(2, 5, 6)
    expected = layer(vectors, causal_mask())
    cache = layer.empty_cache(2, 5)
    # Row 0 has read one vector, row 1 four: both take in one more.
    for row, read in ((0, 1), (1, 4)):
        alone = KeyValueCache(cache.keys_values[row : row + 1])
        layer.step(vectors[row : row + 1, :read], alone, torch.arange(read)[None])
    new = torch.stack([vectors[0, 1], vectors[1, 4]])[:, None]
    stepped = layer.step(new, cache, torch.tensor([[1], [4]]))
    assert_close(stepped[:, 0], torch.stack([expected[0, 1], expected[1, 4]]))


def test_what_lies_behind_in_the_cache_is_not_seen():
    layer, vectors = SelfAttention(6, 2), torch.randn(1, 2, 6)
    cache = layer.empty_cache(1, 4)
    dirty = KeyValueCache(torch.stack([cache.keys + 1e3, cache.values - 1e3], dim=1))
    times = torch.arange(2)[None]
    assert torch.equal(layer.step(vectors, dirty, times), layer.step(vectors, cache, times))


# Heads that share their keys


def test_heads_that_share_keys_are_heads_with_equal_keys():
    torch.manual_seed(4)
    grouped, plain = GroupedSelfAttention(12, heads=4, kv_heads=2).eval(), SelfAttention(12, heads=4).eval()
    with torch.no_grad():
        for name in ("weight", "bias"):
            given = getattr(grouped.qkv_proj, name)
            queries, keys, values = given.split([12, 6, 6])
            twice = [each.unflatten(0, (2, 3)).repeat_interleave(2, dim=0).flatten(0, 1) for each in (keys, values)]
            getattr(plain.qkv_proj, name).copy_(torch.cat([queries, *twice]))
    plain.out_proj.load_state_dict(grouped.out_proj.state_dict())
    vectors = torch.randn(2, 5, 12)
    assert_close(grouped(vectors, causal_mask()), plain(vectors, causal_mask()))
    assert grouped.empty_cache(2, 7).keys.shape == (2, 2, 7, 3)
    assert sum(each.numel() for each in grouped.parameters()) < sum(each.numel() for each in plain.parameters())


def test_a_watcher_is_told_row_by_row_who_may_look():
    """A mask that is the same for all rows is written once; whoever picks a row finds it all the same."""
    attention, seen = SelfAttention(6, 2), []
    attention.hook = seen.append
    attention(torch.randn(3, 4, 6), causal_mask())
    assert seen[0].mask.shape == (3, 1, 4, 4)
    assert torch.equal(seen[0].mask[2, 0], torch.ones(4, 4, dtype=torch.bool).tril())
