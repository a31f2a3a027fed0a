"""The Transformer's two halves (Vaswani et al. 2017, section 3.1): blocks that look, then think."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.batch import Sequences, Strung
from seq2see.core.rows import OF_INPUT
from seq2see.core.settings import Settings
from seq2see.layers.attention import AS_ROWS, CrossAttention, GroupedSelfAttention, KeyValueCache, SelfAttention
from seq2see.layers.feed_forward import THINKS
from seq2see.layers.layout import Padded, layout_of
from seq2see.layers.masks import MayLook, causal, for_kernel, own_past, own_text, real, so_far, times_from
from seq2see.layers.matrices import MATRICES
from seq2see.layers.norms import EPSILON, NORMS
from seq2see.layers.padding import mean_real
from seq2see.layers.relative_positions import places_of
from seq2see.layers.residual import ORDERS
from seq2see.models.memory import Memory

Vectors = Float[Tensor, "row time width"]


class TransformerSettings(Settings):
    """A stack of Transformer blocks: parts that look, and parts that think."""

    kind: Literal["transformer"] = "transformer"
    width: int = Field(256, ge=2)
    """Size of every vector in the stream; a multiple of twice the heads."""
    depth: int = Field(3, ge=1)
    """Number of blocks."""
    heads: int = Field(4, ge=1)
    """Attention heads a block; each works on width / heads numbers."""
    expansion: float = Field(4, gt=0)
    """How many times wider than the stream the feed-forward part is; rounded to whole numbers."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of numbers dropped from embeddings and from what each part adds, in training."""
    skip: float = Field(0.0, ge=0, lt=1)
    """Share of rows that go around the parts of the last block in training (stochastic depth); below in proportion."""
    norm: Literal["layer", "rms", "batch", "power"] = "layer"
    """How the stream is normalised: layer norm, root mean square, masked batch norm or power norm."""
    epsilon: float = Field(EPSILON, gt=0)
    """What a norm adds under its root, so that nothing is divided by zero."""
    order: Literal["pre", "post"] = "pre"
    """Norm before each part (trains easily) or after it (the paper's)."""
    think: Literal["relu", "gelu", "gelu-tanh", "swiglu"] = "relu"
    """What the feed-forward part does between its two products: the paper's, BERT's, GPT-2's or Llama's."""
    matrices: Literal["biased", "plain"] = "biased"
    """Whether something is added behind the products of self-attention (biased) or not (plain), as in Llama."""
    key_heads: int = Field(0, ge=0)
    """Heads that have keys of their own, several heads asking each; 0: as many as there are heads."""
    rotary_base: float = Field(10_000.0, gt=1)
    """Rotary positions: the last pair of numbers turns about this many times slower than the first."""

    @property
    def hidden(self) -> int:
        """Width of the feed-forward part."""
        return round(self.expansion * self.width)


class Wiring:
    """The parts of a block, and how they are joined to the stream; one recipe for a whole stack.

    `positions` is how the stack is told where tokens stand; some of these ways are the business of attention.
    """

    def __init__(self, settings: TransformerSettings, positions: str, skip: float = 0.0):
        self.settings, self.positions, self.skip = settings, positions, skip

    def stack(self, block: Callable[[Wiring], nn.Module]) -> nn.ModuleList:
        """Blocks on top of each other: of L, the l-th is left out by l / L of `skip` (Huang et al. 2016, eq. 4)."""
        depth = self.settings.depth
        skips = [self.settings.skip * (number + 1) / depth for number in range(depth)]
        return nn.ModuleList(block(Wiring(self.settings, self.positions, skip)) for skip in skips)

    def look(self) -> SelfAttention:
        """A fresh part that looks."""
        width, heads, groups = self.settings.width, self.settings.heads, self.settings.key_heads
        places = places_of(self.positions, width, heads, self.settings.rotary_base)
        matrix = MATRICES[self.settings.matrices]
        if groups:
            return GroupedSelfAttention(width, heads, groups, places, matrix)
        return SelfAttention(width, heads, places, matrix)

    def think(self) -> nn.Module:
        """A fresh part that thinks."""
        return THINKS[self.settings.think](self.settings.width, self.settings.hidden)

    def norm(self) -> nn.Module:
        """A fresh norm."""
        return NORMS[self.settings.norm](self.settings.width, self.settings.epsilon)

    def residual(self) -> nn.Module:
        """A fresh residual connection around one part."""
        return ORDERS[self.settings.order](self.norm(), self.settings.dropout, self.skip)

    def ending(self) -> nn.Module | None:
        """What a stack ends with."""
        return ORDERS[self.settings.order].ending(self.norm())


class EncoderBlock(nn.Module):
    """Look at the whole sequence, then think about each position.

    x ← norm(x + look(x)), x ← norm(x + think(x)), as in the paper; or with the norm in front (`layers/residual.py`).
    """

    def __init__(self, wiring: Wiring):
        super().__init__()
        self.look, self.think = wiring.look(), wiring.think()
        self.around_look, self.around_think = wiring.residual(), wiring.residual()

    def forward(self, vectors: Vectors, real: Bool[Tensor, "row time"], may_look: MayLook, layout: Padded) -> Vectors:
        """One block of the encoder."""
        vectors = self.around_look(vectors, real, lambda x: self.look(x, may_look, layout))
        return self.around_think(vectors, real, self.think)


