"""Fast versions of small layers: dropout, feed-forward layers, rotary positions, convolutions, subword n-grams.

Each class replaces the class of layers/ or models/ that it names as `plain`; tests compare them
(tests/layers, tests/acceleration/test_fused_feed_forward.py).

Linear layers on a CPU use oneDNN or MKL for each matmul, whichever is faster. torch uses MKL for float32 matmuls, which
is optimized for processors of one vendor. oneDNN, which torch includes as well, is faster for the forward pass and for
the gradient of x, but not for the gradient of W. The definition is `nn.Linear`
(tests/acceleration/test_onednn_linear.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, active_async_grads
from seq2see.acceleration.support import can_use_kernels
from seq2see.layers.dropout import Dropout, DropPath, VariationalDropout
from seq2see.layers.feed_forward import (
    FeedForward,
    GateAndValues,
    GatedFeedForward,
    GeluFeedForward,
    GeluTanhFeedForward,
    Hidden,
    Vectors,
    swiglu,
)
from seq2see.layers.positions import AngleTable, HeadVectors, PositionIds, RotaryPositions, rotate_half_pairs
from seq2see.models.subword_ngrams import NgramEmbedding

RANDOM_BITS = 16
"""The number of random bits for each element in dropout, so that the probability is exact to 1 / 65,536."""


class FastDropout(Dropout):
    """`Dropout` by torch's kernel on a GPU, and with cheaper random numbers on a CPU.

    On a CPU, torch draws one random number for each element, one after another, which takes longer than many layers. A
    64-bit draw takes the same time, and serves four elements.
    """

    plain: ClassVar[type[nn.Module]] = Dropout

    def forward(self, inputs: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """In training, zero each element with probability p."""
        if not self.training or self.p == 0 or inputs.device.type != "cpu" or torch.compiler.is_compiling():
            return functional.dropout(inputs, self.p, self.training)
        return inputs * self._scales(inputs)

    def _scales(self, like: Tensor) -> Tensor:
        """The factor of each element: 0 if it is dropped, else 1 / (1 - p)."""
        draws = torch.empty(-(-like.numel() * RANDOM_BITS // 64), dtype=torch.int64)
        random_bits = draws.random_(-(2**63), None).view(torch.int16)[: like.numel()].view(like.shape)
        mask = random_bits >= round(self.p * 2**RANDOM_BITS) - 2 ** (RANDOM_BITS - 1)
        return mask.to(like.dtype).mul_(1 / (1 - self.p))


class FastVariationalDropout(VariationalDropout, FastDropout):
    """`VariationalDropout` with the random numbers of `FastDropout`."""

    plain: ClassVar[type[nn.Module]] = VariationalDropout


class FastDropPath(DropPath, FastDropout):
    """`DropPath` with the random numbers of `FastDropout`."""

    plain: ClassVar[type[nn.Module]] = DropPath


class FusedFeedForward(FeedForward):
    """A feed-forward layer whose backward pass has few kernels, in bf16 training (`fused_feed_forward.py`)."""

    plain: ClassVar[type[nn.Module]] = FeedForward
    async_grads: AsyncWeightGrads | None = None
    """Computes weight gradients asynchronously in training (`async_weight_grad.py`)."""

    def forward(self, vectors: Vectors) -> Vectors:
        """Transform each position by itself."""
        if not can_use_kernels(vectors):
            return super().forward(vectors)
        from seq2see.acceleration.fused_feed_forward import FeedForwardFunction

        weights = (self.up_proj.weight, self.up_proj.bias, self.down_proj.weight, self.down_proj.bias)
        inputs = (each.bfloat16() for each in (vectors, *weights))
        output: Tensor = FeedForwardFunction.apply(*inputs, self.activation, active_async_grads(self))
        return output


class FusedGeluFeedForward(FusedFeedForward, GeluFeedForward):
    """`GeluFeedForward` with few kernels."""

    plain: ClassVar[type[nn.Module]] = GeluFeedForward


class FusedGeluTanhFeedForward(FusedFeedForward, GeluTanhFeedForward):
    """`GeluTanhFeedForward` with few kernels."""

    plain: ClassVar[type[nn.Module]] = GeluTanhFeedForward


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


class FusedGatedFeedForward(GatedFeedForward):
    """`GatedFeedForward` without a concatenation in the backward pass; torch.compile finds that by itself."""

    plain: ClassVar[type[nn.Module]] = GatedFeedForward

    def forward(self, vectors: Vectors) -> Vectors:
        """Transform each position by itself."""
        projected = self.up_proj(vectors)
        return self.down_proj(swiglu(projected) if torch.compiler.is_compiling() else SwiGLUFunction.apply(projected))


class RotaryFunction(torch.autograd.Function):
    """`rotate_half_pairs` in three passes over memory; the backward pass is the rotation by the opposite angle.

    Autograd would need a dozen passes. The head vectors themselves are not saved. `direction` is 1, or -1 to rotate
    back.
    """

    @staticmethod
    def forward(
        ctx: Any, head_vectors: HeadVectors, cosines: AngleTable, sines: AngleTable, direction: float
    ) -> HeadVectors:
        """Multiply all numbers by their cosines, then add to each half the sine terms of the other half."""
        ctx.save_for_backward(cosines, sines)
        ctx.direction = direction
        pairs = head_vectors.unflatten(-1, (2, -1))
        rotated = pairs * cosines[..., None, :]
        rotated[..., 0, :].addcmul_(pairs[..., 1, :], sines, value=-direction)
        rotated[..., 1, :].addcmul_(pairs[..., 0, :], sines, value=direction)
        return rotated.flatten(-2)

    @staticmethod
    def backward(ctx: Any, grad_output: HeadVectors) -> tuple[Tensor, None, None, None]:
        """The transpose of a rotation is the rotation by the opposite angle."""
        return RotaryFunction.apply(grad_output, *ctx.saved_tensors, -ctx.direction), None, None, None


class FusedRotaryPositions(RotaryPositions):
    """`RotaryPositions` in three passes over memory; torch.compile fuses the definition by itself."""

    plain: ClassVar[type[nn.Module]] = RotaryPositions

    def rotate(self, head_vectors: HeadVectors, position_ids: PositionIds) -> HeadVectors:
        """Rotate every pair by its angle; the memory layout of the head vectors stays the same."""
        cosines, sines = self.cosines_and_sines(head_vectors, position_ids)
        if torch.compiler.is_compiling():
            return rotate_half_pairs(head_vectors, cosines, sines)
        rotated: Tensor = RotaryFunction.apply(head_vectors, cosines, sines, 1.0)
        return rotated


class ChannelsLastConv2d(nn.Conv2d):
    """A convolution in the channels-last memory format, which is the fastest format on a GPU."""

    plain: ClassVar[type[nn.Module]] = nn.Conv2d

    def forward(self, features: Float[Tensor, "row channel height width"]) -> Float[Tensor, "row filter down across"]:
        """Compute the convolution."""
        return super().forward(features.contiguous(memory_format=torch.channels_last))


class UnsynchronizedNgramEmbedding(NgramEmbedding):
    """`NgramEmbedding` for a GPU: reading the number of words from it would take a synchronization."""

    plain: ClassVar[type[nn.Module]] = NgramEmbedding

    def output_length(self, words: Int[Tensor, "row time"]) -> int:
        """The number of positions of the input, which is an upper bound of the number of words."""
        return words.size(1)


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
