"""Fast versions of layers: dropout, feed-forward layers, rotary positions, convolutions, stacks of blocks, and CTC.

Each class replaces the class of layers/ or models/ that it names as `plain`; tests compare them
(tests/layers, tests/acceleration/test_fused_feed_forward.py).

Linear layers on a CPU use oneDNN or MKL for each matmul, whichever is faster. torch uses MKL for float32 matmuls, which
is optimized for processors of one vendor. oneDNN, which torch includes as well, is faster for the forward pass and for
the gradient of x, but not for the gradient of W. The definition is `nn.Linear`
(tests/acceleration/test_onednn_linear.py).

Stacks of Transformer blocks run without padding, and with masks in the form that the kernels of a GPU need: before the
first block they choose a memory layout for the batch (`choose_layout`) and prepare the masks for all layers. Attention
(attention.py) restores the rows; all other layers process each token by itself and need no change. Tests compare them
(tests/models/test_transformer.py).

CTC is computed by torch's own function: its gradient is a backward recursion in place of autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, active_async_grads
from seq2see.acceleration.attention import PreparedMask, UnpaddedMemory, choose_layout
from seq2see.acceleration.support import can_use_kernels
from seq2see.core.batch import Sequences
from seq2see.layers.ctc import BLANK, CTCLoss
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
from seq2see.layers.masks import AttentionMask, padding_mask
from seq2see.layers.norms_and_dropout import (
    Dropout,
    DropPath,
    LayerNorm,
    PostNorm,
    PreNorm,
    RMSNorm,
    VariationalDropout,
)
from seq2see.layers.positions import AngleTable, HeadVectors, PositionIds, RotaryPositions, rotate_half_pairs
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.gpt import GPTDecoder
from seq2see.models.subword_ngrams import NgramEmbedding
from seq2see.models.transformer import BlockState, TransformerDecoder, TransformerEncoder, TransformerState

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


class UnpaddedTransformerEncoder(TransformerEncoder):
    """`TransformerEncoder` without padding."""

    plain: ClassVar[type[nn.Module]] = TransformerEncoder

    def run_blocks(self, source: Sequences, self_attention_mask: AttentionMask) -> Tensor:
        """The hidden states after the last block."""
        return _run_blocks(self, source, self_attention_mask)


class UnpaddedGPTDecoder(GPTDecoder):
    """`GPTDecoder` without padding."""

    plain: ClassVar[type[nn.Module]] = GPTDecoder

    def run_blocks(self, target: Sequences, self_attention_mask: AttentionMask) -> Tensor:
        """The hidden states after the last block."""
        return _run_blocks(self, target, self_attention_mask)


def _run_blocks(stack: Any, sequences: Sequences, self_attention_mask: AttentionMask) -> Tensor:
    """Run the blocks of a stack on vectors in the best layout; return padded rows."""
    layout = choose_layout(sequences)
    vectors, valid = layout.from_sequences(sequences)
    self_attention_mask = PreparedMask.of(self_attention_mask, vectors, layout)
    for block in stack.blocks:
        vectors = block(vectors, valid, self_attention_mask)
    return layout.pad(vectors if stack.final_norm is None else stack.final_norm(vectors, valid))


def unpad_memory(memory: EncoderOutput) -> UnpaddedMemory:
    """The encoder output in the best layout."""
    layout = choose_layout(memory)
    values, _ = layout.from_sequences(memory)
    return UnpaddedMemory(values, memory.lengths, memory.pooled, memory.packed_source, layout)


class UnpaddedTransformerDecoder(TransformerDecoder):
    """`TransformerDecoder` without padding, in the target and in the memory."""

    plain: ClassVar[type[nn.Module]] = TransformerDecoder

    def run_blocks(
        self,
        target: Sequences,
        memory: EncoderOutput,
        self_attention_mask: AttentionMask,
        cross_attention_mask: AttentionMask,
    ) -> Tensor:
        """The hidden states after the last block."""
        layout = choose_layout(target)
        vectors, valid = layout.from_sequences(target)
        self_attention_mask = PreparedMask.of(self_attention_mask, vectors, layout)
        memory = unpad_memory(memory)
        cross_attention_mask = PreparedMask.of(cross_attention_mask, vectors, layout)
        for block in self.blocks:
            vectors = block(vectors, valid, memory, self_attention_mask, cross_attention_mask)
        return layout.pad(vectors if self.final_norm is None else self.final_norm(vectors, valid))

    def start(self, memory: EncoderOutput, rows: int, max_length: int) -> TransformerState:
        """The state before the first token."""
        unpadded = unpad_memory(memory)
        blocks = tuple(
            BlockState(
                block.self_attention.empty_cache(rows, max_length), block.cross_attention.project_memory(unpadded)
            )
            for block in self.blocks
        )
        cross_attention_mask = PreparedMask.of(padding_mask(memory), unpadded.values)
        return TransformerState(blocks, torch.zeros_like(memory.lengths), cross_attention_mask)


MAX_WIDTH = 4096
"""The largest width that the fused kernels support."""


def has_kernel(module: nn.Module) -> bool:
    """Whether a fused kernel exists for this norm, or for the norm of this residual connection."""
    norm = module.norm if isinstance(module, PostNorm) else module
    return isinstance(norm, LayerNorm | RMSNorm) and len(norm.weight) <= MAX_WIDTH


def bias_of(norm: nn.Module) -> Tensor | None:
    """The bias of a norm; RMSNorm has none."""
    return norm.bias if isinstance(norm, LayerNorm) else None


class PrecomputedNorm(nn.Module):
    """A norm whose output may have been computed by the kernel of the residual sum before it."""

    precomputed: tuple[Tensor, Tensor] | None = None
    """Vectors and their norm, from the residual connection before this norm."""

    def pop(self, vectors: Tensor) -> Tensor | None:
        """The stored norm of exactly these vectors; it is used once."""
        stored, self.precomputed = self.precomputed, None
        return stored[1] if stored is not None and stored[0] is vectors else None

    def forward(self, vectors: Vectors, valid: Bool[Tensor, "row time"]) -> Vectors:
        """The stored norm of these vectors, or else the norm."""
        stored = self.pop(vectors)
        return super().forward(vectors, valid) if stored is None else stored


class PrecomputedLayerNorm(PrecomputedNorm, LayerNorm):
    """`LayerNorm`, which may have been computed already."""

    plain: ClassVar[type[nn.Module]] = LayerNorm


class PrecomputedRMSNorm(PrecomputedNorm, RMSNorm):
    """`RMSNorm`, which may have been computed already."""

    plain: ClassVar[type[nn.Module]] = RMSNorm


class FusedResidual(PostNorm):
    """What both fast residual connections share."""

    async_grads: AsyncWeightGrads | None = None
    """Computes weight gradients asynchronously in training (`async_weight_grad.py`)."""

    @property
    def dropout_p(self) -> float:
        """The dropout probability: 0 in evaluation."""
        return self.dropout.p if self.training else 0.0


class FusedPostNorm(FusedResidual):
    """`PostNorm` in one kernel.

    The output has two uses, in the next sublayer and in the next sum. With two copies in the autograd graph, the kernel
    of the backward pass adds their gradients.
    """

    plain: ClassVar[type[nn.Module]] = PostNorm
    duplicate: tuple[Tensor, Tensor] | None = None
    """Vectors and a second copy of them in the autograd graph, from the residual connection before this one."""
    after: tuple[FusedPostNorm, ...] = ()
    """The next residual connection of the stack; a tuple, because an attribute would make it a submodule."""

    def _duplicate_of(self, vectors: Tensor) -> Tensor:
        """The stored second copy of exactly these vectors, or the vectors themselves."""
        stored, self.duplicate = self.duplicate, None
        return stored[1] if stored is not None and stored[0] is vectors else vectors

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one sublayer (attention or feed-forward), add its output, and normalize the sum."""
        async_grads = active_async_grads(self)
        output = sublayer(vectors if async_grads is None else self._duplicate_of(vectors))
        if not can_use_kernels(vectors) or isinstance(self.drop_path, DropPath):
            return self.norm(vectors + self.drop_path(self.dropout(output)), valid)
        from seq2see.acceleration.add_norm import AddNorm, AddNormDuplicate

        inputs = (vectors, output, self.norm.weight, bias_of(self.norm), self.dropout_p, self.norm.eps, async_grads)
        if async_grads is None or not self.after:
            return AddNorm.apply(*inputs)
        normalized, duplicate = AddNormDuplicate.apply(*inputs)
        self.after[0].duplicate = normalized, duplicate
        return normalized


