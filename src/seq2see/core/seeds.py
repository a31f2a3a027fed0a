"""Randomness as a function of (seed, purpose, numbers), never as stored state.

A generator that is carried along must be saved, restored and never drawn from out of turn; that is
where resumed runs go wrong. Here every draw is computed from what it is for, so a resumed run draws
what the uninterrupted one would have drawn, by construction.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray


def derive_seed(seed: int, purpose: str, *numbers: int) -> int:
    """A well-mixed 63-bit number for this seed, purpose and numbers.

    >>> mix(1, "dropout", 7) == mix(1, "dropout", 7) != mix(1, "dropout", 8)
    True
    """
    text = "/".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def uniform(seed: int, purpose: str, *numbers: int) -> float:
    """A number drawn uniformly from [0, 1)."""
    return (derive_seed(seed, purpose, *numbers) >> 10) / 2**53


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A fresh counter-based generator for many draws of one purpose."""
    return np.random.Generator(np.random.Philox(key=derive_seed(seed, purpose, *numbers)))


def permutation(count: int, seed: int, purpose: str, *numbers: int) -> NDArray[np.int64]:
    """The numbers 0 to count - 1 in an order that depends on the seed, purpose and numbers alone."""
    return generator(seed, purpose, *numbers).permutation(count)


def seed_torch(seed: int, purpose: str, *numbers: int) -> None:
    """Set torch's own generator (dropout, initial weights) for what comes next."""
    torch.manual_seed(derive_seed(seed, purpose, *numbers))
