"""GPT's half of the Transformer: blocks that look back and think, and no source to look across at.

Radford et al. 2018, 2019. Compare `transformer.py`: a block is the encoder's, with a mask that hides the future, and
it can also take in one token after another, as the decoder does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2see.core.batch import Sequences, Strung
from seq2see.layers.attention import KeyValueCache
from seq2see.layers.layout import layout_of
from seq2see.layers.masks import MayLook, causal, for_kernel, own_past, so_far, times_from
from seq2see.models.transformer import EncoderBlock, TransformerSettings, Wiring

Vectors = Float[Tensor, "row time width"]


class GPTBlock(EncoderBlock):
    """Look at what was written so far, then think about each position."""

    def step(
        self,
        vectors: Vectors,
        past: KeyValueCache,
        times: Int[Tensor, "row new"],
        real: Bool[Tensor, "row new"],
        at_past: MayLook,
    ) -> Vectors:
        """One block, for new times only; the past is in the cache, which takes them in."""
        vectors = self.around_look(vectors, real, lambda x: self.look.step(x, past, times, at_past))
        return self.around_think(vectors, real, self.think)


@dataclass(frozen=True)
class GPTState:
    """What GPT remembers between steps; rows first in every tensor."""

    blocks: tuple[KeyValueCache, ...]
    filled: Int[Tensor, "row"]  # how many tokens each row has taken in


class GPTDecoder(nn.Module):
    """Write a text from left to right, looking back at it."""

    def __init__(self, settings: TransformerSettings, positions: str = "sinusoidal"):
        super().__init__()
        wiring = Wiring(settings, positions)
        self.blocks: Any = wiring.stack(GPTBlock)
        self.ending = wiring.ending()

    def forward(self, target: Sequences, memory: None = None) -> Vectors:
        """All times at once, for training: the causal mask hides from each time what comes after it."""
        layout = layout_of(target)
        at_itself = own_past(target) if isinstance(target, Strung) else causal()
        vectors, is_real = layout.enter(target)
        at_itself = for_kernel(at_itself, vectors)
        for block in self.blocks:
            vectors = block(vectors, is_real, at_itself, layout)
        return layout.spread(vectors if self.ending is None else self.ending(vectors, is_real))

    def start(self, memory: None, rows: int, room: int) -> GPTState:
        """The state before the first token."""
        blocks = tuple(block.look.room(rows, room) for block in self.blocks)
        return GPTState(blocks, torch.zeros(rows, dtype=torch.long, device=blocks[0].keys.device))

    def step(self, vectors: Vectors, state: GPTState) -> tuple[Vectors, GPTState]:
        """Take in one or more new tokens a row."""
        new, room = vectors.size(1), state.blocks[0].keys.size(2)
        times = times_from(state.filled, new)
        everything, at_past = torch.ones_like(times, dtype=torch.bool), for_kernel(so_far(times, room), vectors)
        for block, past in zip(self.blocks, state.blocks, strict=True):
            vectors = block.step(vectors, past, times, everything, at_past)
        if self.ending is not None:
            vectors = self.ending(vectors, everything)
        return vectors, GPTState(state.blocks, state.filled + new)
