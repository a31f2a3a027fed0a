"""A counter-based random generator for the rows of a batch: a function of (seed, purpose, step, index), on any device.

Randomness is never stored as a state (see `core/seeds.py`). The generators there run on a CPU; a batch of images on a
GPU would have to wait for their numbers. Here tensor operations compute the random numbers: each is a hash of a
counter. Integers are equal on a CPU and on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2see.core.seeds import derive_seed

# As signed integers of 64 bits; multiplication wraps around.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FACTORS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
BITS = 24
"""The number of bits that a float32 can represent between 0 and 1."""


@dataclass(frozen=True)
class CounterRng:
    """Random numbers for the rows of one step; `indices` are the rows' examples.

    An example has the same numbers at every position of a batch, and other numbers at another step. If an example
    occurs several times in a step, each copy needs an index of its own (repeated augmentation).
    """

    seed: int
    step: int | Int[Tensor, ""]
    """A tensor if a CUDA graph is replayed with other steps."""
    indices: Int[Tensor, "row"]

    def uniform(self, purpose: str, count: int = 1) -> Float[Tensor, "row count"]:
        """`count` numbers per row, uniformly distributed in [0, 1)."""
        offsets = torch.arange(count, device=self.indices.device)
        counters = self.indices[:, None] * count + offsets
        mixed = splitmix64(counters * GOLDEN + self._key(purpose))
        return logical_right_shift(mixed, 64 - BITS).to(torch.float32) / 2**BITS

    def coin(self, purpose: str) -> Bool[Tensor, ""]:
        """One fair coin toss for all rows."""
        return self._key(purpose) < 0

    def integers(self, purpose: str, high: int, count: int = 1) -> Int[Tensor, "row count"]:
        """`count` integers per row, uniformly distributed from 0 to high - 1."""
        return (self.uniform(purpose, count) * high).long()

    def _key(self, purpose: str) -> Int[Tensor, ""]:
        """The hash of seed, purpose and step."""
        step = torch.as_tensor(self.step, device=self.indices.device)
        return splitmix64(step * GOLDEN + derive_seed(self.seed, purpose))


def splitmix64(counters: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """SplitMix64's finalizer (Steele, Lea & Flood 2014, figure 17): hashes of neighboring counters are unrelated."""
    mixed = (counters ^ logical_right_shift(counters, 30)) * FACTORS[0]
    mixed = (mixed ^ logical_right_shift(mixed, 27)) * FACTORS[1]
    return mixed ^ logical_right_shift(mixed, 31)


def logical_right_shift(numbers: Int[Tensor, "..."], bits: int) -> Int[Tensor, "..."]:
    """Shift right and fill with zeros: torch's `>>` repeats the sign bit."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
