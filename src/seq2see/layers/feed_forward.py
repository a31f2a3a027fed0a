"""Feed-forward layers: two linear layers with an activation between them, applied to every position by itself."""

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
        if not can_use_kernels(vectors):
            return self.down_proj(ACTIVATIONS[self.activation](self.up_proj(vectors)))
        from seq2see.acceleration.fused_feed_forward import FusedFeedForward

        weights = (self.up_proj.weight, self.up_proj.bias, self.down_proj.weight, self.down_proj.bias)
        output: Tensor = FusedFeedForward.apply(*(each.bfloat16() for each in (vectors, *weights)), self.activation)
        return output


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


class SwiGLUFunction(torch.autograd.Function):
    """`swiglu` whose backward pass writes both halves of the gradient into one tensor; autograd would concatenate."""

    @staticmethod
    def forward(ctx: Any, projected: GateAndValues) -> Hidden:
        """Compute `swiglu`; silu(a) is stored for the backward pass."""
        gate, values = projected.chunk(2, dim=-1)
        activated = functional.silu(gate)
        ctx.save_for_backward(projected, activated)
        return activated * values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Hidden) -> GateAndValues:
        """The gradient by a is grad_output ⊙ b ⊙ silu'(a); the gradient by b is grad_output ⊙ silu(a)."""
        projected, activated = ctx.saved_tensors
        gate, values = projected.chunk(2, dim=-1)
        grad_input = torch.empty_like(projected)
        grad_gate, grad_values = grad_input.chunk(2, dim=-1)
        torch.mul(grad_output, activated, out=grad_values)
        torch.mul(grad_output, values, out=grad_gate)
        torch.ops.aten.silu_backward.grad_input(grad_gate, gate, grad_input=grad_gate)
        return grad_input


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
        projected = self.up_proj(vectors)
        # torch.compile finds a backward pass without a concatenation by itself.
        gated = swiglu(projected) if torch.compiler.is_compiling() else SwiGLUFunction.apply(projected)
        return self.down_proj(gated)


FEED_FORWARDS: dict[str, type[FeedForward] | type[GatedFeedForward]] = {
    "relu": FeedForward,
    "gelu": GeluFeedForward,
    "gelu-tanh": GeluTanhFeedForward,
    "swiglu": GatedFeedForward,
}
