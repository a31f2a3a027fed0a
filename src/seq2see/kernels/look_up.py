"""A token's vector and where it stands, on a GPU, in one kernel: row t of a table times a scale, plus a position.

One program takes a row. As torch writes it out, with sines and cosines, it is eight kernels.

The plain twin is `TokenFrontend.at` (models/frontends.py) with the positions of layers/positions.py; a test compares
them.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Lookup:
    """Vectors (vocab, width) and their scale; and how positions are made.

    `positions` is "sines" of the frequencies in `places` (width / 2), "table" of as many vectors as there are (longest,
    width), or "none".
    """

    vectors: Tensor
    scale: float
    positions: str
    places: Tensor


@triton.jit
def _look_up(
    found, tokens, times, vectors, places, scale, width, longest, POSITIONS: tl.constexpr, WIDTH: tl.constexpr
):
    """Rounded wherever torch would have stored a number."""
    row, number = tl.program_id(0), tl.arange(0, WIDTH)
    token, time, is_number = tl.load(tokens + row), tl.load(times + row), number < width
    vector = tl.load(vectors + token * width + number, is_number, 0.0)
    vector = (vector.to(tl.float32) * scale).to(vector.dtype).to(tl.float32)
    if POSITIONS == "sines":
        angle = time.to(tl.float32) * tl.load(places + number // 2, is_number, 0.0)
        place = tl.where(number % 2 == 0, tl.sin(angle), tl.cos(angle))
        vector += place.to(vectors.dtype.element_ty).to(tl.float32)
    if POSITIONS == "table":
        last = tl.minimum(time, longest - 1)
        vector += tl.load(places + last * width + number, is_number, 0.0).to(tl.float32)
    tl.store(found + row * width + number, vector.to(found.dtype.element_ty), is_number)


def look_up(lookup: Lookup, tokens: Tensor, times: Tensor) -> Tensor:
    """Vectors (row, width) of one token a row, each at its own time."""
    width = lookup.vectors.size(1)
    found = lookup.vectors.new_empty(tokens.size(0), width)
    longest = lookup.places.size(0)
    _look_up[(tokens.size(0),)](
        found, tokens.contiguous(), times.contiguous(), lookup.vectors, lookup.places, lookup.scale, width, longest,
        POSITIONS=lookup.positions, WIDTH=triton.next_power_of_2(width), num_warps=4,
    )  # fmt: skip
    return found
