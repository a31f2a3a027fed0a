"""How weights move: four optimisers by their names, and how far gradients are shortened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings
from seq2see.training.muon import MuonSteps
from seq2see.training.steps import AdamSteps, AdamWSteps, Group, SGDSteps, Steps, rate_beside


class SGD(Settings):
    """Step against the gradient, with momentum if asked for."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1)
    """Share of the last step that is kept in the next."""
    # Not named as in AdamW: rates of SGD are far larger, and `--set training.optimiser.kind=sgd` would take it over.
    penalty: float = Field(0.0, ge=0)
    """What weight matrices cost: half of this times their squares. So they shrink by rate · penalty at every step."""

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> Steps:
        """The optimiser for these weights."""
        return SGDSteps(_matrices_shrink(named, self.penalty), rate_beside(named, rate), self.momentum)


class Adam(Settings):
    """Steps scaled by how large each weight's gradients have been (Kingma & Ba 2015)."""

    kind: Literal["adam"] = "adam"

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> Steps:
        """The optimiser for these weights."""
        return AdamSteps([Group(named)], rate_beside(named, rate))


class AdamW(Settings):
    """Adam with weights that shrink a little at every step (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    decay: float = Field(0.01, ge=0)
    """How much weight matrices shrink: by rate · decay at every step. Biases and norms do not."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Each block moves by so much of the rate of the one above it, for weights that learnt before; 1: all alike."""

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> Steps:
        """The optimiser for these weights."""
        layers = _layers(named) if self.layer_decay < 1 else [named]
        groups = [
            replace(group, pace=self.layer_decay**above)
            for above, layer in enumerate(layers)
            for group in _matrices_shrink(layer, self.decay)
        ]
        return AdamWSteps(groups, rate_beside(named, rate))


class Muon(Settings):
    """Steps along all directions of a matrix alike (Jordan et al. 2024); what is no matrix of a block moves by AdamW.

    Tables of vectors and heads have a row for each token, and a row that was not seen has no direction.
    """

    kind: Literal["muon"] = "muon"
    decay: float = Field(0.01, ge=0)
    """How much weight matrices shrink: by rate · decay at every step. Biases and norms do not."""

    def build(self, named: Mapping[str, nn.Parameter], rate: float) -> Steps:
        """The optimiser for these weights."""
        blocks = {name: weight for name, weight in named.items() if ".blocks." in name and weight.dim() >= 2}
        others = {name: weight for name, weight in named.items() if name not in blocks}
        groups = _matrices_shrink(others, self.decay)
        return MuonSteps(Group(blocks, self.decay), groups, rate_beside(named, rate))


Optimiser = SGD | Adam | AdamW | Muon


def _layers(named: Mapping[str, nn.Parameter]) -> list[dict[str, nn.Parameter]]:
    """The weights by how many layers stand above them: the head first, then block by block, the frontends last.

    What was learnt from much other data is the more general the nearer it is to the input, so it is to move the less
    (Howard & Ruder 2018, section 3.2; Bao et al. 2022, section 3.1, for ViT).
    """
    numbers = {name: int(found[1]) for name in named if (found := re.search(r"\bblocks\.(\d+)\.", name))}
    top = max(numbers.values(), default=-1) + 1
    entering = re.compile(r"(source|target)\.|\w+\.enter\.")
    above = {name: top - numbers[name] if name in numbers else (top + 1) * bool(entering.match(name)) for name in named}
    return [{name: named[name] for name in named if above[name] == layer} for layer in range(top + 2)]


def _matrices_shrink(named: Mapping[str, nn.Parameter], shrinking: float) -> list[Group]:
    """Matrices, which shrink, and the rest, which does not: a bias has nothing to gain by being small."""
    matrices = {name: weight for name, weight in named.items() if weight.dim() >= 2}
    others = {name: weight for name, weight in named.items() if weight.dim() < 2}
    return [Group(matrices, shrinking), Group(others)]


def norm_and_divisor(gradients: list[Tensor], count: Tensor, longest: float) -> tuple[Tensor, Tensor]:
    """‖g / count‖ over all gradients together, and what g is to be divided by before a step.

    g / count is the average; where it is too long it is shortened, g ← min(1, longest / ‖g‖) g (Pascanu et al. 2013).
    The gradients are only read: an optimiser divides them when it comes to them.
    """
    norm = total_norm(gradients) / count
    excess = ((norm + 1e-6) / longest).clamp(min=1) if longest > 0 else torch.ones_like(norm)
    return norm, (count * excess).float()  # whatever the weights are, kernels read a divisor as float32


def total_norm(gradients: list[Tensor]) -> Tensor:
    """‖g‖ over all gradients together; those in 16 bits are added up in 32."""
    high = [each for each in gradients if each.dtype != torch.bfloat16]
    low = [torch.linalg.vector_norm(each, dtype=torch.float32) for each in gradients if each.dtype == torch.bfloat16]
    norms = [nn.utils.get_total_norm(high, foreach=True)] if high else []
    return norms[0] if not low else torch.linalg.vector_norm(torch.stack([*norms, *low]))
