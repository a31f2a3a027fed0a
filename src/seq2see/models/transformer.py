"""The Transformer's encoder and decoder (Vaswani et al. 2017, section 3.1): blocks of attention and feed-forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.batch import INPUT_ONLY, PackedSequences, Sequences
from seq2see.core.settings import Settings
from seq2see.layers.attention import CrossAttention, GroupedSelfAttention, KeyValueCache, SelfAttention
from seq2see.layers.feed_forward import FEED_FORWARDS
from seq2see.layers.masks import (
    AttentionMask,
    cache_mask,
    causal_document_mask,
    causal_mask,
    document_mask,
    masked_mean,
    next_position_ids,
    padding_mask,
    zero_padding,
)
from seq2see.layers.norms_and_dropout import EPSILON, NORM_ORDERS, NORMS
from seq2see.layers.positions import build_relative_positions
from seq2see.models.encoder_model import EncoderOutput

Vectors = Float[Tensor, "row time width"]


class TransformerSettings(Settings):
    """A stack of Transformer blocks: attention and feed-forward layers (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    width: int = Field(256, ge=2)
    """Width of the residual stream (d_model); a multiple of twice the number of heads."""
    depth: int = Field(3, ge=1)
    """The number of blocks."""
    heads: int = Field(4, ge=1)
    """Attention heads of a block; the width of each is width / heads."""
    mlp_ratio: float = Field(4, gt=0)
    """Width of the feed-forward layer divided by `width`; the product is rounded."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout rate of the embeddings and of the output of each sublayer."""
    drop_path: float = Field(0.0, ge=0, lt=1)
    """Drop path rate of the last block (stochastic depth); the rate grows linearly with the depth of a block."""
    norm: Literal["layer", "rms", "batch", "power"] = "layer"
    """Normalization: layer norm, RMS norm, masked batch norm or power norm."""
    norm_eps: float = Field(EPSILON, gt=0)
    """The epsilon of the norms, which prevents division by zero."""
    norm_order: Literal["pre", "post"] = "pre"
    """Pre-norm (before each sublayer; trains easily) or post-norm (after it; the paper's)."""
    activation: Literal["relu", "gelu", "gelu-tanh", "swiglu"] = "relu"
    """Activation of the feed-forward layer: relu (the paper), gelu (BERT), gelu-tanh (GPT-2) or swiglu (Llama)."""
    bias: bool = True
    """Whether the linear layers of self-attention have a bias; false as in Llama."""
    kv_heads: int = Field(0, ge=0)
    """Key and value heads of grouped-query attention; 0: the number of `heads`."""
    rope_theta: float = Field(10_000.0, gt=1)
    """The base θ of rotary position embeddings."""

    @property
    def feed_forward_width(self) -> int:
        """Width of the feed-forward layer."""
        return round(self.mlp_ratio * self.width)


class BlockFactory:
    """Builds the sublayers of the blocks of a stack, their norms and their residual connections.

    `positions` is the position encoding of the stack; some encodings are part of self-attention.
    """

    def __init__(self, settings: TransformerSettings, positions: str, drop_path: float = 0.0):
        self.settings, self.positions, self.drop_path = settings, positions, drop_path

    def stack(self, block: Callable[[BlockFactory], nn.Module]) -> nn.ModuleList:
        """A stack of L blocks; the drop path rate of block l is `drop_path` * l / L (Huang et al. 2016, eq. 4)."""
        depth = self.settings.depth
        rates = [self.settings.drop_path * (number + 1) / depth for number in range(depth)]
        return nn.ModuleList(block(BlockFactory(self.settings, self.positions, rate)) for rate in rates)

    def self_attention(self) -> SelfAttention:
        """A new self-attention layer."""
        width, heads, groups = self.settings.width, self.settings.heads, self.settings.kv_heads
        relative_positions = build_relative_positions(self.positions, width, heads, self.settings.rope_theta)
        bias = self.settings.bias
        if groups:
            return GroupedSelfAttention(width, heads, groups, relative_positions, bias)
        return SelfAttention(width, heads, relative_positions, bias)

    def feed_forward(self) -> nn.Module:
        """A new feed-forward layer."""
        return FEED_FORWARDS[self.settings.activation](self.settings.width, self.settings.feed_forward_width)

    def norm(self) -> nn.Module:
        """A new norm."""
        return NORMS[self.settings.norm](self.settings.width, self.settings.norm_eps)

    def residual(self) -> nn.Module:
        """A new residual connection around one sublayer, with norm, dropout and drop path."""
        return NORM_ORDERS[self.settings.norm_order](self.norm(), self.settings.dropout, self.drop_path)

    def final_norm(self) -> nn.Module | None:
        """The norm after the last block: pre-norm stacks have one."""
        return NORM_ORDERS[self.settings.norm_order].final_norm(self.norm())


class EncoderBlock(nn.Module):
    """Self-attention over the whole sequence, then a feed-forward layer for each position.

    x ← norm(x + attention(x)), x ← norm(x + ffn(x)), as in the paper; or with pre-norm (`layers/norms_and_dropout.py`).
    """

    def __init__(self, factory: BlockFactory):
        super().__init__()
        self.self_attention, self.feed_forward = factory.self_attention(), factory.feed_forward()
        self.self_attention_residual, self.feed_forward_residual = factory.residual(), factory.residual()

    def forward(self, vectors: Vectors, valid: Bool[Tensor, "row time"], attention_mask: AttentionMask) -> Vectors:
        """One block of the encoder."""
        vectors = self.self_attention_residual(vectors, valid, lambda x: self.self_attention(x, attention_mask))
        return self.feed_forward_residual(vectors, valid, self.feed_forward)


class TransformerEncoder(nn.Module):
    """A stack of blocks with bidirectional self-attention."""

    def __init__(self, settings: TransformerSettings, positions: str = "sinusoidal"):
        super().__init__()
        factory = BlockFactory(settings, positions)
        self.blocks = factory.stack(EncoderBlock)
        self.final_norm = factory.final_norm()

    def forward(self, source: Sequences) -> EncoderOutput:
        """The encoder output for the embedded source; the pooled vector is the masked mean."""
        self_attention_mask = (
            document_mask(source, source) if isinstance(source, PackedSequences) else padding_mask(source)
        )
        vectors = self.run_blocks(source, self_attention_mask)
        pooled = masked_mean(replace(source, values=vectors))
        return EncoderOutput(vectors, source.lengths, pooled, source if isinstance(source, PackedSequences) else None)

    def run_blocks(self, source: Sequences, self_attention_mask: AttentionMask) -> Vectors:
        """The hidden states after the last block."""
        vectors, valid = zero_padding(source).values, source.valid
        for block in self.blocks:
            vectors = block(vectors, valid, self_attention_mask)
        return vectors if self.final_norm is None else self.final_norm(vectors, valid)


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to the source, then a feed-forward layer."""

    def __init__(self, factory: BlockFactory, memory_width: int):
        super().__init__()
        settings = factory.settings
        self.self_attention = factory.self_attention()
        self.cross_attention = CrossAttention(settings.width, settings.heads, memory_width)
        self.feed_forward = factory.feed_forward()
        self.self_attention_residual, self.cross_attention_residual = factory.residual(), factory.residual()
        self.feed_forward_residual = factory.residual()

    def forward(
        self,
        vectors: Vectors,
        valid: Bool[Tensor, "row time"],
        memory: EncoderOutput,
        self_attention_mask: AttentionMask,
        cross_attention_mask: AttentionMask,
    ) -> Vectors:
        """One block of the decoder, all positions at once."""
        vectors = self.self_attention_residual(vectors, valid, lambda x: self.self_attention(x, self_attention_mask))
        keys_values = self.cross_attention.project_memory(memory)
        return self._attend_and_feed_forward(vectors, valid, keys_values, cross_attention_mask)

    def step(self, vectors: Vectors, state: BlockState, context: StepContext) -> Vectors:
        """One block of the decoder, for new positions only; the state holds the past."""
        vectors = self.self_attention_residual(
            vectors,
            context.valid,
            lambda x: self.self_attention.step(x, state.past, context.position_ids, context.self_attention_mask),
        )
        return self._attend_and_feed_forward(vectors, context.valid, state.memory, context.cross_attention_mask)

    def _attend_and_feed_forward(
        self,
        vectors: Vectors,
        valid: Bool[Tensor, "row time"],
        keys_values: tuple[Tensor, Tensor],
        cross_attention_mask: AttentionMask,
    ) -> Vectors:
        vectors = self.cross_attention_residual(
            vectors, valid, lambda x: self.cross_attention(x, keys_values, cross_attention_mask)
        )
        return self.feed_forward_residual(vectors, valid, self.feed_forward)


@dataclass(frozen=True)
class StepContext:
    """The inputs of one step that all blocks share: the new positions and the attention masks."""

    position_ids: Int[Tensor, "row time"]
    valid: Bool[Tensor, "row time"]  # all true
    self_attention_mask: AttentionMask
    cross_attention_mask: AttentionMask


@dataclass(frozen=True)
class BlockState:
    """The state of one block: keys and values of the past, and of the source."""

    past: KeyValueCache
    memory: tuple[Tensor, Tensor] = field(metadata=INPUT_ONLY)


@dataclass(frozen=True)
class TransformerState:
    """The state of a Transformer decoder between steps; rows are the first dimension of every tensor."""

    blocks: tuple[BlockState, ...]
    cache_lengths: Int[Tensor, "row"]  # the number of tokens in each row of the cache
    cross_attention_mask: AttentionMask = field(metadata=INPUT_ONLY)


class TransformerDecoder(nn.Module):
    """A stack of blocks with causal self-attention and cross-attention."""

    def __init__(self, settings: TransformerSettings, memory_width: int, positions: str = "sinusoidal"):
        super().__init__()
        factory = BlockFactory(settings, positions)
        self.blocks: Any = factory.stack(lambda block_factory: DecoderBlock(block_factory, memory_width))
        self.final_norm = factory.final_norm()

    def forward(self, target: Sequences, memory: EncoderOutput) -> Vectors:
        """All positions at once, for training: the causal mask hides later positions."""
        self_attention_mask, cross_attention_mask = causal_mask(), padding_mask(memory)
        if isinstance(target, PackedSequences):
            self_attention_mask = causal_document_mask(target)
            if memory.packed_source is not None:
                cross_attention_mask = document_mask(target, memory.packed_source)
        return self.run_blocks(target, memory, self_attention_mask, cross_attention_mask)

    def run_blocks(
        self,
        target: Sequences,
        memory: EncoderOutput,
        self_attention_mask: AttentionMask,
        cross_attention_mask: AttentionMask,
    ) -> Vectors:
        """The hidden states after the last block."""
        vectors, valid, memory = zero_padding(target).values, target.valid, zero_padding(memory)
        for block in self.blocks:
            vectors = block(vectors, valid, memory, self_attention_mask, cross_attention_mask)
        return vectors if self.final_norm is None else self.final_norm(vectors, valid)

    def start(self, memory: EncoderOutput, rows: int, max_length: int) -> TransformerState:
        """The state before the first token."""
        cross_attention_mask, memory = padding_mask(memory), zero_padding(memory)
        blocks = tuple(
            BlockState(block.self_attention.empty_cache(rows, max_length), block.cross_attention.project_memory(memory))
            for block in self.blocks
        )
        return TransformerState(blocks, torch.zeros_like(memory.lengths), cross_attention_mask)

    def step(self, vectors: Vectors, state: TransformerState) -> tuple[Vectors, TransformerState]:
        """Process one or more new tokens of each row."""
        new, max_length = vectors.size(1), state.blocks[0].past.keys.size(2)
        position_ids = next_position_ids(state.cache_lengths, new)
        valid = torch.ones_like(position_ids, dtype=torch.bool)
        context = StepContext(
            position_ids,
            valid,
            cache_mask(position_ids, max_length),
            state.cross_attention_mask,
        )
        for block, block_state in zip(self.blocks, state.blocks, strict=True):
            vectors = block.step(vectors, block_state, context)
        if self.final_norm is not None:
            vectors = self.final_norm(vectors, valid)
        return vectors, TransformerState(state.blocks, state.cache_lengths + new, state.cross_attention_mask)
