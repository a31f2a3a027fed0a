"""Claims of the course notes about attention, norms and residual connections: what holds, and what does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seq2see.layers.attention import SelfAttention, attention_weights, eager_attention, value_output_matrices
from seq2see.layers.convolution import ConvolutionBlock
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.gru_lstm import GRUCell, LSTMCell
from seq2see.layers.masks import causal_mask, full_mask
from seq2see.layers.norms_and_dropout import LayerNorm, MaskedBatchNorm, PreNorm
from seq2see.layers.recurrent_attention import DotAttention
from seq2see.layers.recurrent_cells import RNNCell


def with_identity_weights(layer: SelfAttention, queries: float, keys: float) -> SelfAttention:
    """Queries and keys are the vectors themselves, times these numbers; values are the vectors."""
    identity = torch.eye(layer.width)
    layer.qkv_proj.weight.data = torch.cat([queries * identity, keys * identity, identity])
    layer.qkv_proj.bias.data.zero_()
    return layer


def weights_of(layer: SelfAttention, vectors: Tensor) -> Tensor:
    queries, keys, _ = layer.project(vectors)
    return attention_weights(queries, keys, full_mask())


# Scores


@pytest.mark.parametrize("size", [4, 64, 1024])
def test_dot_products_grow_with_the_size_and_the_division_by_its_root_normalizes_them(size):
    queries, keys = torch.randn(4000, size), torch.randn(4000, size)
    scores = (queries * keys).sum(-1)
    assert scores.var().item() == pytest.approx(size, rel=0.1)
    assert (scores / size**0.5).var().item() == pytest.approx(1, rel=0.1)


def test_unscaled_attention_saturates():
    queries, keys = torch.randn(1, 1, 50, 1024), torch.randn(1, 1, 50, 1024)
    scaled = attention_weights(queries, keys, full_mask())
    unscaled = (queries @ keys.mT).softmax(-1)
    assert unscaled.amax(-1).mean() > 0.9 > 0.5 > scaled.amax(-1).mean()
    gradients = [
        (weights * (1 - weights)).sum(-1).mean() for weights in (unscaled, scaled)
    ]  # of a softmax with respect to its scores
    assert gradients[0] < 0.2 < 0.9 < gradients[1]


def test_dot_product_ranks_like_cosine_only_for_equal_norms():
    attention, query = DotAttention(2, 2), torch.tensor([[[1.0, 0.0]]])
    directions = torch.tensor([[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]]])  # 0, 53, 90 and 180 degrees away
    assert attention.score(query, directions).tolist() == [[[1.0, pytest.approx(0.6), 0.0, -1.0]]]
    longer = directions * torch.tensor([1.0, 9.0, 1.0, 1.0])[:, None]
    assert attention.score(query, longer).argmax() == 1  # although its direction is not the closest


def test_self_attention_peaks_at_itself_only_if_queries_equal_keys():
    vectors = F.normalize(torch.randn(1, 7, 6), dim=-1)
    equal, opposed = (
        weights_of(with_identity_weights(SelfAttention(6, 1), 3.0, keys), vectors)[0, 0] for keys in (3.0, -3.0)
    )
    assert equal.argmax(-1).tolist() == opposed.argmin(-1).tolist() == list(range(7))
    initial = weights_of(SelfAttention(6, 1), vectors)[0, 0]
    assert initial.argmax(-1).tolist() != list(range(7))


# Heads


def test_one_large_projection_is_a_small_projection_for_each_head():
    layer, vectors, size = SelfAttention(6, 3).double(), torch.randn(2, 5, 6, dtype=torch.float64), 2
    weight, bias = layer.qkv_proj.weight, layer.qkv_proj.bias
    head_outputs = []
    for head in range(3):
        rows = [slice(6 * part + size * head, 6 * part + size * (head + 1)) for part in range(3)]
        projected = [F.linear(vectors, weight[row], bias[row])[:, None] for row in rows]
        head_outputs.append(eager_attention(*projected, causal_mask())[:, 0])
    assert_close(layer.out_proj(torch.cat(head_outputs, dim=-1)), layer(vectors, causal_mask()))


def test_gpt_3_parameter_counts():
    width, heads, depth, tokens, positions = 12_288, 96, 96, 50_257, 2_048
    with torch.device("meta"):  # only shapes: the weights would not fit into memory
        self_attention, feed_forward = SelfAttention(width, heads), FeedForward(width, 4 * width)
        norms = [LayerNorm(width), LayerNorm(width)]
    assert self_attention.qkv_proj.weight.unflatten(0, (3, heads, -1))[0, 0].shape == (128, width)  # a head's W_Q
    up = value_output_matrices(self_attention)[0]
    assert up.shape == (width, 128)  # so up and down have as many weights as W_Q and W_K, not width²
    block = sum(weight.numel() for part in (self_attention, feed_forward, *norms) for weight in part.parameters())
    total = depth * block + (tokens + positions) * width + 2 * width  # and the last norm
    assert round(total / 1e9) == 175


# Order


def test_causal_masks_encode_order_from_two_layers_on():
    first, second = SelfAttention(6, 2).double(), SelfAttention(6, 2).double()
    vectors = torch.randn(1, 5, 6, dtype=torch.float64)
    other = vectors[:, [2, 0, 3, 1, 4]]  # the last one stays
    one_layer = [first(each, causal_mask())[:, -1] for each in (vectors, other)]
    assert_close(one_layer[0], one_layer[1])  # for a single layer the past is a set without order
    two_layers = [second(first(each, causal_mask()), causal_mask())[:, -1] for each in (vectors, other)]
    assert (two_layers[0] - two_layers[1]).abs().max() > 1e-3


# Numbers of weights, and rank collapse


def test_attention_has_more_weights_than_an_rnn_and_fewer_than_a_gru():
    width = 10
    counts = {
        SelfAttention(width, 2): 4 * width**2 + 4 * width,
        FeedForward(width, 4 * width): 8 * width**2 + 5 * width,
        RNNCell(width, width): 2 * width**2 + 2 * width,
        GRUCell(width, width): 6 * width**2 + 6 * width,
        LSTMCell(width, width): 8 * width**2 + 8 * width,
        ConvolutionBlock(width, 3): 3 * width * 2 * width + 2 * width,
        DotAttention(width, width): 0,
    }
    for part, expected in counts.items():
        assert sum(weight.numel() for weight in part.parameters()) == expected, type(part)


def test_residual_connections_prevent_rank_collapse():
    vectors = torch.randn(1, 9, 32)
    without_residual, residual_stream, valid = vectors, vectors, torch.ones(1, 9, dtype=torch.bool)
    for _ in range(6):
        layer, residual = SelfAttention(32, 4), PreNorm(LayerNorm(32), 0.0)
        without_residual = layer(without_residual, full_mask())
        residual_stream = residual(residual_stream, valid, lambda x, layer=layer: layer(x, full_mask()))
    diversity = [
        (each - each.mean(1, keepdim=True)).norm() / each.norm()
        for each in (vectors, without_residual, residual_stream)
    ]
    assert diversity[1] < 0.01 < 0.5 < diversity[2] <= 1.1 * diversity[0]


# Norms


def test_layer_norm_is_batch_norm_of_the_transposed_matrix():
    matrix = torch.randn(1, 5, 7)
    valid, transposed_valid = torch.ones(1, 5, dtype=torch.bool), torch.ones(1, 7, dtype=torch.bool)
    batch = MaskedBatchNorm(5)
    assert_close(batch(matrix.mT, transposed_valid).mT, LayerNorm(7)(matrix, valid))
    batch.eval()  # only in training: evaluation uses running statistics
    assert not torch.allclose(batch(matrix.mT, transposed_valid).mT, LayerNorm(7)(matrix, valid))


def test_layer_norm_over_time_would_leak_the_future():
    sentence, valid = torch.randn(1, 5, 6), torch.ones(1, 5, dtype=torch.bool)
    other = sentence.clone()
    other[:, -1] *= 3
    norm = LayerNorm(6)
    assert torch.equal(norm(sentence, valid)[:, :4], norm(other, valid)[:, :4])
    over_time = [
        F.layer_norm(each, (5, 6))[:, :4] for each in (sentence, other)
    ]  # mean and standard deviation of (row, 1, 1)
    assert (over_time[0] - over_time[1]).abs().max() > 0.1
