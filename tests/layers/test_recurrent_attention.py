"""Attention over one memory: numbers by hand, padding, gradients, and what a hook records."""

from __future__ import annotations

from math import exp, log, tanh

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.core.errors import UserError
from seq2see.layers.recurrent_attention import (
    AdditiveAttention,
    BilinearAttention,
    DotAttention,
    ScaledDotAttention,
    masked_softmax,
)

ATTENTIONS = {
    "additive": lambda: AdditiveAttention(5, 3, 7),
    "dot": lambda: DotAttention(3, 3),
    "bilinear": lambda: BilinearAttention(5, 3),
    "scaled-dot": lambda: ScaledDotAttention(3, 3),
}


def query_width(name: str) -> int:
    return 3 if "dot" in name else 5


def random_inputs(name: str, dtype: torch.dtype = torch.float32):
    """An attention, two queries for each of three rows, and a memory of rows of unequal length with NaN padding."""
    attention = ATTENTIONS[name]().to(dtype)
    query = torch.randn(3, 2, query_width(name), dtype=dtype)
    values, lengths = torch.randn(3, 4, 3, dtype=dtype), torch.tensor([4, 2, 3])
    memory = Sequences(values, lengths)
    values[~memory.valid] = float("nan")
    return attention, query, memory


def test_dot_and_scaled_dot_by_hand():
    memory = Sequences(torch.tensor([[[log(3) / 2, 1.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]]]), torch.tensor([2]))
    query = torch.tensor([[[2.0, 0.0, 0.0, 0.0]]])  # scores log 3 and 0, halved by √4
    dot = DotAttention(4, 4)
    context, weights = dot(query, dot.project_keys(memory), memory)
    assert_close(weights, torch.tensor([[[0.75, 0.25]]]))
    assert_close(context[0, 0, 1].item(), 2.0)  # 3/4 · 1 + 1/4 · 5
    scaled = ScaledDotAttention(4, 4)
    _, weights = scaled(query, scaled.project_keys(memory), memory)
    assert_close(weights[0, 0, 0].item(), 3**0.5 / (3**0.5 + 1))


def test_bilinear_by_hand():
    bilinear = BilinearAttention(1, 2)
    bilinear.key.weight.data.copy_(torch.tensor([[log(2), log(4)]]))
    memory = Sequences(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]), torch.tensor([3]))
    context, weights = bilinear(torch.ones(1, 1, 1), bilinear.project_keys(memory), memory)
    assert_close(weights, torch.tensor([[[2 / 7, 4 / 7, 1 / 7]]]))
    assert_close(context, torch.tensor([[[2 / 7, 4 / 7]]]))


def test_additive_by_hand():
    additive = AdditiveAttention(2, 1, 1)
    additive.query.weight.data.copy_(torch.tensor([[1.0, -1.0]]))
    additive.query.bias.data.fill_(0.5)
    nn.init.constant_(additive.key.weight, 2.0)
    nn.init.constant_(additive.score_proj.weight, 3.0)
    memory = Sequences(torch.tensor([[[0.0], [0.25]]]), torch.tensor([2]))
    query = torch.tensor([[[1.0, 2.0]]])  # W q + b = -1/2; U k = 0 and 1/2; so 3 tanh(-1/2) and 3 tanh(0)
    _, weights = additive(query, additive.project_keys(memory), memory)
    low = exp(3 * tanh(-0.5))
    assert_close(weights, torch.tensor([[[low / (low + 1), 1 / (low + 1)]]]))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_weights_sum_to_one_over_valid_positions_and_are_zero_elsewhere(name):
    attention, query, memory = random_inputs(name)
    query.requires_grad_()
    values = memory.values.clone().requires_grad_()
    memory = Sequences(values, memory.lengths)
    context, weights = attention(query, attention.project_keys(memory), memory)
    padded = ~memory.valid[:, None].expand_as(weights)
    assert (weights[padded] == 0).all()
    assert (weights[~padded] > 0).all()
    assert_close(weights.sum(-1), torch.ones(3, 2))
    (context**2).sum().backward()
    gradients = [query.grad, values.grad, *(parameter.grad for parameter in attention.parameters())]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert values.grad[~memory.valid].count_nonzero() == 0
    # The second row has two positions: its result is that of a memory without padding.
    short = Sequences(values[1:2, :2], memory.lengths[1:2])
    expected, _ = attention(query[1:2], attention.project_keys(short), short)
    assert_close(context[1:2], expected)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_memory_without_data_gives_zeros_and_not_nan(name):
    attention, query, memory = random_inputs(name)
    query.requires_grad_()
    empty = Sequences(memory.values, torch.tensor([4, 0, 3]))
    context, weights = attention(query, attention.project_keys(empty), empty)
    assert weights[1].count_nonzero() == 0
    assert context[1].count_nonzero() == 0
    context.sum().backward()
    assert query.grad.isfinite().all()


