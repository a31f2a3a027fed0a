"""Pooling: by hand, with padding that has no influence, and against torch's own attention."""

from __future__ import annotations

import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.layers.feed_forward import GeluTanhFeedForward
from seq2see.layers.pooling import (
    AttentionPooling,
    ClsDistillationPooling,
    ClsPooling,
    MeanPooling,
    PrefixTokens,
    TanhClsPooling,
)


def rows(values: torch.Tensor, *lengths: int) -> Sequences:
    return Sequences(values, torch.tensor(lengths))


def test_learned_tokens_are_prepended_to_every_row():
    tokens = PrefixTokens(2, count=2)
    with torch.no_grad():
        tokens.embeddings.copy_(torch.tensor([[1.0, 2], [3, 4]]))
    longer = tokens(rows(torch.tensor([[[5.0, 6], [7, 8]], [[9, 9], [0, 0]]]), 2, 1))
    assert longer.values.tolist() == [[[1, 2], [3, 4], [5, 6], [7, 8]], [[1, 2], [3, 4], [9, 9], [0, 0]]]
    assert longer.lengths.tolist() == [4, 3]


def test_a_class_token_learns_from_every_row():
    tokens = PrefixTokens(3)
    ClsPooling()(tokens(rows(torch.randn(5, 2, 3), 2, 2, 2, 2, 2))).sum().backward()
    assert tokens.embeddings.grad.tolist() == [[5.0, 5.0, 5.0]]


def test_cls_and_mean_by_hand():
    sequences = rows(torch.tensor([[[1.0, 2], [3, 6]], [[5, 5], [float("nan"), 7]]]), 2, 1)
    assert ClsPooling()(sequences).tolist() == [[1, 2], [5, 5]]
    assert MeanPooling()(sequences).tolist() == [[2, 4], [5, 5]]


def test_attention_pooling_is_torchs_attention_with_one_query():
    torch.manual_seed(3)
    pool, reference = (
        AttentionPooling(6, 2, GeluTanhFeedForward(6, 11), eps=0.1),
        nn.MultiheadAttention(6, 2, batch_first=True),
    )
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([pool.attention.q_proj.weight, pool.attention.kv_proj.weight]))
        reference.in_proj_bias.copy_(torch.cat([pool.attention.q_proj.bias, pool.attention.kv_proj.bias]))
        reference.out_proj.load_state_dict(pool.attention.out_proj.state_dict())
    vectors = torch.randn(3, 5, 6)
    lengths = torch.tensor([5, 2, 4])
    padding = torch.arange(5) >= lengths[:, None]
    output, _ = reference(pool.query.expand(3, 1, -1), vectors, vectors, key_padding_mask=padding)
    normal = nn.functional.layer_norm(output, (6,), eps=0.1)
    expected = (output + pool.feed_forward(normal))[:, 0]
    assert_close(pool(Sequences(vectors, lengths)), expected)


def test_attention_pooling_does_not_depend_on_padding():
    pool = AttentionPooling(4, 2, GeluTanhFeedForward(4, 7))
    vectors = torch.randn(2, 5, 4)
    short = pool(rows(vectors[:, :3], 3, 3))
    vectors[:, 3:] = float("nan")
    assert_close(pool(rows(vectors, 3, 3)), short)


def test_cls_distillation_and_tanh_cls_by_hand():
    sequences = rows(torch.tensor([[[1.0, 2], [3, 6], [9, 9]]]), 3)
    assert ClsDistillationPooling()(sequences).tolist() == [[1, 2, 3, 6]]
    assert (ClsDistillationPooling.vector_count, ClsPooling.vector_count) == (2, 1)
    pool = TanhClsPooling(2)
    with torch.no_grad():
        pool.dense.weight.copy_(torch.tensor([[1.0, 0], [0, 0.5]]))
        pool.dense.bias.copy_(torch.tensor([0.0, -1]))
    assert_close(pool(sequences), torch.tensor([[1.0, 0]]).tanh())


def test_learned_vectors_begin_with_length_one():
    """As token embeddings do: a standard deviation of 1 / √width."""
    tokens, pool = PrefixTokens(400, 3), AttentionPooling(400, 2, nn.Identity())
    for vectors in (tokens.embeddings, pool.query):
        assert_close(vectors.detach().norm(dim=-1), torch.ones(len(vectors)), rtol=0, atol=0.15)


def test_learned_tokens_have_the_dtype_of_the_row():
    assert PrefixTokens(2)(rows(torch.zeros(1, 3, 2, dtype=torch.bfloat16), 3)).values.dtype == torch.bfloat16
