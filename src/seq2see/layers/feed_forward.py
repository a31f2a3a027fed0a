"""Feed-forward layers: two linear layers with an activation between them, applied to every position by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Vectors = Float[Tensor, "row time width"]


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
}
"""The activation functions of feed-forward layers without a gate."""


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, eq. 2): linear layer, ReLU, linear layer."""

    activation = "relu"

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up_proj = nn.Linear(width, hidden)
        self.down_proj = nn.Linear(hidden, width)

    def forward(self, vectors: Vectors) -> Vectors:
        """Transform each position by itself; no information passes between positions."""
        return self.down_proj(ACTIVATIONS[self.activation](self.up_proj(vectors)))


class GeluFeedForward(FeedForward):
    """Feed-forward with GELU, x Φ(x) with Φ the normal distribution function (Hendrycks & Gimpel 2016, eq. 1)."""

    activation = "gelu"


class GeluTanhFeedForward(FeedForward):
    """Feed-forward with GELU whose Φ is approximated by a tanh (Hendrycks & Gimpel 2016, section 2), as in GPT-2."""

    activation = "gelu-tanh"


GateAndValues = Float[Tensor, "row time both"]
Hidden = Float[Tensor, "row time hidden"]


def swiglu(projected: GateAndValues) -> Hidden:
    """silu(a) ⊙ b, where a is the first half of each vector, b the second half, and silu(a) = a σ(a)."""
    gate, values = projected.chunk(2, dim=-1)
    return functional.silu(gate) * values


class GatedFeedForward(nn.Module):
    """(silu(x W) ⊙ x V) W₂: SwiGLU (Shazeer 2020, eq. 6; Llama). One half is the gate of the other half.

    As in the paper, there are no biases. `up_proj` holds both W and V.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up_proj = nn.Linear(width, 2 * hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, vectors: Vectors) -> Vectors:
        """Transform each position by itself."""
        return self.down_proj(swiglu(self.up_proj(vectors)))


FEED_FORWARDS: dict[str, type[FeedForward] | type[GatedFeedForward]] = {
    "relu": FeedForward,
    "gelu": GeluFeedForward,
    "gelu-tanh": GeluTanhFeedForward,
    "swiglu": GatedFeedForward,
}
