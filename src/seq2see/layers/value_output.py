"""Multi-head attention as in the course notes: every head adds a change ΔE to the residual stream.

In that form, the value matrix of a head is the product of a narrow "down" and a wide "up" matrix, and each head adds
its own change. Papers write one output matrix instead. Both are equal: the output matrix is the concatenation of the
"up" matrices of all heads. A test compares them.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from seq2see.layers.attention import SelfAttention, attention_weights
from seq2see.layers.masks import AttentionMask


def value_output_matrices(attention: SelfAttention) -> Float[Tensor, "head width size"]:
    """The "up" factor of the low-rank value matrix of each head: a slice of the output projection."""
    return attention.out_proj.weight.unflatten(1, (attention.heads, -1)).transpose(0, 1)


def head_contributions(
    attention: SelfAttention, vectors: Float[Tensor, "row time width"], attention_mask: AttentionMask
) -> Float[Tensor, "head row time width"]:
    """The vectors that each head adds to the residual stream; their sum plus the output bias is the layer's output."""
    queries, keys, values = attention.project(vectors)  # `values` are already multiplied by the "down" factor
    head_outputs = attention_weights(queries, keys, attention_mask) @ values
    return (head_outputs.transpose(0, 1) @ value_output_matrices(attention).mT[:, None]).contiguous()
