"""The feed-forward part, by hand."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from seq2see.layers.feed_forward import FeedForward


def test_widen_keep_what_is_positive_narrow_again():
    layer = FeedForward(width=1, hidden=2)
    with torch.no_grad():
        layer.widen.weight.copy_(torch.tensor([[1.0], [-2.0]]))
        layer.widen.bias.copy_(torch.tensor([1.0, 0.0]))
        layer.narrow.weight.copy_(torch.tensor([[10.0, 100.0]]))
        layer.narrow.bias.copy_(torch.tensor([0.5]))
    vectors = torch.tensor([2.0, -3.0]).view(1, 2, 1)
    # 2: (3, -4) → (3, 0) → 30.5;  -3: (-2, 6) → (0, 6) → 600.5
    assert layer(vectors).flatten().tolist() == [30.5, 600.5]


def test_each_position_is_thought_about_by_itself():
    layer, vectors = FeedForward(5, 11), torch.randn(2, 3, 5)
    for row in range(2):
        for time in range(3):
            alone = layer(vectors[row : row + 1, time : time + 1])
            assert_close(layer(vectors)[row : row + 1, time : time + 1], alone)


def test_gradients_are_those_of_finite_differences():
    layer = FeedForward(3, 7).double()
    vectors = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, [vectors])
