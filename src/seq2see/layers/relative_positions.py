"""Where tokens stand to each other, told to attention itself instead of added to the vectors.

What matters to a query is how far away a key stands, not where both are. So a model can be told in the very place
where queries meet keys: by turning both, or by making far keys less attractive. Nothing here is learned.

`rotate_half_pairs` is the definition; `RotaryFunction` is what runs, the same in fewer walks over the numbers. Tests say they agree.
"""

from __future__ import annotations

from typing import Any

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
    """Every pair (a, b) becomes (a cos - b sin, b cos + a sin): Su et al. 2021, eq. 34."""
    first, second = head_vectors.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class RotaryFunction(torch.autograd.Function):
    """The same in three walks, and as many on the way back: whoever was turned is turned back by the same angle.

    Autograd would walk a dozen times, and nothing of the pieces themselves is kept here. `direction` is 1, or -1 for back.
    """

    @staticmethod
    def forward(
        ctx: Any, head_vectors: HeadVectors, cosines: AngleTable, sines: AngleTable, direction: float
    ) -> HeadVectors:
        """All numbers by their cosines, then to each half what comes from the other one."""
        ctx.save_for_backward(cosines, sines)
        ctx.direction = direction
        pairs = head_vectors.unflatten(-1, (2, -1))
        found = pairs * cosines[..., None, :]
        found[..., 0, :].addcmul_(pairs[..., 1, :], sines, value=-direction)
        found[..., 1, :].addcmul_(pairs[..., 0, :], sines, value=direction)
        return found.flatten(-2)

    @staticmethod
    def backward(ctx: Any, grad_output: HeadVectors) -> tuple[Tensor, None, None, None]:
        """A rotation's transpose is the rotation back."""
        return RotaryFunction.apply(grad_output, *ctx.saved_tensors, -ctx.direction), None, None, None


class RelativePositions(nn.Module):
    """One way of telling attention where tokens stand."""

    def rotate(self, head_vectors: HeadVectors, position_ids: PositionIds) -> HeadVectors:
        """Queries or keys as they are compared; unchanged, unless a way says otherwise."""
        return head_vectors

    def attention_bias(
        self, query_positions: QueryPositions, key_positions: KeyPositions
    ) -> Float[Tensor, "#row head #query key"] | None:
        """What is added to the scores; nothing, unless a way says otherwise."""
        return None


class RotaryPositions(RelativePositions):
    """Turn every pair of numbers in a query or key by an angle that grows with its time (Su et al. 2021, eq. 34).

    The product of a query turned by t·θ and a key turned by s·θ depends on t - s only. The pairs are number i and
    number i + size / 2, as in Llama; the paper pairs neighbors, which is the same up to their order.
    """

    frequencies: Tensor

    def __init__(self, size: int, base: float = 10_000.0):
        super().__init__()
        if size % 2:
            raise UserError(
                f"Heads of {size} numbers cannot be turned in pairs.",
                hint="Make the width divided by the heads even, or choose other positions.",
            )
        frequencies = base ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def rotate(self, head_vectors: HeadVectors, position_ids: PositionIds) -> HeadVectors:
        """Every pair by its own angle, as `rotate_half_pairs` says it; they lie in memory as they did."""
        angles = position_ids[:, None, :, None] * self.frequencies
        cosines, sines = angles.cos().to(head_vectors.dtype), angles.sin().to(head_vectors.dtype)
        if torch.compiler.is_compiling():  # a compiler finds fewer walks by itself
            return rotate_half_pairs(head_vectors, cosines, sines)
        rotated: Tensor = RotaryFunction.apply(head_vectors, cosines, sines, 1.0)
        return rotated


class AlibiPositions(RelativePositions):
    """Make a key less attractive the further back it stands: ALiBi (Press, Smith & Lewis 2022, section 3).

    Score minus slope · distance; the heads' slopes are 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads, so that some
    heads look far and some only near. A model trained on short texts reads longer ones with it.
    """

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1)), persistent=False)

    def attention_bias(
        self, query_positions: QueryPositions, key_positions: KeyPositions
    ) -> Float[Tensor, "#row head query key"]:
        """What is added to the scores; a key that stands ahead is as far away as one that stands behind."""
        distance = (query_positions[:, :, None] - key_positions[:, None, :]).abs()
        return -self.slopes[:, None, None] * distance[:, None]


def build_relative_positions(
    positions: str, width: int, heads: int, base: float = 10_000.0
) -> RelativePositions | None:
    """What attention is told under these positions (see `layers.positions.POSITIONS` for what is added to vectors)."""
    if positions == "rotary":
        return RotaryPositions(width // heads, base)
    return AlibiPositions(heads) if positions == "alibi" else None
