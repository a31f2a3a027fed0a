"""Watching attention without touching it.

`with trace(model) as maps:` gives every attention layer a probe and takes it away at the end. The
layers compute their outputs as always; the weights are computed again beside them and shown. A traced
model gives the same outputs as an untraced one, bit for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.layers.attention import Attention, CrossAttention
from seq2see.layers.recurrent_attention import MemoryAttention


@dataclass
class AttentionMap:
    """The weights of one attention layer, as it was called: all at once, or one step after another."""

    name: str
    across: bool  # from the target to the source, or within one sequence
    parts: list[Tensor] = field(default_factory=list)

    @property
    def weights(self) -> Float[Tensor, "row head query key"]:
        """How much each query took from each key; steps are joined along the queries."""
        return torch.cat(self.parts, dim=2)


@contextlib.contextmanager
def trace(model: nn.Module) -> Iterator[list[AttentionMap]]:
    """Collect a map for every attention layer called inside the block, in the order of the layers."""
    watched = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, Attention | MemoryAttention)]
    maps = [AttentionMap(name, isinstance(layer, CrossAttention | MemoryAttention)) for name, layer in watched]
    for (_, layer), each in zip(watched, maps, strict=True):
        layer.probe = each.parts.append
    try:
        yield maps
    finally:
        for _, layer in watched:
            layer.probe = None
        maps[:] = [each for each in maps if each.parts]
