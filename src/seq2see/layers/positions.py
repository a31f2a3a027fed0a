"""Where a token stands: attention alone cannot tell, so positions are added to the vectors."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2see.core.errors import UserError

Times = Int[Tensor, "row time"]


class SinusoidalPositions(nn.Module):
    """Sines and cosines of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5).

    PE(t, 2i) = sin(t / 10000^(2i/width)), PE(t, 2i+1) = cos of the same. The vector of t + k is a
    rotation of the vector of t, whatever t is; and it exists for lengths never seen in training.
    """

    frequencies: Tensor

    def __init__(self, width: int):
        super().__init__()
        if width % 2:
            raise UserError(
                f"A width of {width} cannot be filled with pairs of a sine and a cosine.",
                remedy="Make the width even, or set frontend.positions=learned.",
            )
        exponents = torch.arange(0, width, 2) / width
        self.register_buffer("frequencies", torch.exp(-math.log(10000.0) * exponents), persistent=False)

    def forward(self, times: Times) -> Float[Tensor, "row time width"]:
        """The position vectors of these times."""
        angles = times[..., None] * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One learned vector for each time up to `longest` (Gehring et al. 2017; BERT, GPT-2, ViT).

    Times beyond the longest share the last vector: there is none that was learned for them.
    """

    def __init__(self, width: int, longest: int = 512):
        super().__init__()
        self.longest = longest
        self.table = nn.Embedding(longest, width)

    def forward(self, times: Times) -> Float[Tensor, "row time width"]:
        """The position vectors of these times."""
        return self.table(times.clamp(max=self.longest - 1))


class NoPositions(nn.Module):
    """Nothing is added: a recurrent network knows the order by reading in order."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, times: Times) -> Float[Tensor, "#row #time width"]:
        """Zeros."""
        return torch.zeros(1, 1, self.width, device=times.device)


POSITIONS: dict[str, type[nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": NoPositions,  # these two are told to attention: see `relative_positions`
    "alibi": NoPositions,
    "none": NoPositions,
}
