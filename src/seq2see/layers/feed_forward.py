"""Thinking: the same small network applied to every position on its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from seq2see.core.devices import has_kernels

Vectors = Float[Tensor, "row time width"]


CURVES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
}
"""What those without a gate do between their two products, by itself."""


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, eq. 2): widen, keep what is positive, narrow again."""

    curve = "relu"

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, vectors: Vectors) -> Vectors:
        """Each position by itself; nothing passes between positions here."""
        return self.narrow(self.widened(vectors))

    def widened(self, vectors: Vectors) -> Float[Tensor, "row time hidden"]:
        """What lies between the two products; a training step in bf16 on a GPU takes the same by fewer kernels."""
        if has_kernels(vectors):
            from seq2see.kernels.curved_products import CurvedProduct

            given = (each.bfloat16() for each in (vectors, self.widen.weight, self.widen.bias))
            found: Tensor = CurvedProduct.apply(*given, self.curve)
            return found
        return CURVES[self.curve](self.widen(vectors))


class GeluFeedForward(FeedForward):
    """The same with x Φ(x) instead of max(0, x), Φ the normal distribution (GELU, Hendrycks & Gimpel 2016, eq. 1)."""

    curve = "gelu"


class TanhFeedForward(FeedForward):
    """GELU with Φ approximated by a tanh (their section 2), as GPT-2 has it."""

    curve = "gelu-tanh"


class GatedFeedForward(nn.Module):
    """(silu(x W) ⊙ x V) W₂, silu(x) = x σ(x): SwiGLU (Shazeer 2020, eq. 6; Llama). One half opens a gate for the other.

    Like its paper it has no biases. `widen` holds both W and V.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.widen = nn.Linear(width, 2 * hidden, bias=False)
        self.narrow = nn.Linear(hidden, width, bias=False)

    def forward(self, vectors: Vectors) -> Vectors:
        """Each position by itself."""
        gate, values = self.widen(vectors).chunk(2, dim=-1)
        return self.narrow(functional.silu(gate) * values)


THINKS: dict[str, type[FeedForward] | type[GatedFeedForward]] = {
    "relu": FeedForward,
    "gelu": GeluFeedForward,
    "gelu-tanh": TanhFeedForward,
    "swiglu": GatedFeedForward,
}
