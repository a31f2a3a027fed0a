"""GPT: a decoder-only Transformer with causal self-attention and without cross-attention.

Radford et al. 2018, 2019. Compare `transformer.py`: a block is the encoder's with a causal mask, and it can also
process one token after the other with a key-value cache, as the decoder does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2see.core.batch import PackedSequences, Sequences
from seq2see.layers.attention import KeyValueCache
from seq2see.layers.masks import (
    AttentionMask,
    cache_mask,
    causal_document_mask,
    causal_mask,
    next_position_ids,
    zero_padding,
)
from seq2see.models.transformer import BlockFactory, EncoderBlock, TransformerSettings

Vectors = Float[Tensor, "row time width"]


class GPTBlock(EncoderBlock):
    """Causal self-attention, then a feed-forward layer."""

    def step(
        self,
        vectors: Vectors,
        past: KeyValueCache,
        position_ids: Int[Tensor, "row new"],
        valid: Bool[Tensor, "row new"],
        self_attention_mask: AttentionMask,
    ) -> Vectors:
        """One block for new positions only; the cache holds the past and is extended by them."""
        vectors = self.self_attention_residual(
            vectors, valid, lambda x: self.self_attention.step(x, past, position_ids, self_attention_mask)
        )
        return self.feed_forward_residual(vectors, valid, self.feed_forward)


@dataclass(frozen=True)
class GPTState:
    """The state of GPT between steps; rows are the first dimension of every tensor."""

    blocks: tuple[KeyValueCache, ...]
    cache_lengths: Int[Tensor, "row"]  # the number of tokens in each row of the cache


class GPTDecoder(nn.Module):
    """A stack of blocks with causal self-attention."""

    def __init__(self, settings: TransformerSettings, positions: str = "sinusoidal"):
        super().__init__()
        factory = BlockFactory(settings, positions)
        self.blocks: Any = factory.stack(GPTBlock)
        self.final_norm = factory.final_norm()

    def forward(self, target: Sequences, memory: None = None) -> Vectors:
        """All positions at once, for training: the causal mask hides later positions."""
        self_attention_mask = causal_document_mask(target) if isinstance(target, PackedSequences) else causal_mask()
        return self.run_blocks(target, self_attention_mask)

    def run_blocks(self, target: Sequences, self_attention_mask: AttentionMask) -> Vectors:
        """The hidden states after the last block."""
        vectors, valid = zero_padding(target).values, target.valid
        for block in self.blocks:
            vectors = block(vectors, valid, self_attention_mask)
        return vectors if self.final_norm is None else self.final_norm(vectors, valid)

    def start(self, memory: None, rows: int, max_length: int) -> GPTState:
        """The state before the first token."""
        blocks = tuple(block.self_attention.empty_cache(rows, max_length) for block in self.blocks)
        return GPTState(blocks, torch.zeros(rows, dtype=torch.long, device=blocks[0].keys.device))

    def step(self, vectors: Vectors, state: GPTState) -> tuple[Vectors, GPTState]:
        """Process one or more new tokens of each row."""
        new, max_length = vectors.size(1), state.blocks[0].keys.size(2)
        position_ids = next_position_ids(state.cache_lengths, new)
        valid = torch.ones_like(position_ids, dtype=torch.bool)
        self_attention_mask = cache_mask(position_ids, max_length)
        for block, past in zip(self.blocks, state.blocks, strict=True):
            vectors = block.step(vectors, past, position_ids, valid, self_attention_mask)
        if self.final_norm is not None:
            vectors = self.final_norm(vectors, valid)
        return vectors, GPTState(state.blocks, state.cache_lengths + new)
