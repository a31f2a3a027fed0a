"""Multi-head attention of the course notes (each head adds a change) equals that of the papers."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from seq2see.core.batch import Sequences
from seq2see.layers.attention import SelfAttention, head_contributions, merge_heads, split_heads, value_output_matrices
from seq2see.layers.masks import causal_mask, full_mask, padding_mask

SOURCE = Sequences(torch.zeros(2, 5, dtype=torch.long), torch.tensor([5, 3]))


@pytest.mark.parametrize("attention_mask", [full_mask(), causal_mask(), causal_mask() & padding_mask(SOURCE)])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_contributions_of_all_heads_sum_to_the_output(attention_mask, heads):
    layer, vectors = SelfAttention(6, heads).double(), torch.randn(2, 5, 6, dtype=torch.float64)
    contributions = head_contributions(layer, vectors, attention_mask)
    assert contributions.shape == (heads, 2, 5, 6)
    output = contributions.sum(0) + layer.out_proj.bias
    assert_close(output, layer(vectors, attention_mask), rtol=0, atol=1e-12)


def test_the_contribution_of_one_head_is_the_output_without_the_others():
    layer, vectors = SelfAttention(6, 2).double(), torch.randn(2, 5, 6, dtype=torch.float64)
    contributions = head_contributions(layer, vectors, causal_mask())
    with torch.no_grad():
        layer.out_proj.weight[:, :3] = 0  # removes the first head
    assert_close(contributions[1], layer(vectors, causal_mask()) - layer.out_proj.bias, rtol=0, atol=1e-12)


def test_a_heads_value_matrix_is_a_narrow_down_times_a_wide_up():
    layer, heads, width = SelfAttention(6, 3), 3, 6
    vectors = torch.randn(1, 4, width)
    ups = value_output_matrices(layer)
    assert ups.shape == (heads, width, 2)
    downs = layer.qkv_proj.weight[2 * width :].unflatten(0, (heads, 2))
    biases = layer.qkv_proj.bias[2 * width :]
    for head in range(heads):
        matrix = ups[head] @ downs[head]
        assert torch.linalg.matrix_rank(matrix) == 2  # at most width / heads
        _, _, values = layer.project(vectors)
        down_projected = split_heads(merge_heads(values) - biases, heads)[0, head]
        assert_close(vectors[0] @ matrix.T, down_projected @ ups[head].T)