class TransformerEncoder(nn.Module):
    """Every position of the source ends up knowing the whole source."""

    def __init__(self, settings: TransformerSettings, positions: str = "sinusoidal"):
        super().__init__()
        wiring = Wiring(settings, positions)
        self.blocks = wiring.stack(EncoderBlock)
        self.ending = wiring.ending()

    def forward(self, source: Sequences) -> Memory:
        """Read the source; the context vector is the mean of its positions."""
        layout = layout_of(source)
        at_itself = own_text(source, source) if isinstance(source, Strung) else real(source)
        vectors, is_real = layout.enter(source)
        at_itself = for_kernel(at_itself, vectors)
        for block in self.blocks:
            vectors = block(vectors, is_real, at_itself, layout)
        rows = layout.spread(vectors if self.ending is None else self.ending(vectors, is_real))
        summary = mean_real(replace(source, values=rows))
        return Memory(rows, source.lengths, summary, source if isinstance(source, Strung) else None)


@dataclass(frozen=True)
class Seen:
    """What the encoder made of the source, as it lies in memory, and who may look where in it."""

    vectors: Vectors
    layout: Padded
    may_look: MayLook


class DecoderBlock(nn.Module):
    """Look at what was written so far, look at the source, then think."""

    def __init__(self, wiring: Wiring, memory_width: int):
        super().__init__()
        settings = wiring.settings
        self.look_back = wiring.look()
        self.look_across = CrossAttention(settings.width, settings.heads, memory_width)
        self.think = wiring.think()
        self.around_back, self.around_across = wiring.residual(), wiring.residual()
        self.around_think = wiring.residual()

    def forward(
        self, vectors: Vectors, real: Bool[Tensor, "row time"], source: Seen, at_itself: MayLook, layout: Padded
    ) -> Vectors:
        """One block of the decoder, all times at once."""
        vectors = self.around_back(vectors, real, lambda x: self.look_back(x, at_itself, layout))
        memory = self.look_across.prepare(source.vectors, source.layout)
        return self._rest(vectors, real, memory, source.may_look, layout)

    def step(self, vectors: Vectors, state: BlockState, now: Now) -> Vectors:
        """One block of the decoder, for new times only; the past is in the state."""
        vectors = self.around_back(
            vectors, now.real, lambda x: self.look_back.step(x, state.past, now.times, now.at_past)
        )
        return self._rest(vectors, now.real, state.memory, now.at_source, AS_ROWS)

    def _rest(
        self,
        vectors: Vectors,
        real: Bool[Tensor, "row time"],
        memory: tuple[Tensor, Tensor],
        at_source: MayLook,
        layout: Padded,
    ) -> Vectors:
        vectors = self.around_across(vectors, real, lambda x: self.look_across(x, memory, at_source, layout))
        return self.around_think(vectors, real, self.think)


@dataclass(frozen=True)
class Now:
    """What all blocks need to know of one step: which times are new, and who may look where."""

    times: Int[Tensor, "row time"]
    real: Bool[Tensor, "row time"]  # all of them
    at_past: MayLook
    at_source: MayLook


@dataclass(frozen=True)
class BlockState:
    """What one block remembers: keys and values of the past, and of the source."""

    past: KeyValueCache
    memory: tuple[Tensor, Tensor] = field(metadata=OF_INPUT)


@dataclass(frozen=True)
class TransformerState:
    """What a Transformer decoder remembers between steps; rows first in every tensor."""

    blocks: tuple[BlockState, ...]
    filled: Int[Tensor, "row"]  # how many tokens each row has taken in
    at_source: MayLook = field(metadata=OF_INPUT)


class TransformerDecoder(nn.Module):
    """Write the target from left to right, looking back at it and across at the source."""

    def __init__(self, settings: TransformerSettings, memory_width: int, positions: str = "sinusoidal"):
        super().__init__()
        wiring = Wiring(settings, positions)
        self.blocks: Any = wiring.stack(lambda each: DecoderBlock(each, memory_width))
        self.ending = wiring.ending()

    def forward(self, target: Sequences, memory: Memory) -> Vectors:
        """All times at once, for training: the causal mask hides from each time what comes after it."""
        layout = layout_of(target)
        at_itself = own_past(target) if isinstance(target, Strung) else causal()
        vectors, is_real = layout.enter(target)
        at_itself = for_kernel(at_itself, vectors)
        source_layout, at_source = layout_of(memory), real(memory)
        if isinstance(target, Strung) and memory.read is not None:
            at_source = own_text(target, memory.read)
        remembered, _ = source_layout.enter(memory)
        source = Seen(remembered, source_layout, for_kernel(at_source, vectors))
        for block in self.blocks:
            vectors = block(vectors, is_real, source, at_itself, layout)
        return layout.spread(vectors if self.ending is None else self.ending(vectors, is_real))

    def start(self, memory: Memory, rows: int, room: int) -> TransformerState:
        """The state before the first token."""
        layout = layout_of(memory)
        remembered, _ = layout.enter(memory)
        blocks = tuple(
            BlockState(block.look_back.room(rows, room), block.look_across.prepare(remembered, layout))
            for block in self.blocks
        )
        return TransformerState(blocks, torch.zeros_like(memory.lengths), for_kernel(real(memory), remembered))

    def step(self, vectors: Vectors, state: TransformerState) -> tuple[Vectors, TransformerState]:
        """Take in one or more new tokens a row."""
        new, room = vectors.size(1), state.blocks[0].past.keys.size(2)
        times = times_from(state.filled, new)
        everything = torch.ones_like(times, dtype=torch.bool)
        now = Now(times, everything, for_kernel(so_far(times, room), vectors), state.at_source)
        for block, block_state in zip(self.blocks, state.blocks, strict=True):
            vectors = block.step(vectors, block_state, now)
        if self.ending is not None:
            vectors = self.ending(vectors, everything)
        return vectors, TransformerState(state.blocks, state.filled + new, state.at_source)
