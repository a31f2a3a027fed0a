"""Thinking: the same small network applied to every position on its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
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
        if not has_kernels(vectors):
            return self.narrow(CURVES[self.curve](self.widen(vectors)))
        from seq2see.kernels.curved_products import CurvedProducts

        weights = (self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias)
        found: Tensor = CurvedProducts.apply(*(each.bfloat16() for each in (vectors, *weights)), self.curve)
        return found


class GeluFeedForward(FeedForward):
    """The same with x Φ(x) instead of max(0, x), Φ the normal distribution (GELU, Hendrycks & Gimpel 2016, eq. 1)."""

    curve = "gelu"


class TanhFeedForward(FeedForward):
    """GELU with Φ approximated by a tanh (their section 2), as GPT-2 has it."""

    curve = "gelu-tanh"


Both = Float[Tensor, "row time both"]
Half = Float[Tensor, "row time hidden"]


def plain_gate(widened: Both) -> Half:
    """silu(a) ⊙ b, of vectors whose first half is a and whose second half is b; silu(a) = a σ(a)."""
    gate, values = widened.chunk(2, dim=-1)
    return functional.silu(gate) * values


class Gate(torch.autograd.Function):
    """The same, whose slopes are written to where they belong: autograd would put the halves together in the end."""

    @staticmethod
    def forward(ctx: Any, widened: Both) -> Half:
        """As `plain_gate`, and keep how far the gate was open."""
        gate, values = widened.chunk(2, dim=-1)
        opened = functional.silu(gate)
        ctx.save_for_backward(widened, opened)
        return opened * values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Half) -> Both:
        """By a: slope ⊙ b ⊙ silu'(a); by b: slope ⊙ silu(a)."""
        widened, opened = ctx.saved_tensors
        gate, values = widened.chunk(2, dim=-1)
        slopes = torch.empty_like(widened)
        by_gate, by_values = slopes.chunk(2, dim=-1)
        torch.mul(slope, opened, out=by_values)
        torch.mul(slope, values, out=by_gate)
        torch.ops.aten.silu_backward.grad_input(by_gate, gate, grad_input=by_gate)
        return slopes


class GatedFeedForward(nn.Module):
    """(silu(x W) ⊙ x V) W₂: SwiGLU (Shazeer 2020, eq. 6; Llama). One half opens a gate for the other.

    Like its paper it has no biases. `widen` holds both W and V.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.widen = nn.Linear(width, 2 * hidden, bias=False)
        self.narrow = nn.Linear(hidden, width, bias=False)

    def forward(self, vectors: Vectors) -> Vectors:
        """Each position by itself."""
        widened = self.widen(vectors)
        # A compiler puts everything where it belongs by itself.
        gated = plain_gate(widened) if torch.compiler.is_compiling() else Gate.apply(widened)
        return self.narrow(gated)


THINKS: dict[str, type[FeedForward] | type[GatedFeedForward]] = {
    "relu": FeedForward,
    "gelu": GeluFeedForward,
    "gelu-tanh": TanhFeedForward,
    "swiglu": GatedFeedForward,
}
