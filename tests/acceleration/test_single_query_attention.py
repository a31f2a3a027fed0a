"""The attention kernels for one query equal the cache with eager attention.

Without a GPU triton interprets it, which is slow but the same arithmetic (conftest.py).
"""

from __future__ import annotations

import pytest
import torch

from seq2see.layers.attention import KeyValueCache, eager_attention, merge_heads, split_heads
from seq2see.layers.masks import AttentionMask, cache_mask

pytestmark = pytest.mark.triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [(torch.float32, 1e-5), (torch.bfloat16, 0.02)]
CASES = [  # heads, max_length, head size, and the number of cached tokens of each row
    (2, 32, 16, [0]),
    (1, 32, 64, [31]),
    (2, 100, 12, [0, 99, 64]),  # one row with two tiles, and one that ends with its first tile
    (3, 7, 5, [6, 3]),
    (1, 1, 1, [0]),
    (2, 200, 4, [199, 65, 128, 1]),
]


def random_tensor(*sizes, dtype):
    return (2 * torch.randn(*sizes, device=DEVICE)).to(dtype)


@pytest.mark.parametrize("dtype, tolerance", DTYPES, ids=["float32", "bf16"])
@pytest.mark.parametrize("heads, max_length, size, cache_length", CASES)
def test_self_attention_writes_the_cache_and_equals_eager_attention(
    heads, max_length, size, cache_length, dtype, tolerance
):
    from seq2see.acceleration.small_batch_kernels import cached_self_attention

    qkv = random_tensor(len(cache_length), 3 * heads * size, dtype=dtype)
    # The positions after the length of a row hold other numbers, which must have no influence.
    cache, times = (
        random_tensor(len(cache_length), 2, heads, max_length, size, dtype=dtype),
        torch.tensor(cache_length, device=DEVICE),
    )
    queries, keys, values = (split_heads(part[:, None], heads) for part in qkv.chunk(3, dim=-1))
    plain = KeyValueCache(cache.clone())
    plain.write(torch.stack([keys, values], dim=1), times[:, None])
    past, self_attention_mask = KeyValueCache(plain.keys_values.double()), cache_mask(times[:, None], max_length)
    expected = merge_heads(eager_attention(queries.double(), past.keys, past.values, self_attention_mask))[:, 0]
    output = cached_self_attention(qkv, cache, times)
    assert torch.equal(cache, plain.keys_values)
    assert output.dtype == dtype
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=tolerance * float(expected.abs().max()))


@pytest.mark.parametrize("dtype, tolerance", DTYPES, ids=["float32", "bf16"])
@pytest.mark.parametrize("heads, times, size, rows", [(2, 32, 16, 1), (1, 65, 12, 3), (2, 7, 5, 4), (1, 1, 1, 1)])
def test_cross_attention_equals_eager_attention_with_a_mask(heads, times, size, rows, dtype, tolerance):
    from seq2see.acceleration.small_batch_kernels import single_query_cross_attention

    queries = random_tensor(rows, heads * size, dtype=dtype)
    keys, values = (random_tensor(rows, heads, times, size, dtype=dtype) for _ in range(2))
    mask = torch.rand(rows, 1, 1, times, device=DEVICE) > 0.4
    exact_queries = split_heads(queries[:, None], heads).double()
    expected = merge_heads(eager_attention(exact_queries, keys.double(), values.double(), AttentionMask(mask)))[:, 0]
    output = single_query_cross_attention(queries, keys, values, mask)
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=tolerance * (1e-3 + float(expected.abs().max())))


def test_a_query_without_a_visible_key_gets_zeros():
    from seq2see.acceleration.small_batch_kernels import single_query_cross_attention

    keys = random_tensor(2, 1, 70, 8, dtype=torch.float32)
    mask = torch.zeros(2, 1, 1, 70, dtype=torch.bool, device=DEVICE)
    mask[1, ..., 66:] = True  # and one whose first tile is masked completely
    output = single_query_cross_attention(random_tensor(2, 8, dtype=torch.float32), keys, keys, mask)
    assert not output[0].any()
    assert output[1].abs().max() <= keys[1, 0, 66:].abs().max()
    assert output[1].any()


def test_scores_far_apart_do_not_overflow():
    from seq2see.acceleration.small_batch_kernels import single_query_cross_attention

    keys = torch.tensor([[[[300.0], [-300.0], [299.0]]]], device=DEVICE)
    mask = torch.ones(1, 1, 1, 3, dtype=torch.bool, device=DEVICE)
    output = single_query_cross_attention(torch.full((1, 1), 10.0, device=DEVICE), keys, keys, mask)
    assert float(output) == pytest.approx(300.0, abs=0.1)
