"""Mixup and CutMix: two images in one, with the labels of both.

Between two examples the labels are unknown, and without further training data a model switches abruptly from one label
to the other. Mixtures train it to interpolate. Every row is mixed with the previous row of its batch, whose order is
random anyway. As in `image_transforms.py`, all rows are computed at once, each with random numbers of its own.
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
"""The number of quantiles of a distribution, the last one not counted."""


def beta_quantiles(alpha: float) -> Float[Tensor, "places"]:
    """The quantiles of Beta(α, α), whose density is ~ (x (1 - x))^(α - 1): from 0 to 1 in equal steps of probability.

    By inverse transform sampling, a uniform number becomes a sample of that distribution, so no other generator is
    needed. Below 1/2 the integral over x is computed as one over u = x^α, of (1 - x)^(α - 1), which is smooth where the
    density is infinite.
    """
    u = np.linspace(0, 0.5**alpha, 16 * QUANTILES)
    x = u ** (1 / alpha)
    density = (1 - x) ** (alpha - 1)
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    half = np.interp(np.linspace(0, cumulative[-1], QUANTILES // 2 + 1), cumulative, u) ** (1 / alpha)
    return torch.from_numpy(np.concatenate([half, 1 - half[-2::-1]])).float()


def quantile_at(quantiles: Float[Tensor, "places"], uniform: MixWeights) -> MixWeights:
    """Samples of the distribution with these quantiles, by linear interpolation at uniform numbers."""
    positions = uniform * (len(quantiles) - 1)
    left = positions.long()
    return quantiles[left].lerp(quantiles[left + 1], positions - left)


class Mixup:
    """λ x + (1 - λ) x', with λ from Beta(α, α) (Zhang et al. 2018, section 2)."""

    def __init__(self, alpha: float):
        self.quantiles = beta_quantiles(alpha)

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> tuple[PixelBatch, MixWeights]:
        """Every image mixed with the previous one, and the weight λ of its own label."""
        label_weights = self.label_weights("mixup", rng)
        own, other = pixels.float(), pixels.roll(1, 0).float()
        return other.lerp(own, label_weights[:, None, None, None]).round_().to(torch.uint8), label_weights

    def label_weights(self, purpose: str, rng: CounterRng) -> MixWeights:
        """One λ per row."""
        self.quantiles = self.quantiles.to(rng.indices.device)  # copied once, at the first step
        return quantile_at(self.quantiles, rng.uniform(purpose)[:, 0])


class CutMix(Mixup):
    """Paste a patch of another image, with 1 - λ of its pixels, at a random position (Yun et al. 2019, eq. 1 and 2)."""

    def __call__(self, pixels: PixelBatch, rng: CounterRng) -> tuple[PixelBatch, MixWeights]:
        """Every image with a patch of the previous one, and the share of its own pixels.

        The patch has the aspect ratio of the image and its center anywhere; it is clipped at the edges.
        """
        fractions = (1 - self.label_weights("cutmix", rng)).sqrt()[:, None, None]
        pasted = torch.ones((), dtype=torch.bool, device=pixels.device)
        for positions, center in zip(pixel_grid(pixels), rng.uniform("piece", 2).unbind(1), strict=True):
            size = positions.numel()
            first = center[:, None, None] * size - fractions * size / 2
            # A pixel belongs to the patch if its center does.
            pasted = pasted & (positions + 0.5 >= first) & (positions + 0.5 < first + fractions * size)
        return torch.where(pasted[:, None], pixels.roll(1, 0), pixels), 1 - pasted.float().mean((1, 2))


class MixupOrCutMix:
    """Mixup in half of the steps, CutMix in the other half (as in Touvron et al. 2021, section 6)."""

    def __init__(self, mixup: Mixup, cutmix: CutMix):
        self.mixup, self.cutmix = mixup, cutmix

    def __call__(
        self, pixels: UInt8[Tensor, "row channel height width"], rng: CounterRng
    ) -> tuple[PixelBatch, MixWeights]:
        """Every image mixed with the previous one, and the weight of its own label."""
        mixup, cutmix, coin = self.mixup(pixels, rng), self.cutmix(pixels, rng), rng.coin("which mixture")
        # Both are computed, because a branch on a value of the device would need a GPU sync.
        return torch.where(coin, mixup[0], cutmix[0]), torch.where(coin, mixup[1], cutmix[1])
