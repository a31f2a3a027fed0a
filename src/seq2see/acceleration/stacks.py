"""Stacks of Transformer blocks without padding, and with masks in the form that the kernels of a GPU need.

The definitions are the stacks of models/transformer.py and models/gpt.py. The classes here replace them: before the
first block they choose a memory layout for the batch (`choose_layout`) and prepare the masks for all layers. Attention
(attention.py) restores the rows; all other layers process each token by itself and need no change. Tests compare them
(tests/models/test_transformer.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from seq2see.acceleration.async_weight_grad import AsyncWeightGrads, active_async_grads
from seq2see.acceleration.attention import PreparedMask, UnpaddedMemory, choose_layout
from seq2see.acceleration.support import can_use_kernels
from seq2see.core.batch import Sequences
from seq2see.layers.dropout import DropPath
from seq2see.layers.masks import AttentionMask, padding_mask
from seq2see.layers.norms import LayerNorm, PostNorm, PreNorm, RMSNorm
from seq2see.models.encoder_model import EncoderOutput
from seq2see.models.gpt import GPTDecoder
from seq2see.models.transformer import BlockState, TransformerDecoder, TransformerEncoder, TransformerState


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


Vectors = Float[Tensor, "row time width"]

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
