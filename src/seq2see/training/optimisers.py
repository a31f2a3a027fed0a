"""How weights move: three optimisers by their names, and the clipping of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings

# Vaswani et al. 2017, section 5.3: a shorter memory of squared gradients than Adam's usual 0.999.
BETAS, EPSILON = (0.9, 0.98), 1e-9


class SGD(Settings):
    """Step against the gradient, with momentum if asked for."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1)
    """Share of the last step that is kept in the next."""

    def build(self, weights: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights."""
        return torch.optim.SGD(weights, lr=rate, momentum=self.momentum)


class Adam(Settings):
    """Steps scaled by how large each weight's gradients have been (Kingma & Ba 2015)."""

    kind: Literal["adam"] = "adam"

    def build(self, weights: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights; fused is the same arithmetic in one kernel."""
        return torch.optim.Adam(weights, lr=rate, betas=BETAS, eps=EPSILON, fused=True)


class AdamW(Settings):
    """Adam with weights that shrink a little at every step (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    decay: float = Field(0.01, ge=0)
    """How much weight matrices shrink: by rate · decay at every step. Biases and norms do not."""

    def build(self, weights: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights; fused is the same arithmetic in one kernel."""
        weights = list(weights)
        groups = [
            {"params": [weight for weight in weights if weight.dim() >= 2], "weight_decay": self.decay},
            {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=rate, betas=BETAS, eps=EPSILON, fused=True)


Optimiser = SGD | Adam | AdamW


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def clip(weights: Iterable[nn.Parameter], longest: float) -> Tensor:
    """g ← min(1, longest / ‖g‖) g over all gradients together; gives ‖g‖ as it was (Pascanu et al. 2013)."""
    return nn.utils.clip_grad_norm_(weights, longest if longest > 0 else float("inf"), foreach=True)