class FusedPreNorm(FusedResidual, PreNorm):
    """`PreNorm` in one kernel: the sum, and the norm at the beginning of the next sublayer."""

    plain: ClassVar[type[nn.Module]] = PreNorm
    norm_after: tuple[PrecomputedNorm, ...] = ()
    """The next norm of the stream; a tuple, because an attribute would make it a submodule."""

    def forward(
        self, vectors: Vectors, valid: Bool[Tensor, "row time"], sublayer: Callable[[Tensor], Tensor]
    ) -> Vectors:
        """Apply one sublayer to the normalized stream, and add its output to the stream."""
        if not can_use_kernels(vectors):
            return vectors + self.drop_path(self.dropout(sublayer(self.norm(vectors, valid))))
        from seq2see.acceleration.add_norm import AddThenNorm, NormWithResidual

        async_grads = active_async_grads(self)
        normalized = self.norm.pop(vectors) if isinstance(self.norm, PrecomputedNorm) else None
        if normalized is None:
            inputs = (vectors, self.norm.weight, bias_of(self.norm), self.norm.eps, async_grads)
            vectors, normalized = NormWithResidual.apply(*inputs)
        output = sublayer(normalized)
        if async_grads is None or isinstance(self.drop_path, DropPath) or not self.norm_after:
            return vectors + self.drop_path(self.dropout(output))
        next_norm: Any = self.norm_after[0]
        norm_inputs = (next_norm.weight, bias_of(next_norm), self.dropout_p, next_norm.eps, async_grads)
        total, normalized = AddThenNorm.apply(vectors, output, *norm_inputs)
        next_norm.precomputed = total, normalized
        return total


