"""Averages of the weights over the last part of training: often better than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings

NON_MONOTONE_INTERVAL = 5
"""The last evaluations that a triggered average does not compare with (n in the paper)."""


class NoAverage(Settings):
    """The weights of the last step are the model."""

    kind: Literal["none"] = "none"


class ExponentialMovingAverage(Settings):
    """An exponential moving average of the weights, taken after every step (Polyak & Juditsky 1992)."""

    kind: Literal["moving"] = "moving"
    decay: float = Field(0.999, gt=0, lt=1)
    """Share of the old average that is kept at every step; early on it is less, (1 + step) / (10 + step)."""

    def lerp_weight(self, step: int, start: int) -> float:
        """How far the average moves towards the weights after this step."""
        return 1 - decay_at(step, self.decay)


class CheckpointAverage(Settings):
    """The plain mean of the last few checkpoints (Vaswani et al. 2017, section 6.1)."""

    kind: Literal["last"] = "last"
    count: int = Field(10, ge=2)
    """How many checkpoints."""


class NTASGD(Settings):
    """The plain mean of the weights after every step, from when validation gets no better (NT-ASGD).

    Averaged SGD (Polyak & Juditsky 1992) must be told when to begin: too early and the mean holds bad weights, too late
    and it holds few. Merity et al. 2018, algorithm 1: begin when the loss is worse than the best of the evaluations
    before the last five. Until then the average is the weights themselves.
    """

    kind: Literal["triggered"] = "triggered"

    def is_triggered(self, losses: Sequence[float]) -> bool:
        """Whether the last of these validation losses is the one that averaging begins after."""
        *earlier, last = losses
        return len(earlier) > NON_MONOTONE_INTERVAL and last > min(earlier[:-NON_MONOTONE_INTERVAL])

    def lerp_weight(self, step: int, start: int) -> float:
        """1 / count of the weights averaged so far, these included; 1 until step `start`, and if that is 0.

        average + (weights - average) / count is the mean of count weights if average is that of the others.
        """
        return 1 / (step - start + 1) if 0 < start < step else 1.0


Averaging = NoAverage | ExponentialMovingAverage | CheckpointAverage | NTASGD


def decay_at(step: int, decay: float) -> float:
    """The share of the old average that is kept after this step: less in the beginning, when it is worth little."""
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def update_average(average: Iterable[Tensor], weights: Iterable[nn.Parameter], lerp_weight: Float[Tensor, ""]) -> None:
    """average ← average + pull · (weights - average), in place; `lerp_weight` is a tensor: a CUDA graph reads it anew."""
    average = list(average)
    ways = torch._foreach_sub([weight.detach() for weight in weights], average)
    torch._foreach_mul_(ways, lerp_weight)
    torch._foreach_add_(average, ways)


def average_weights(models: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64 in the order given."""
    return {
        name: (sum(model[name].double() for model in models) / len(models)).to(first.dtype)  # type: ignore[union-attr]
        for name, first in models[0].items()
    }
