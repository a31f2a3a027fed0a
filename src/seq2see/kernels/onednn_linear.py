"""x Wᵀ + b on a CPU, each way by the library that is quicker at it.

torch leaves products of float32 numbers to MKL, which is made for other processors than many of us have. oneDNN, which
torch brings along as well, is quicker at the way forward and at the slope by x; at the slope by W it is not. A step of
training is mostly products, so this is most of what can be won on a CPU.

The plain twin is `nn.Linear`; tests compare.
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
"""Multiplications from which on it pays: a small product takes longer to ask for than to compute."""


def linear_layers(model: nn.Module) -> list[nn.Linear]:
    """The layers of a model that are products; none where torch was built without oneDNN."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    return layers if torch.backends.mkldnn.is_available() else []


@contextmanager
def use_onednn(layers: Sequence[nn.Linear]) -> Iterator[None]:
    """In here these layers learn by the quicker library."""
    for layer in layers:
        layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _forward(layer: nn.Linear, vectors: Float[Tensor, "*shape into"]) -> Float[Tensor, "*shape out"]:
    """What is called in place of a layer's own `forward`."""
    rows = vectors.flatten(0, -2)
    if len(rows) * layer.weight.numel() < MIN_MULTIPLICATIONS:
        return functional.linear(vectors, layer.weight, layer.bias)
    found: Tensor = OneDNNLinear.apply(rows, layer.weight, layer.bias)
    return found.view(*vectors.shape[:-1], -1)


class OneDNNLinear(torch.autograd.Function):
    """x Wᵀ + b for rows of vectors."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _linear(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (rows, weight), (for_rows, for_weight, for_bias) = ctx.saved_tensors, ctx.needs_input_grad
        grad_output = grad_output.contiguous()
        return (
            _linear(grad_output, weight.mT, None) if for_rows else None,
            grad_output.mT @ rows if for_weight else None,
            grad_output.sum(0) if for_bias else None,
        )


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """rows · weightᵀ + bias by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return found