def test_masked_softmax_of_the_largest_scores_is_finite():
    scores = torch.tensor([[[3e38, -3e38, 0.0]]])
    assert masked_softmax(scores, torch.tensor([[True, True, False]])).tolist() == [[[1.0, 0.0, 0.0]]]
    assert masked_softmax(scores, torch.tensor([[False, True, True]])).tolist() == [[[0.0, 0.0, 1.0]]]


@pytest.mark.parametrize("name", ATTENTIONS)
def test_gradients_of_attention_are_right(name):
    attention, query, memory = random_inputs(name, torch.float64)
    values = memory.values.nan_to_num().requires_grad_()

    def attend(query, values):
        own_memory = Sequences(values, memory.lengths)
        return attention(query, attention.project_keys(own_memory), own_memory)

    assert torch.autograd.gradcheck(attend, (query.requires_grad_(), values))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_queries_are_independent(name):
    attention, query, memory = random_inputs(name)
    keys = attention.project_keys(memory)
    context, _ = attention(query, keys, memory)
    assert_close(attention(query[:, 1:], keys, memory)[0], context[:, 1:])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_hook_records_the_weights_and_changes_nothing(name):
    attention, query, memory = random_inputs(name)
    keys = attention.project_keys(memory)
    expected, weights = attention(query, keys, memory)
    records = []
    attention.hook = records.append
    context, _ = attention(query, keys, memory)
    assert torch.equal(context, expected)
    assert len(records) == 1
    assert torch.equal(records[0].weights, weights[:, None])
    # The recorded queries and keys give the weights, by the recorded scoring function.
    queries, keys = records[0].queries, records[0].keys
    scores = {
        "dot": lambda: queries @ keys.mT,
        "scaled-dot": lambda: queries @ keys.mT / queries.size(-1) ** 0.5,
        "additive": lambda: torch.tanh(queries[..., None, :] + keys[..., None, :, :]) @ attention.score_proj.weight[0],
    }[attention.score_function]()
    recomputed = scores.masked_fill(~records[0].mask, -torch.inf).softmax(-1)
    assert_close(recomputed, records[0].weights)
    assert_close((recomputed @ records[0].values)[:, 0], context)


@pytest.mark.parametrize("attention_class", [DotAttention, ScaledDotAttention])
def test_a_dot_product_of_unequal_widths_is_refused_with_a_hint(attention_class):
    with pytest.raises(UserError, match=r"is 5 and the width of the encoder output is 3.*bilinear"):
        attention_class(5, 3)


def test_padded_positions_have_no_weight_whatever_the_scores():
    valid = torch.tensor([[True, True, False]])
    assert_close(masked_softmax(torch.tensor([[[-1e6, -1e6, 0.0]]]), valid), torch.tensor([[[0.5, 0.5, 0.0]]]))


def test_nothing_is_learned_that_is_equal_for_all_positions():
    """A softmax does not depend on a constant that is added to all scores: v and bilinear keys have no bias."""
    additive, bilinear = AdditiveAttention(5, 3), BilinearAttention(5, 3)
    shapes = {name: tuple(weight.shape) for name, weight in additive.named_parameters()}
    # By default the width of the hidden layer is that of the query.
    assert shapes == {"query.weight": (5, 5), "query.bias": (5,), "key.weight": (5, 3), "score_proj.weight": (1, 5)}
    assert [name for name, _ in bilinear.named_parameters()] == ["key.weight"]
