"""Two pictures in one, and two labels for it: by how much each, a model has to tell.

Between two examples nothing is known; without being told anything else, a model jumps from one label to the other
somewhere. Mixtures ask it to go over evenly. Every row is mixed with the one before it in its batch, whose order is
drawn anyway. As in `augment.py`, all rows at once, by draws of their own.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from seq2see.sequences.augment import Pixels, lines_and_columns
from seq2see.sequences.draws import Draws

Shares = Float[Tensor, "row"]
PLACES = 1024
"""At so many places, and at the end, the quantiles of a distribution are known."""


def beta_quantiles(alpha: float) -> Float[Tensor, "places"]:
    """The quantiles of Beta(α, α), whose density is ~ (x (1 - x))^(α - 1): from 0 to 1 in equal steps of probability.

    A uniform number, looked up here, becomes one of that distribution; so it needs no generator of its own. Below 1/2
    the integral over x is one over u = x^α, of (1 - x)^(α - 1): where the density goes to infinity this is smooth.
    """
    u = np.linspace(0, 0.5**alpha, 16 * PLACES)
    x = u ** (1 / alpha)
    density = (1 - x) ** (alpha - 1)
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    half = np.interp(np.linspace(0, below[-1], PLACES // 2 + 1), below, u) ** (1 / alpha)
    return torch.from_numpy(np.concatenate([half, 1 - half[-2::-1]])).float()


def quantile_at(quantiles: Float[Tensor, "places"], chances: Shares) -> Shares:
    """Uniform numbers as numbers of the distribution with these quantiles."""
    places = chances * (len(quantiles) - 1)
    left = places.long()
    return quantiles[left].lerp(quantiles[left + 1], places - left)


class Mixup:
    """λ x + (1 - λ) x', with λ from Beta(α, α) (Zhang et al. 2018, section 2): both pictures shine through."""

    def __init__(self, alpha: float):
        self.quantiles = beta_quantiles(alpha)

    def __call__(self, pixels: Pixels, draws: Draws) -> tuple[Pixels, Shares]:
        """Every picture mixed with the one before it, and its own share of the mixture."""
        shares = self.shares("mixup", draws)
        own, other = pixels.float(), pixels.roll(1, 0).float()
        return other.lerp(own, shares[:, None, None, None]).round_().to(torch.uint8), shares

    def shares(self, purpose: str, draws: Draws) -> Shares:
        """One λ a row."""
        self.quantiles = self.quantiles.to(draws.indices.device)  # once: then it is there
        return quantile_at(self.quantiles, draws.chances(purpose)[:, 0])


class CutMix(Mixup):
    """A piece of one picture is glued into the other: of 1 - λ of its size, anywhere (Yun et al. 2019, eq. 1 and 2)."""

    def __call__(self, pixels: Pixels, draws: Draws) -> tuple[Pixels, Shares]:
        """Every picture with a piece of the one before it, and the share of pixels that are its own.

        The piece has the shape of the picture and its middle anywhere; what sticks out of the picture is cut off.
        """
        parts = (1 - self.shares("cutmix", draws)).sqrt()[:, None, None]
        glued = torch.ones((), dtype=torch.bool, device=pixels.device)
        for places, middle in zip(lines_and_columns(pixels), draws.chances("piece", 2).unbind(1), strict=True):
            size = places.numel()
            first = middle[:, None, None] * size - parts * size / 2
            # A pixel belongs to the piece if its middle does.
            glued = glued & (places + 0.5 >= first) & (places + 0.5 < first + parts * size)
        return torch.where(glued[:, None], pixels.roll(1, 0), pixels), 1 - glued.float().mean((1, 2))


class EitherMix:
    """At half of the steps the one, at half of them the other (as in Touvron et al. 2021, section 6)."""

    def __init__(self, mixup: Mixup, cutmix: CutMix):
        self.mixup, self.cutmix = mixup, cutmix

    def __call__(self, pixels: UInt8[Tensor, "row channel height width"], draws: Draws) -> tuple[Pixels, Shares]:
        """Every picture mixed with the one before it, and its own share of the mixture."""
        blended, glued, heads = self.mixup(pixels, draws), self.cutmix(pixels, draws), draws.heads("which mixture")
        # Both are made, because nothing that is launched may depend on a coin.
        return torch.where(heads, blended[0], glued[0]), torch.where(heads, blended[1], glued[1])
