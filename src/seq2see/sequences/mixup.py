"""Two images in one, and two labels for it: by how much each, a model has to tell.

Between two examples nothing is known; without being told anything else, a model jumps from one label to the other
somewhere. Mixtures ask it to go over evenly. Every row is mixed with the one before it in its batch, whose order is
drawn anyway. As in `augment.py`, all rows at once, by draws of their own.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from seq2see.sequences.counter_rng import CounterRng
from seq2see.sequences.image_transforms import PixelBatch, pixel_grid

MixWeights = Float[Tensor, "row"]
QUANTILES = 1024
"""At so many places, and at the end, the quantiles of a distribution are known."""


def beta_quantiles(alpha: float) -> Float[Tensor, "places"]:
    """The quantiles of Beta(α, α), whose density is ~ (x (1 - x))^(α - 1): from 0 to 1 in equal steps of probability.

    A uniform number, looked up here, becomes one of that distribution; so it needs no generator of its own. Below 1/2
    the integral over x is one over u = x^α, of (1 - x)^(α - 1): where the density goes to infinity this is smooth.
    """
    u = np.linspace(0, 0.5**alpha, 16 * QUANTILES)
    x = u ** (1 / alpha)
    density = (1 - x) ** (alpha - 1)
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    half = np.interp(np.linspace(0, below[-1], QUANTILES // 2 + 1), below, u) ** (1 / alpha)
    return torch.from_numpy(np.concatenate([half, 1 - half[-2::-1]])).float()


def quantile_at(quantiles: Float[Tensor, "places"], uniform: MixWeights) -> MixWeights:
    """Uniform numbers as numbers of the distribution with these quantiles."""
    places = uniform * (len(quantiles) - 1)
    left = places.long()
    return quantiles[left].lerp(quantiles[left + 1], places - left)


class Mixup:
    """λ x + (1 - λ) x', with λ from Beta(α, α) (Zhang et al. 2018, section 2): both images shine through."""

    def __init__(self, alpha: float):
        self.quantiles = beta_quantiles(alpha)

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> tuple[PixelBatch, MixWeights]:
        """Every image mixed with the one before it, and its own share of the mixture."""
        label_weights = self.label_weights("mixup", rng)
        own, other = pixels.float(), pixels.roll(1, 0).float()
        return other.lerp(own, label_weights[:, None, None, None]).round_().to(torch.uint8), label_weights

    def label_weights(self, purpose: str, rng: CounterRng) -> MixWeights:
        """One λ a row."""
        self.quantiles = self.quantiles.to(rng.indices.device)  # once: then it is there
        return quantile_at(self.quantiles, rng.uniform(purpose)[:, 0])


class CutMix(Mixup):
    """A piece of one image is glued into the other: of 1 - λ of its size, anywhere (Yun et al. 2019, eq. 1 and 2)."""

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> tuple[PixelBatch, MixWeights]:
        """Every image with a piece of the one before it, and the share of pixels that are its own.

        The piece has the shape of the image and its middle anywhere; what sticks out of the image is cut off.
        """
        parts = (1 - self.label_weights("cutmix", rng)).sqrt()[:, None, None]
        glued = torch.ones((), dtype=torch.bool, device=pixels.device)
        for places, middle in zip(pixel_grid(pixels), rng.uniform("piece", 2).unbind(1), strict=True):
            size = places.numel()
            first = middle[:, None, None] * size - parts * size / 2
            # A pixel belongs to the piece if its middle does.
            glued = glued & (places + 0.5 >= first) & (places + 0.5 < first + parts * size)
        return torch.where(glued[:, None], pixels.roll(1, 0), pixels), 1 - glued.float().mean((1, 2))


class MixupOrCutMix:
    """At half of the steps the one, at half of them the other (as in Touvron et al. 2021, section 6)."""

    def __init__(self, mixup: Mixup, cutmix: CutMix):
        self.mixup, self.cutmix = mixup, cutmix

    def __call__(
        self, pixels: UInt8[Tensor, "row channel height width"], rng: CounterRng
    ) -> tuple[PixelBatch, MixWeights]:
        """Every image mixed with the one before it, and its own share of the mixture."""
        blended, glued, coin = self.mixup(pixels, rng), self.cutmix(pixels, rng), rng.coin("which mixture")
        # Both are made, because nothing that is launched may depend on a coin.
        return torch.where(coin, blended[0], glued[0]), torch.where(coin, blended[1], glued[1])
