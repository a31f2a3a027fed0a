"""Averages of the weights over the last part of training; they are often better than the weights of the last step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings

NON_MONOTONE_INTERVAL = 5
"""The number of recent evaluations that NT-ASGD leaves out of its comparison (n in the paper)."""


class NoAverage(Settings):
    """No averaging: the model has the weights of the last step."""

    kind: Literal["none"] = "none"


class ExponentialMovingAverage(Settings):
    """An exponential moving average (EMA) of the weights, updated after every step (Polyak & Juditsky 1992)."""

    kind: Literal["ema"] = "ema"
    decay: float = Field(0.999, gt=0, lt=1)
    """Decay of the moving average per step; in the first steps it is smaller, (1 + step) / (10 + step)."""

    def lerp_weight(self, step: int, start: int) -> float:
        """The weight of `lerp`: average ← average + lerp_weight · (weights - average) after this step."""
        return 1 - decay_at(step, self.decay)


class CheckpointAverage(Settings):
    """The arithmetic mean of the last few checkpoints (Vaswani et al. 2017, section 6.1)."""

    kind: Literal["checkpoints"] = "checkpoints"
    count: int = Field(10, ge=2)
    """The number of checkpoints."""


class NTASGD(Settings):
    """The arithmetic mean of the weights after every step, once validation stops improving (NT-ASGD).

    Averaged SGD (Polyak & Juditsky 1992) needs a first step: with an early one the mean contains bad weights, with a
    late one it contains few weights. Merity et al. 2018, algorithm 1: averaging starts when the loss is worse than the
    best of the evaluations before the last five. Until then the average equals the weights.
    """

    kind: Literal["asgd"] = "asgd"

    def is_triggered(self, losses: Sequence[float]) -> bool:
        """Whether averaging starts after the last of these validation losses."""
        *earlier, last = losses
        return len(earlier) > NON_MONOTONE_INTERVAL and last > min(earlier[:-NON_MONOTONE_INTERVAL])

    def lerp_weight(self, step: int, start: int) -> float:
        """1 / count, where count is the number of weights in the mean, this step included; 1 before step `start`.

        average + (weights - average) / count is the mean of count weights if average is the mean of the previous ones.
        `start` is 0 as long as averaging has not been triggered.
        """
        return 1 / (step - start + 1) if 0 < start < step else 1.0


Averaging = NoAverage | ExponentialMovingAverage | CheckpointAverage | NTASGD


def decay_at(step: int, decay: float) -> float:
    """The decay of the moving average at this step: smaller at the start, when the average still contains few steps."""
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def update_average(average: Iterable[Tensor], weights: Iterable[nn.Parameter], lerp_weight: Float[Tensor, ""]) -> None:
    """average ← average + lerp_weight · (weights - average), in place. `lerp_weight` is a tensor for CUDA graphs."""
    average = list(average)
    differences = torch._foreach_sub([weight.detach() for weight in weights], average)
    torch._foreach_mul_(differences, lerp_weight)
    torch._foreach_add_(average, differences)


def average_weights(models: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64 in the order of `models`."""
    return {
        name: (sum(model[name].double() for model in models) / len(models)).to(first.dtype)  # type: ignore[union-attr]
        for name, first in models[0].items()
    }
