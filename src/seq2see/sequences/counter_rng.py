"""Random numbers of the rows of a batch, as a function of (seed, purpose, step, index), computed where the batch is.

`core/seeds.py` says why randomness is never a state. Its generators count on a CPU; a batch of images that lives on a
GPU would have to wait for their numbers. So here the counting is done by the tensors themselves: every number is a
counter, stirred until nothing of it can be seen. Whole numbers are the same on a CPU and on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.seeds import derive_seed

# As signed numbers of 64 bits, in which products wrap around.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FACTORS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
BITS = 24
"""As many as a float32 can tell apart between 0 and 1."""


@dataclass(frozen=True)
class CounterRng:
    """What chance decides about the rows of one step; `indices` are the rows' examples.

    The same example gets the same numbers wherever it stands in a batch, and others at another step. Whoever shows one
    example several times in a step gives each showing an index of its own.
    """

    seed: int
    step: int | Int[Tensor, ""]
    """As a tensor it can be another one whenever a CUDA graph is repeated."""
    indices: Int[Tensor, "row"]

    def uniform(self, purpose: str, count: int = 1) -> Float[Tensor, "row count"]:
        """Numbers drawn uniformly from [0, 1), so many a row."""
        places = torch.arange(count, device=self.indices.device)
        counters = self.indices[:, None] * count + places
        mixed = splitmix64(counters * GOLDEN + self._key(purpose))
        return logical_right_shift(mixed, 64 - BITS).to(torch.float32) / 2**BITS

    def coin(self, purpose: str) -> Bool[Tensor, ""]:
        """A coin that is thrown once for all rows."""
        return self._key(purpose) < 0

    def integers(self, purpose: str, high: int, count: int = 1) -> Int[Tensor, "row count"]:
        """Whole numbers drawn uniformly from 0 to below - 1, so many a row."""
        return (self.uniform(purpose, count) * high).long()

    def _key(self, purpose: str) -> Int[Tensor, ""]:
        """What the numbers of one purpose have in common at this step."""
        step = torch.as_tensor(self.step, device=self.indices.device)
        return splitmix64(step * GOLDEN + derive_seed(self.seed, purpose))


def splitmix64(counters: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """SplitMix64's finalizer (Steele, Lea & Flood 2014, figure 17): neighboring counters give unrelated numbers."""
    mixed = (counters ^ logical_right_shift(counters, 30)) * FACTORS[0]
    mixed = (mixed ^ logical_right_shift(mixed, 27)) * FACTORS[1]
    return mixed ^ logical_right_shift(mixed, 31)


def logical_right_shift(numbers: Int[Tensor, "..."], bits: int) -> Int[Tensor, "..."]:
    """The bits moved down, and zeros from above: torch would repeat the sign."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
