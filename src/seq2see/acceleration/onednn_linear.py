"""Linear layers on a CPU, with oneDNN or MKL for each matmul, whichever is faster.

torch uses MKL for float32 matmuls, which is optimized for processors of one vendor. oneDNN, which torch includes as
well, is faster for the forward pass and for the gradient of x, but not for the gradient of W. A training step is mostly
matmuls, so this is the largest possible gain on a CPU.

The definition is `nn.Linear`; tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

MIN_MULTIPLICATIONS = 2**26
"""The number of multiplications from which on oneDNN is faster: below, its overhead is larger than the gain."""


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """The linear layers of a model; empty if torch was built without oneDNN."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    return layers if torch.backends.mkldnn.is_available() else []


@contextmanager
def use_onednn(layers: Sequence[nn.Linear]) -> Iterator[None]:
    """Compute these layers with the faster library in this context."""
    for layer in layers:
        layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _forward(layer: nn.Linear, vectors: Float[Tensor, "*shape into"]) -> Float[Tensor, "*shape out"]:
    """The function that replaces the `forward` of a layer."""
    rows = vectors.flatten(0, -2)
    if len(rows) * layer.weight.numel() < MIN_MULTIPLICATIONS:
        return functional.linear(vectors, layer.weight, layer.bias)
    output: Tensor = OneDNNLinear.apply(rows, layer.weight, layer.bias)
    return output.view(*vectors.shape[:-1], -1)


class OneDNNLinear(torch.autograd.Function):
    """x Wᵀ + b for rows of vectors."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _linear(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (rows, weight), (needs_rows, needs_weight, needs_bias) = ctx.saved_tensors, ctx.needs_input_grad
        grad_output = grad_output.contiguous()
        return (
            _linear(grad_output, weight.mT, None) if needs_rows else None,
            grad_output.mT @ rows if needs_weight else None,
            grad_output.sum(0) if needs_bias else None,
        )


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """rows · weightᵀ + bias by oneDNN."""
    output: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return output
