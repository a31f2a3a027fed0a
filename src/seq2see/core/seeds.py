"""Random numbers as a function of (seed, purpose, numbers), without a stored generator state.

A long-lived generator must be saved, restored, and used in exactly the same order; otherwise a resumed run differs.
Here every random number is computed from its purpose, so a resumed run has the random numbers of the uninterrupted run
by construction.

The generators of NumPy run on a CPU; a batch of images on a GPU would have to wait for their numbers. So `CounterRng`
computes the random numbers of a batch by tensor operations, on any device: each is a hash of a counter. Integers are
equal on a CPU and on a GPU.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor


def derive_seed(seed: int, purpose: str, *numbers: int) -> int:
    """A 63-bit hash of the seed, the purpose and the numbers.

    >>> derive_seed(1, "dropout", 7) == derive_seed(1, "dropout", 7) != derive_seed(1, "dropout", 8)
    True
    """
    text = "/".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def uniform(seed: int, purpose: str, *numbers: int) -> float:
    """A random number from the uniform distribution on [0, 1)."""
    return (derive_seed(seed, purpose, *numbers) >> 10) / 2**53


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A new counter-based generator for many random numbers of one purpose."""
    return np.random.Generator(np.random.Philox(key=derive_seed(seed, purpose, *numbers)))


def permutation(count: int, seed: int, purpose: str, *numbers: int) -> NDArray[np.int64]:
    """A permutation of 0 to count - 1 that depends on the seed, the purpose and the numbers alone."""
    return generator(seed, purpose, *numbers).permutation(count)


def seed_torch(seed: int, purpose: str, *numbers: int) -> None:
    """Seed torch's global generator, which dropout and weight initialization use."""
    torch.manual_seed(derive_seed(seed, purpose, *numbers))


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
