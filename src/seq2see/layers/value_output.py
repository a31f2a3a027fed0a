"""Multi-head attention as the course notes tell it: every head adds a change ΔE to the stream.

In that telling a head's value matrix is the product of a narrow "down" and a wide "up" matrix, and
each head adds its own change. Papers write one output matrix instead. They are the same thing: the
output matrix is the heads' "up" matrices side by side. A test holds the two equal.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from seq2see.layers.attention import SelfAttention, attention_weights
from seq2see.layers.masks import AttentionMask


def value_output_matrices(attention: SelfAttention) -> Float[Tensor, "head width size"]:
    """The "up" half of each head's low-rank value matrix: a slice of the output matrix."""
    return attention.out_proj.weight.unflatten(1, (attention.heads, -1)).transpose(0, 1)


def head_contributions(
    attention: SelfAttention, vectors: Float[Tensor, "row time width"], attention_mask: AttentionMask
) -> Float[Tensor, "head row time width"]:
    """What each head alone adds to the stream; with the output bias, their sum is the layer's answer."""
    queries, keys_values = attention.project(vectors)
    keys, values = keys_values.unbind(1)  # `values` has gone through the "down" half
    looked = attention_weights(queries, keys, attention_mask) @ values
    return (looked.transpose(0, 1) @ value_output_matrices(attention).mT[:, None]).contiguous()
