"""Where tokens stand to each other, told to attention itself instead of added to the vectors.

What matters to a query is how far away a key stands, not where both are. So a model can be told in the very place
where queries meet keys: by turning both, or by making far keys less attractive. Nothing here is learnt.

`plain_turn` is the definition; `Turn` is what runs, the same in fewer walks over the numbers. Tests say they agree.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.errors import UserError

Pieces = Float[Tensor, "row head time size"]
Times = Int[Tensor, "#row time"]
Asking = Int[Tensor, "#row query"]
Asked = Int[Tensor, "#row key"]
OfAngles = Float[Tensor, "#row 1 time pair"]


def plain_turn(pieces: Pieces, cosines: OfAngles, sines: OfAngles) -> Pieces:
    """Every pair (a, b) becomes (a cos - b sin, b cos + a sin): Su et al. 2021, eq. 34."""
    first, second = pieces.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class Turn(torch.autograd.Function):
    """The same in three walks, and as many on the way back: whoever was turned is turned back by the same angle.

    Autograd would walk a dozen times, and nothing of the pieces themselves is kept here. `way` is 1, or -1 for back.
    """

    @staticmethod
    def forward(ctx: Any, pieces: Pieces, cosines: OfAngles, sines: OfAngles, way: float) -> Pieces:
        """All numbers by their cosines, then to each half what comes from the other one."""
        ctx.save_for_backward(cosines, sines)
        ctx.way = way
        pairs = pieces.unflatten(-1, (2, -1))
        found = pairs * cosines[..., None, :]
        found[..., 0, :].addcmul_(pairs[..., 1, :], sines, value=-way)
        found[..., 1, :].addcmul_(pairs[..., 0, :], sines, value=way)
        return found.flatten(-2)

    @staticmethod
    def backward(ctx: Any, slope: Pieces) -> tuple[Tensor, None, None, None]:
        """A rotation's transpose is the rotation back."""
        return Turn.apply(slope, *ctx.saved_tensors, -ctx.way), None, None, None


class Places(nn.Module):
    """One way of telling attention where tokens stand."""

    def turn(self, pieces: Pieces, times: Times) -> Pieces:
        """Queries or keys as they are compared; unchanged, unless a way says otherwise."""
        return pieces

    def lean(self, asking: Asking, asked: Asked) -> Float[Tensor, "#row head #query key"] | None:
        """What is added to the scores; nothing, unless a way says otherwise."""
        return None


class Rotary(Places):
    """Turn every pair of numbers in a query or key by an angle that grows with its time (Su et al. 2021, eq. 34).

    The product of a query turned by t·θ and a key turned by s·θ depends on t - s only. The pairs are number i and
    number i + size / 2, as in Llama; the paper pairs neighbours, which is the same up to their order.
    """

    frequencies: Tensor

    def __init__(self, size: int, base: float = 10_000.0):
        super().__init__()
        if size % 2:
            raise UserError(
                f"Heads of {size} numbers cannot be turned in pairs.",
                remedy="Make the width divided by the heads even, or choose other positions.",
            )
        frequencies = base ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def turn(self, pieces: Pieces, times: Times) -> Pieces:
        """Every pair by its own angle, as `plain_turn` says it; they lie in memory as they did."""
        angles = times[:, None, :, None] * self.frequencies
        cosines, sines = angles.cos().to(pieces.dtype), angles.sin().to(pieces.dtype)
        if torch.compiler.is_compiling():  # a compiler finds fewer walks by itself
            return plain_turn(pieces, cosines, sines)
        turned: Tensor = Turn.apply(pieces, cosines, sines, 1.0)
        return turned


class LinearBias(Places):
    """Make a key less attractive the further back it stands: ALiBi (Press, Smith & Lewis 2022, section 3).

    Score minus slope · distance; the heads' slopes are 2^(-8/n), 2^(-16/n), ..., 2^-8 for n heads, so that some
    heads look far and some only near. A model trained on short texts reads longer ones with it.
    """

    slopes: Tensor

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1)), persistent=False)

    def lean(self, asking: Asking, asked: Asked) -> Float[Tensor, "#row head query key"]:
        """What is added to the scores; a key that stands ahead is as far away as one that stands behind."""
        distance = (asking[:, :, None] - asked[:, None, :]).abs()
        return -self.slopes[:, None, None] * distance[:, None]


def places_of(positions: str, width: int, heads: int, base: float = 10_000.0) -> Places | None:
    """What attention is told under these positions (see `layers.positions.POSITIONS` for what is added to vectors)."""
    if positions == "rotary":
        return Rotary(width // heads, base)
    return LinearBias(heads) if positions == "alibi" else None
