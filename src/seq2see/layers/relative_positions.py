"""Relative positions, which act inside attention: rotary position embeddings (RoPE) and ALiBi.

Scores then depend on the distance between query and key, not on their absolute positions. RoPE rotates queries and
keys; ALiBi adds a bias to the scores that grows with the distance. Nothing here is learned.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.errors import UserError

HeadVectors = Float[Tensor, "row head time size"]
PositionIds = Int[Tensor, "#row time"]
QueryPositions = Int[Tensor, "#row query"]
KeyPositions = Int[Tensor, "#row key"]
AngleTable = Float[Tensor, "#row 1 time pair"]


def rotate_half_pairs(head_vectors: HeadVectors, cosines: AngleTable, sines: AngleTable) -> HeadVectors:
    """Rotate every pair (a, b) to (a cos - b sin, b cos + a sin): Su et al. 2021, eq. 34."""
    first, second = head_vectors.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class RelativePositions(nn.Module):
    """The base class of relative positions: they rotate queries and keys, or add a bias to the scores."""

    def rotate(self, head_vectors: HeadVectors, position_ids: PositionIds) -> HeadVectors:
        """Rotate queries or keys by their positions; by default they stay unchanged."""
        return head_vectors

    def attention_bias(
        self, query_positions: QueryPositions, key_positions: KeyPositions
    ) -> Float[Tensor, "#row head #query key"] | None:
        """The bias that is added to the scores; None by default."""
        return None


class RotaryPositions(RelativePositions):
    """Rotate every pair of numbers in a query or key by an angle proportional to its position (Su et al. 2021, eq. 34).

    The dot product of a query rotated by t·θ and a key rotated by s·θ depends on t - s only. A pair consists of the
    numbers i and i + size / 2, as in Llama; the paper pairs adjacent numbers, which is the same up to their order.
    """

    frequencies: Tensor

    def __init__(self, size: int, base: float = 10_000.0):
        super().__init__()
        if size % 2:
            raise UserError(
                f"Rotary positions rotate pairs of numbers, but the head size {size} is odd.",
                hint="Make the width divided by the number of heads even, or choose other positions.",
            )
        frequencies = base ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def rotate(self, head_vectors: HeadVectors, position_ids: PositionIds) -> HeadVectors:
        """Rotate every pair by its angle."""
        return rotate_half_pairs(head_vectors, *self.cosines_and_sines(head_vectors, position_ids))

    def cosines_and_sines(self, head_vectors: HeadVectors, position_ids: PositionIds) -> tuple[AngleTable, AngleTable]:
        """The cosines and sines of the angles position · θ, in the dtype of the head vectors."""
        angles = position_ids[:, None, :, None] * self.frequencies
        return angles.cos().to(head_vectors.dtype), angles.sin().to(head_vectors.dtype)


class AlibiPositions(RelativePositions):
    """ALiBi: a linear penalty on the distance between query and key (Press, Smith & Lewis 2022, section 3).

    It subtracts slope · distance from the score. The slopes are 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads, so that
    some heads attend to distant keys and some only to near ones. A model trained on short texts generalizes to longer
    texts with it.
    """

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1)), persistent=False)

    def attention_bias(
        self, query_positions: QueryPositions, key_positions: KeyPositions
    ) -> Float[Tensor, "#row head query key"]:
        """The negative distance times the slope of each head; the distance is symmetric, for encoders."""
        distance = (query_positions[:, :, None] - key_positions[:, None, :]).abs()
        return -self.slopes[:, None, None] * distance[:, None]


def build_relative_positions(
    positions: str, width: int, heads: int, base: float = 10_000.0
) -> RelativePositions | None:
    """The relative positions of this name; None for absolute position encodings (see `layers.positions.POSITIONS`)."""
    if positions == "rotary":
        return RotaryPositions(width // heads, base)
    return AlibiPositions(heads) if positions == "alibi" else None
