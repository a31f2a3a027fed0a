"""The Transformer's two halves (Vaswani et al. 2017, section 3.1): blocks that look, then think."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.batch import Sequences
from seq2see.core.settings import Settings
from seq2see.layers.attention import CrossAttention, KeyValueCache, SelfAttention
from seq2see.layers.feed_forward import FeedForward
from seq2see.layers.masks import MayLook, causal, real
from seq2see.layers.norms import NORMS
from seq2see.layers.padding import blank, mean_real
from seq2see.layers.residual import ORDERS
from seq2see.models.memory import Memory

Vectors = Float[Tensor, "row time width"]


class TransformerSettings(Settings):
    """A stack of Transformer blocks. The feed-forward part is four times as wide as the stream."""

    kind: Literal["transformer"] = "transformer"
    width: int = Field(256, ge=2)
    """Size of every vector in the stream; a multiple of twice the heads."""
    depth: int = Field(3, ge=1)
    """Number of blocks."""
    heads: int = Field(4, ge=1)
    """Attention heads a block; each works on width / heads numbers."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of numbers dropped from embeddings and from what each part adds, in training."""
    norm: Literal["layer", "rms", "batch", "power"] = "layer"
    """How the stream is normalised: layer norm, root mean square, masked batch norm or power norm."""
    order: Literal["pre", "post"] = "pre"
    """Norm before each part (trains easily) or after it (the paper's)."""


class Wiring:
    """How the parts of a block are joined to the stream; one recipe for all of a stack's parts."""

    def __init__(self, settings: TransformerSettings):
        self.settings = settings

    def norm(self) -> nn.Module:
        """A fresh norm."""
        return NORMS[self.settings.norm](self.settings.width)

    def residual(self) -> nn.Module:
        """A fresh residual connection around one part."""
        return ORDERS[self.settings.order](self.norm(), self.settings.dropout)

    def ending(self) -> nn.Module | None:
        """What a stack ends with."""
        return ORDERS[self.settings.order].ending(self.norm())


class EncoderBlock(nn.Module):
    """Look at the whole sequence, then think about each position."""

    def __init__(self, settings: TransformerSettings):
        super().__init__()
        wiring = Wiring(settings)
        self.look = SelfAttention(settings.width, settings.heads)
        self.think = FeedForward(settings.width, 4 * settings.width)
        self.around_look, self.around_think = wiring.residual(), wiring.residual()

    def forward(self, vectors: Vectors, real: Bool[Tensor, "row time"], may_look: MayLook) -> Vectors:
        """One block of the encoder."""
        vectors = self.around_look(vectors, real, lambda x: self.look(x, may_look))
        return self.around_think(vectors, real, self.think)


class TransformerEncoder(nn.Module):
    """Every position of the source ends up knowing the whole source."""

    def __init__(self, settings: TransformerSettings):
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(settings) for _ in range(settings.depth))
        self.ending = Wiring(settings).ending()

    def forward(self, source: Sequences) -> Memory:
        """Read the source; the context vector is the mean of its positions."""
        is_real, may_look = source.real, real(source)
        vectors = blank(source).values
        for block in self.blocks:
            vectors = block(vectors, is_real, may_look)
        if self.ending is not None:
            vectors = self.ending(vectors, is_real)
        return Memory(vectors, source.lengths, mean_real(Sequences(vectors, source.lengths)))


class DecoderBlock(nn.Module):
    """Look at what was written so far, look at the source, then think."""

    def __init__(self, settings: TransformerSettings, memory_width: int):
        super().__init__()
        wiring = Wiring(settings)
        self.look_back = SelfAttention(settings.width, settings.heads)
        self.look_across = CrossAttention(settings.width, settings.heads, memory_width)
        self.think = FeedForward(settings.width, 4 * settings.width)
        self.around_back, self.around_across = wiring.residual(), wiring.residual()
        self.around_think = wiring.residual()

    def forward(
        self,
        vectors: Vectors,
        real: Bool[Tensor, "row time"],
        memory: tuple[Tensor, Tensor],
        at_source: MayLook,
    ) -> Vectors:
        """One block of the decoder, all times at once."""
        vectors = self.around_back(vectors, real, lambda x: self.look_back(x, causal()))
        return self._rest(vectors, real, memory, at_source)

    def step(self, vectors: Vectors, state: BlockState, times: Int[Tensor, "row time"], at_source: MayLook) -> Vectors:
        """One block of the decoder, for new times only; the past is in the state."""
        everything = torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)
        vectors = self.around_back(vectors, everything, lambda x: self.look_back.step(x, state.past, times))
        return self._rest(vectors, everything, state.memory, at_source)

    def _rest(
        self,
        vectors: Vectors,
        real: Bool[Tensor, "row time"],
        memory: tuple[Tensor, Tensor],
        at_source: MayLook,
    ) -> Vectors:
        vectors = self.around_across(vectors, real, lambda x: self.look_across(x, memory, at_source))
        return self.around_think(vectors, real, self.think)


@dataclass(frozen=True)
class BlockState:
    """What one block remembers: keys and values of the past, and of the source."""

    past: KeyValueCache
    memory: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class TransformerState:
    """What a Transformer decoder remembers between steps; rows first in every tensor."""

    blocks: tuple[BlockState, ...]
    source_real: Bool[Tensor, "row key"]
    filled: Int[Tensor, "row"]  # how many tokens each row has taken in


class TransformerDecoder(nn.Module):
    """Write the target from left to right, looking back at it and across at the source."""

    def __init__(self, settings: TransformerSettings, memory_width: int):
        super().__init__()
        self.blocks: Any = nn.ModuleList(DecoderBlock(settings, memory_width) for _ in range(settings.depth))
        self.ending = Wiring(settings).ending()

    def forward(self, target: Sequences, memory: Memory) -> Vectors:
        """All times at once, for training: the causal mask hides from each time what comes after it."""
        is_real, at_source = target.real, real(memory)
        vectors, remembered = blank(target).values, blank(memory).values
        for block in self.blocks:
            vectors = block(vectors, is_real, block.look_across.prepare(remembered), at_source)
        return vectors if self.ending is None else self.ending(vectors, is_real)

    def start(self, memory: Memory, rows: int, room: int) -> TransformerState:
        """The state before the first token."""
        remembered = blank(memory).values
        blocks = tuple(
            BlockState(block.look_back.room(rows, room), block.look_across.prepare(remembered)) for block in self.blocks
        )
        return TransformerState(blocks, memory.real, torch.zeros_like(memory.lengths))

    def step(self, vectors: Vectors, state: TransformerState) -> tuple[Vectors, TransformerState]:
        """Take in one or more new tokens a row."""
        new = vectors.size(1)
        times = state.filled[:, None] + torch.arange(new, device=vectors.device)
        at_source = MayLook(state.source_real[:, None, None, :])
        for block, block_state in zip(self.blocks, state.blocks, strict=True):
            vectors = block.step(vectors, block_state, times, at_source)
        if self.ending is not None:
            vectors = self.ending(vectors, torch.ones_like(times, dtype=torch.bool))
        return vectors, TransformerState(state.blocks, state.source_real, state.filled + new)
