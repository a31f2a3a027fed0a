"""Weights of four bits: 16 equally spaced values in each block, as in the formats Q4_0 and Q4_1 of llama.cpp.

A file of such weights has an integer from 0 to 15 for each weight, and a step and a minimum for each block of 32. They
are dequantized to float32 when the file is read: minimum + step x integer. Here the integers are found again in the
float32 weights, so that a layer can read an eighth of the bytes (`PackedLinearFourBit`). Nothing is quantized: other
weights stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 32
"""The number of weights with a common step and minimum: adjacent inputs of one output."""
LARGEST = 15
"""The largest integer of four bits."""
TOLERANCE = 1e-6
"""The largest difference, relative to the largest weight of a block, that is a rounding error of float32."""
FIRST_ROWS = 4
"""The rows that are checked first: nearly all weights of other formats are recognized by them."""


@dataclass(frozen=True)
class FourBitWeight:
    """A weight as integers from 0 to 15, and the step and the minimum of each block."""

    integers: Int[Tensor, "outputs inputs"]
    steps: Float[Tensor, "outputs block"]
    minima: Float[Tensor, "outputs block"]

    def to_float(self) -> Float[Tensor, "outputs inputs"]:
        """The definition: minimum + step x integer."""
        integers = self.integers.unflatten(1, (-1, BLOCK))
        return (self.minima[..., None] + self.steps[..., None] * integers).flatten(1)


def find_four_bit_weight(weight: Float[Tensor, "outputs inputs"]) -> FourBitWeight | None:
    """The integers of a weight; None if a block has other values than 16 equally spaced ones.

    >>> find_four_bit_weight(torch.arange(32.0)[None] % 16 / 2).steps
    tensor([[0.5000]])
    """
    if weight.size(1) % BLOCK:
        return None
    if len(weight) > FIRST_ROWS and find_four_bit_weight(weight[:FIRST_ROWS]) is None:
        return None
    blocks = weight.detach().float().reshape(-1, BLOCK)
    minima, spans = blocks.amin(dim=1), blocks.amax(dim=1) - blocks.amin(dim=1)
    integers, steps = torch.zeros_like(blocks, dtype=torch.int32), torch.zeros_like(spans)
    open_blocks = torch.arange(len(blocks))
    for largest in range(LARGEST, 0, -1):  # the largest integer of a block may be less than 15
        values, lowest = blocks[open_blocks], minima[open_blocks, None]
        step = (spans[open_blocks, None] / largest).clamp(min=torch.finfo(torch.float32).tiny)
        numbers = ((values - lowest) / step).round()
        error = (lowest + step * numbers - values).abs().amax(dim=1)
        found = error <= TOLERANCE * values.abs().amax(dim=1)
        integers[open_blocks[found]], steps[open_blocks[found]] = numbers[found].int(), step[found, 0]
        open_blocks = open_blocks[~found]
        if not len(open_blocks):
            shape = len(weight), -1
            return FourBitWeight(integers.view(shape), steps.view(shape), minima.view(shape))
    return None
