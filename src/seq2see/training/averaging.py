"""Averages of the weights over the last part of training: often better than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings


class NoAverage(Settings):
    """The weights of the last step are the model."""

    kind: Literal["none"] = "none"


class MovingAverage(Settings):
    """An exponential moving average of the weights, taken after every step (Polyak & Juditsky 1992)."""

    kind: Literal["moving"] = "moving"
    decay: float = Field(0.999, gt=0, lt=1)
    """Share of the old average that is kept at every step; early on it is less, (1 + step) / (10 + step)."""


class LastCheckpoints(Settings):
    """The plain mean of the last few checkpoints (Vaswani et al. 2017, section 6.1)."""

    kind: Literal["last"] = "last"
    count: int = Field(10, ge=2)
    """How many checkpoints."""


Averaging = NoAverage | MovingAverage | LastCheckpoints


def decay_at(step: int, decay: float) -> float:
    """The share of the old average that is kept after this step: less in the beginning, when it is worth little."""
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def move_average(average: Iterable[Tensor], weights: Iterable[nn.Parameter], pull: Float[Tensor, ""]) -> None:
    """average ← average + pull · (weights - average), in place; `pull` is a tensor: a CUDA graph reads it anew."""
    average = list(average)
    ways = torch._foreach_sub([weight.detach() for weight in weights], average)
    torch._foreach_mul_(ways, pull)
    torch._foreach_add_(average, ways)


def mean_of(models: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64 in the order given."""
    return {
        name: (sum(model[name].double() for model in models) / len(models)).to(first.dtype)  # type: ignore[union-attr]
        for name, first in models[0].items()
    }