def residuals_of(stack: nn.Module) -> list[PostNorm]:
    """The residual connections of a stack of blocks, in the order in which they run; none of another module."""
    blocks = getattr(stack, "blocks", None)
    if not isinstance(blocks, nn.ModuleList):
        return []
    return [part for block in blocks for part in block.children() if isinstance(part, PostNorm)]


def link_residuals(model: nn.Module) -> None:
    """Set the successor of each residual connection of every stack, after the fast classes are in place."""
    for stack in model.modules():
        residuals = residuals_of(stack)
        if not residuals:
            continue
        norms = [each.norm for each in residuals[1:]] + [getattr(stack, "final_norm", None)]
        for residual, after, norm in zip(residuals, [*residuals[1:], None], norms, strict=True):
            if isinstance(residual, FusedPostNorm) and isinstance(after, FusedPostNorm):
                residual.after = (after,)
            if isinstance(residual, FusedPreNorm) and isinstance(norm, PrecomputedNorm):
                residual.norm_after = (norm,)


class NativeCTCLoss(CTCLoss):
    """`CTCLoss` without a step of Python for every frame."""

    plain: ClassVar[type[nn.Module]] = CTCLoss

    def forward(
        self, log_probabilities: Float[Tensor, "row frame token"], frames: Int[Tensor, "row"], labels: Sequences
    ) -> Float[Tensor, "row"]:
        """The loss of each row; 0 for labels that need more frames than there are."""
        return functional.ctc_loss(
            log_probabilities.transpose(0, 1), labels.values, frames, labels.lengths, BLANK, "none", zero_infinity=True
        )
