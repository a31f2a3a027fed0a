"""Random numbers as a function of (seed, purpose, numbers), without a stored generator state.

A long-lived generator must be saved, restored, and used in exactly the same order; otherwise a resumed run differs.
Here every random number is computed from its purpose, so a resumed run has the random numbers of the uninterrupted run
by construction.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray


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
