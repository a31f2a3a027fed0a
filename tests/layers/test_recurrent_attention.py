"""Attention over one memory: numbers on paper, padding, gradients, and what a probe sees."""

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

KINDS = {
    "additive": lambda: AdditiveAttention(5, 3, 7),
    "dot": lambda: DotAttention(3, 3),
    "bilinear": lambda: BilinearAttention(5, 3),
    "scaled-dot": lambda: ScaledDotAttention(3, 3),
}


def query_width(kind: str) -> int:
    return 3 if "dot" in kind else 5


def scene(kind: str, dtype: torch.dtype = torch.float32):
    """An attention, two queries for each of three rows, and a memory of unequal rows with NaN behind."""
    attention = KINDS[kind]().to(dtype)
    query = torch.randn(3, 2, query_width(kind), dtype=dtype)
    values, lengths = torch.randn(3, 4, 3, dtype=dtype), torch.tensor([4, 2, 3])
    memory = Sequences(values, lengths)
    values[~memory.real] = float("nan")
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
    nn.init.constant_(additive.value.weight, 3.0)
    memory = Sequences(torch.tensor([[[0.0], [0.25]]]), torch.tensor([2]))
    query = torch.tensor([[[1.0, 2.0]]])  # W q + b = -1/2; U k = 0 and 1/2; so 3 tanh(-1/2) and 3 tanh(0)
    _, weights = additive(query, additive.project_keys(memory), memory)
    low = exp(3 * tanh(-0.5))
    assert_close(weights, torch.tensor([[[low / (low + 1), 1 / (low + 1)]]]))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_shares_of_the_real_places_and_nothing_else(kind):
    attention, query, memory = scene(kind)
    query.requires_grad_()
    values = memory.values.clone().requires_grad_()
    memory = Sequences(values, memory.lengths)
    context, weights = attention(query, attention.project_keys(memory), memory)
    hidden = ~memory.real[:, None].expand_as(weights)
    assert (weights[hidden] == 0).all()
    assert (weights[~hidden] > 0).all()
    assert_close(weights.sum(-1), torch.ones(3, 2))
    (context**2).sum().backward()
    gradients = [query.grad, values.grad, *(parameter.grad for parameter in attention.parameters())]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert values.grad[~memory.real].count_nonzero() == 0
    # The second row has two places: the same as a memory that ends there.
    short = Sequences(values[1:2, :2], memory.lengths[1:2])
    expected, _ = attention(query[1:2], attention.project_keys(short), short)
    assert_close(context[1:2], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_memory_without_data_gives_zeros_and_not_nan(kind):
    attention, query, memory = scene(kind)
    query.requires_grad_()
    empty = Sequences(memory.values, torch.tensor([4, 0, 3]))
    context, weights = attention(query, attention.project_keys(empty), empty)
    assert weights[1].count_nonzero() == 0
    assert context[1].count_nonzero() == 0
    context.sum().backward()
    assert query.grad.isfinite().all()


def test_weighing_survives_the_largest_scores():
    scores = torch.tensor([[[3e38, -3e38, 0.0]]])
    assert masked_softmax(scores, torch.tensor([[True, True, False]])).tolist() == [[[1.0, 0.0, 0.0]]]
    assert masked_softmax(scores, torch.tensor([[False, True, True]])).tolist() == [[[0.0, 0.0, 1.0]]]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_attention_are_right(kind):
    attention, query, memory = scene(kind, torch.float64)
    values = memory.values.nan_to_num().requires_grad_()

    def look(query, values):
        memory_now = Sequences(values, memory.lengths)
        return attention(query, attention.project_keys(memory_now), memory_now)

    assert torch.autograd.gradcheck(look, (query.requires_grad_(), values))


@pytest.mark.parametrize("kind", KINDS)
def test_queries_look_independently(kind):
    attention, query, memory = scene(kind)
    keys = attention.project_keys(memory)
    context, _ = attention(query, keys, memory)
    assert_close(attention(query[:, 1:], keys, memory)[0], context[:, 1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_sees_the_weights_and_changes_nothing(kind):
    attention, query, memory = scene(kind)
    keys = attention.project_keys(memory)
    unwatched, weights = attention(query, keys, memory)
    seen = []
    attention.hook = seen.append
    watched, _ = attention(query, keys, memory)
    assert torch.equal(watched, unwatched)
    assert len(seen) == 1
    assert torch.equal(seen[0].weights, weights[:, None])
    # What is shown is what is used: by the formula that is told, queries and keys give the weights.
    asked, keys = seen[0].queries, seen[0].keys
    scores = {
        "dot": lambda: asked @ keys.mT,
        "scaled-dot": lambda: asked @ keys.mT / asked.size(-1) ** 0.5,
        "additive": lambda: torch.tanh(asked[..., None, :] + keys[..., None, :, :]) @ attention.value.weight[0],
    }[attention.formula]()
    found = scores.masked_fill(~seen[0].mask, -torch.inf).softmax(-1)
    assert_close(found, seen[0].weights)
    assert_close((found @ seen[0].values)[:, 0], watched)


@pytest.mark.parametrize("attention_class", [DotAttention, ScaledDotAttention])
def test_a_dot_product_of_unequal_widths_is_refused_with_a_way_out(attention_class):
    with pytest.raises(UserError, match=r"is 5 and the memory's is 3.*bilinear"):
        attention_class(5, 3)


def test_whatever_the_scores_what_is_hidden_is_further_below():
    real = torch.tensor([[True, True, False]])
    assert_close(masked_softmax(torch.tensor([[[-1e6, -1e6, 0.0]]]), real), torch.tensor([[[0.5, 0.5, 0.0]]]))


def test_nothing_is_learned_that_all_places_would_share():
    """A softmax does not see what is added to all scores, so neither v nor the bilinear keys have a bias."""
    additive, bilinear = AdditiveAttention(5, 3), BilinearAttention(5, 3)
    shapes = {name: tuple(weight.shape) for name, weight in additive.named_parameters()}
    # Unless told otherwise the hidden layer is as wide as the query.
    assert shapes == {"query.weight": (5, 5), "query.bias": (5,), "key.weight": (5, 3), "value.weight": (1, 5)}
    assert [name for name, _ in bilinear.named_parameters()] == ["key.weight"]
