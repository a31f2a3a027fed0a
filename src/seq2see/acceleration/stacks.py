"""Stacks of Transformer blocks without padding, and with masks in the form that the kernels of a GPU need.

The definitions are the stacks of models/transformer.py and models/gpt.py. The classes here replace them: before the
first block they choose a memory layout for the batch (unpadding.py) and prepare the masks for all layers. Attention
restores the rows (attention.py); all other layers process each token by itself and need no change. Tests compare them
(tests/models/test_transformer.py).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from seq2see.acceleration.attention import PreparedMask
from seq2see.acceleration.unpadding import UnpaddedMemory, choose_layout
from seq2see.core.batch import Sequences
from seq2see.layers.masks import AttentionMask, padding_mask
from seq2see.models.encoder_output import EncoderOutput
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
