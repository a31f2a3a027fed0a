"""torch.compile traces the layers whole, without a graph break; their shape checks are removed for that."""

from __future__ import annotations

import pytest
import torch

from seq2see.layers.attention import SelfAttention
from seq2see.layers.feed_forward import FEED_FORWARDS
from seq2see.layers.masks import causal_mask

pytestmark = pytest.mark.usefixtures("compilable")


def test_a_feed_forward_layer_is_one_graph():
    vectors, layer = torch.randn(3, 5, 6), FEED_FORWARDS["gelu"](6, 11)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(vectors), layer(vectors))


def test_attention_is_one_graph():
    vectors, layer = torch.randn(3, 5, 6), SelfAttention(6, 2)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(vectors, causal_mask()), layer(vectors, causal_mask()))
