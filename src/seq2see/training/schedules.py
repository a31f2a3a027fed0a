"""Learning rate schedules: a factor of the peak learning rate, as a function of the step alone."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from seq2see.core.settings import Settings


class Constant(Settings):
    """A constant learning rate."""

    kind: Literal["constant"] = "constant"

    def factor(self, step: int, steps: int) -> float:
        """Always 1."""
        return 1.0


class InverseSquareRoot(Settings):
    """Linear warmup, then decay as 1/√step (Vaswani et al. 2017, eq. 3).

    The paper writes width^-0.5 · min(step^-0.5, step · warmup^-1.5); the same curve has its peak
    (width · warmup)^-0.5 at step `warmup`, and that peak is `training.learning_rate` here.
    """

    kind: Literal["inverse-square-root"] = "inverse-square-root"
    warmup: int = Field(4000, ge=1)
    """Warmup steps."""

    def factor(self, step: int, steps: int) -> float:
        """The fraction of the peak learning rate at this step (the first step is 1)."""
        return min(step / self.warmup, math.sqrt(self.warmup / step))


class Cosine(Settings):
    """Linear warmup, then cosine decay to zero (Loshchilov & Hutter 2017)."""

    kind: Literal["cosine"] = "cosine"
    warmup: int = Field(500, ge=1)
    """Warmup steps."""

    def factor(self, step: int, steps: int) -> float:
        """The fraction of the peak learning rate at this step."""
        if step < self.warmup:
            return step / self.warmup
        progress = (step - self.warmup) / max(1, steps - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


Schedule = Constant | InverseSquareRoot | Cosine
