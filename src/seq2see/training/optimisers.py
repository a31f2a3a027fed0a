"""How weights move: four optimisers by their names, and the clipping of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings
from seq2see.training.muon import SHRINKING, MuonSteps

# Vaswani et al. 2017, section 5.3: a shorter memory of squared gradients than Adam's usual 0.999.
BETAS, EPSILON = (0.9, 0.98), 1e-9


class SGD(Settings):
    """Step against the gradient, with momentum if asked for."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1)
    """Share of the last step that is kept in the next."""
    # Not named as in AdamW: rates of SGD are far larger, and `--set training.optimiser.kind=sgd` would take it over.
    penalty: float = Field(0.0, ge=0)
    """What weight matrices cost: half of this times their squares. So they shrink by rate · penalty at every step."""

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights."""
        weights = list(named.values())
        groups = _shrinking(weights, self.penalty)
        return torch.optim.SGD(groups, lr=_rate(weights, rate), momentum=self.momentum, fused=True)


class Adam(Settings):
    """Steps scaled by how large each weight's gradients have been (Kingma & Ba 2015)."""

    kind: Literal["adam"] = "adam"

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights; fused is the same arithmetic in one kernel."""
        weights = list(named.values())
        return torch.optim.Adam(weights, lr=_rate(weights, rate), **_options(weights))


class AdamW(Settings):
    """Adam with weights that shrink a little at every step (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    decay: float = Field(0.01, ge=0)
    """How much weight matrices shrink: by rate · decay at every step. Biases and norms do not."""

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights; fused is the same arithmetic in one kernel."""
        weights = list(named.values())
        return torch.optim.AdamW(_shrinking(weights, self.decay), lr=_rate(weights, rate), **_options(weights))


class Muon(Settings):
    """Steps along all directions of a matrix alike (Jordan et al. 2024); what is no matrix of a block moves by AdamW.

    Tables of vectors and heads have a row for each token, and a row that was not seen has no direction.
    """

    kind: Literal["muon"] = "muon"

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """The optimiser for these weights."""
        weights = list(named.values())
        blocks = [weight for name, weight in named.items() if ".blocks." in name and weight.dim() == 2]
        others = [weight for weight in weights if all(weight is not each for each in blocks)]
        groups = [
            {"params": blocks, "weight_decay": SHRINKING, "muon": True},
            {"params": [each for each in others if each.dim() >= 2], "weight_decay": SHRINKING, "muon": False},
            {"params": [each for each in others if each.dim() < 2], "weight_decay": 0.0, "muon": False},
        ]
        return MuonSteps(groups, lr=_rate(weights, rate), **_options(weights))


Optimiser = SGD | Adam | AdamW | Muon


def _shrinking(weights: list[nn.Parameter], decay: float) -> list[dict[str, Any]]:
    """Matrices, which shrink, and the rest, which does not: a bias has nothing to gain by being small."""
    matrices = [weight for weight in weights if weight.dim() >= 2]
    others = [weight for weight in weights if weight.dim() < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def _options(weights: list[nn.Parameter]) -> dict[str, Any]:
    """What both kinds of Adam share; on a GPU a CUDA graph may record them."""
    return {"betas": BETAS, "eps": EPSILON, "fused": True, "capturable": weights[0].is_cuda}


def _rate(weights: list[nn.Parameter], rate: float) -> float | Tensor:
    """On a GPU the rate lies beside the weights, where a CUDA graph can read it anew at every step."""
    return torch.tensor(rate, device=weights[0].device) if weights[0].is_cuda else rate


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the rate of the next step."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def step_unless(optimiser: torch.optim.Optimizer, broken: Tensor) -> None:
    """One step, unless `broken` is 1: decided on the device, so that nobody has to wait for the answer."""
    optimiser.found_inf = broken  # type: ignore[attr-defined]  # the fused kernels look for this name
    optimiser.step()


def average_and_clip(gradients: list[Tensor], count: Tensor, longest: float) -> Tensor:
    """g ← g / count, then g ← min(1, longest / ‖g‖) g over all gradients together (Pascanu et al. 2013).

    Both in one pass over the gradients. Gives the average's ‖g‖ as it was before it was shortened.
    """
    norm = nn.utils.get_total_norm(gradients, foreach=True) / count
    factor = (longest / (norm + 1e-6)).clamp(max=1) if longest > 0 else torch.ones_like(norm)
    torch._foreach_mul_(gradients, factor / count)
    return norm
