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

from seq2see.core.devices import can_use_kernels

Vectors = Float[Tensor, "row time width"]


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
}
"""What those without a gate do between their two products, by itself."""


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, eq. 2): widen, keep what is positive, narrow again."""

    activation = "relu"

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up_proj = nn.Linear(width, hidden)
        self.down_proj = nn.Linear(hidden, width)

    def forward(self, vectors: Vectors) -> Vectors:
        """Each position by itself; nothing passes between positions here."""
        if not can_use_kernels(vectors):
            return self.down_proj(ACTIVATIONS[self.activation](self.up_proj(vectors)))
        from seq2see.kernels.fused_feed_forward import FusedFeedForward

        weights = (self.up_proj.weight, self.up_proj.bias, self.down_proj.weight, self.down_proj.bias)
        found: Tensor = FusedFeedForward.apply(*(each.bfloat16() for each in (vectors, *weights)), self.activation)
        return found


class GeluFeedForward(FeedForward):
    """The same with x Φ(x) instead of max(0, x), Φ the normal distribution (GELU, Hendrycks & Gimpel 2016, eq. 1)."""

    activation = "gelu"


class GeluTanhFeedForward(FeedForward):
    """GELU with Φ approximated by a tanh (their section 2), as GPT-2 has it."""

    activation = "gelu-tanh"


GateAndValues = Float[Tensor, "row time both"]
Hidden = Float[Tensor, "row time hidden"]


def swiglu(projected: GateAndValues) -> Hidden:
    """silu(a) ⊙ b, of vectors whose first half is a and whose second half is b; silu(a) = a σ(a)."""
    gate, values = projected.chunk(2, dim=-1)
    return functional.silu(gate) * values


class SwiGLUFunction(torch.autograd.Function):
    """The same, whose slopes are written to where they belong: autograd would put the halves together in the end."""

    @staticmethod
    def forward(ctx: Any, projected: GateAndValues) -> Hidden:
        """As `swiglu`, and keep how far the gate was open."""
        gate, values = projected.chunk(2, dim=-1)
        activated = functional.silu(gate)
        ctx.save_for_backward(projected, activated)
        return activated * values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Hidden) -> GateAndValues:
        """By a: slope ⊙ b ⊙ silu'(a); by b: slope ⊙ silu(a)."""
        projected, activated = ctx.saved_tensors
        gate, values = projected.chunk(2, dim=-1)
        grad_input = torch.empty_like(projected)
        grad_gate, grad_values = grad_input.chunk(2, dim=-1)
        torch.mul(grad_output, activated, out=grad_values)
        torch.mul(grad_output, values, out=grad_gate)
        torch.ops.aten.silu_backward.grad_input(grad_gate, gate, grad_input=grad_gate)
        return grad_input


class GatedFeedForward(nn.Module):
    """(silu(x W) ⊙ x V) W₂: SwiGLU (Shazeer 2020, eq. 6; Llama). One half opens a gate for the other.

    Like its paper it has no biases. `up_proj` holds both W and V.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up_proj = nn.Linear(width, 2 * hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, vectors: Vectors) -> Vectors:
        """Each position by itself."""
        projected = self.up_proj(vectors)
        # A compiler puts everything where it belongs by itself.
        gated = swiglu(projected) if torch.compiler.is_compiling() else SwiGLUFunction.apply(projected)
        return self.down_proj(gated)


FEED_FORWARDS: dict[str, type[FeedForward] | type[GatedFeedForward]] = {
    "relu": FeedForward,
    "gelu": GeluFeedForward,
    "gelu-tanh": GeluTanhFeedForward,
    "swiglu": GatedFeedForward,
}
