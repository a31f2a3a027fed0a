"""How weights move: four optimizers by their names, and how far gradients are shortened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.settings import Settings
from seq2see.training.muon import MuonOptimizer
from seq2see.training.optimizers import (
    AdamOptimizer,
    AdamWOptimizer,
    Optimizer,
    ParameterGroup,
    SGDOptimizer,
    learning_rate_tensor,
)


class SGD(Settings):
    """Step against the gradient, with momentum if asked for."""

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1)
    """Share of the last step that is kept in the next."""
    # Not named as in AdamW: rates of SGD are far larger, and `--set training.optimizer.kind=sgd` would take it over.
    weight_decay: float = Field(0.0, ge=0)
    """What weight matrices cost: half of this times their squares. So they shrink by rate · penalty at every step."""

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these weights."""
        return SGDOptimizer(
            _weight_decay_groups(parameters, self.weight_decay),
            learning_rate_tensor(parameters, learning_rate),
            self.momentum,
        )


class Adam(Settings):
    """Steps scaled by how large each weight's gradients have been (Kingma & Ba 2015)."""

    kind: Literal["adam"] = "adam"

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these weights."""
        return AdamOptimizer([ParameterGroup(parameters)], learning_rate_tensor(parameters, learning_rate))


class AdamW(Settings):
    """Adam with weights that shrink a little at every step (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: float = Field(0.01, ge=0)
    """How much weight matrices shrink: by rate · decay at every step. Biases and norms do not."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Each block moves by so much of the rate of the one above it, for weights that learned before; 1: all alike."""

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these weights."""
        layers = _layers(parameters) if self.layer_decay < 1 else [parameters]
        groups = [
            replace(group, lr_scale=self.layer_decay**above)
            for above, layer in enumerate(layers)
            for group in _weight_decay_groups(layer, self.weight_decay)
        ]
        return AdamWOptimizer(groups, learning_rate_tensor(parameters, learning_rate))


class Muon(Settings):
    """Steps along all directions of a matrix alike (Jordan et al. 2024); what is no matrix of a block moves by AdamW.

    Tables of vectors and heads have a row for each token, and a row that was not seen has no direction.
    """

    kind: Literal["muon"] = "muon"
    weight_decay: float = Field(0.01, ge=0)
    """How much weight matrices shrink: by rate · decay at every step. Biases and norms do not."""

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these weights."""
        blocks = {name: weight for name, weight in parameters.items() if ".blocks." in name and weight.dim() >= 2}
        others = {name: weight for name, weight in parameters.items() if name not in blocks}
        groups = _weight_decay_groups(others, self.weight_decay)
        return MuonOptimizer(
            ParameterGroup(blocks, self.weight_decay), groups, learning_rate_tensor(parameters, learning_rate)
        )


OptimizerSettings = SGD | Adam | AdamW | Muon


def _layers(parameters: Mapping[str, nn.Parameter]) -> list[dict[str, nn.Parameter]]:
    """The weights by how many layers stand above them: the head first, then block by block, the frontends last.

    What was learned from much other data is the more general the nearer it is to the input, so it is to move the less
    (Howard & Ruder 2018, section 3.2; Bao et al. 2022, section 3.1, for ViT).
    """
    numbers = {name: int(found[1]) for name in parameters if (found := re.search(r"\bblocks\.(\d+)\.", name))}
    top = max(numbers.values(), default=-1) + 1
    entering = re.compile(r"(source|target)\.|\w+\.enter\.")
    above = {
        name: top - numbers[name] if name in numbers else (top + 1) * bool(entering.match(name)) for name in parameters
    }
    return [{name: parameters[name] for name in parameters if above[name] == layer} for layer in range(top + 2)]


def _weight_decay_groups(parameters: Mapping[str, nn.Parameter], weight_decay: float) -> list[ParameterGroup]:
    """Matrices, which shrink, and the rest, which does not: a bias has nothing to gain by being small."""
    matrices = {name: weight for name, weight in parameters.items() if weight.dim() >= 2}
    others = {name: weight for name, weight in parameters.items() if weight.dim() < 2}
    return [ParameterGroup(matrices, weight_decay), ParameterGroup(others)]


def grad_norm_and_scale(gradients: list[Tensor], count: Tensor, max_norm: float) -> tuple[Tensor, Tensor]:
    """‖g / count‖ over all gradients together, and what g is to be divided by before a step.

    g / count is the average; where it is too long it is shortened, g ← min(1, longest / ‖g‖) g (Pascanu et al. 2013).
    The gradients are only read: an optimizer divides them when it comes to them.
    """
    norm = total_norm(gradients) / count
    excess = ((norm + 1e-6) / max_norm).clamp(min=1) if max_norm > 0 else torch.ones_like(norm)
    return norm, (count * excess).float()  # whatever the weights are, kernels read a divisor as float32


def total_norm(gradients: list[Tensor]) -> Tensor:
    """‖g‖ over all gradients together; those in 16 bits are added up in 32."""
    high = [each for each in gradients if each.dtype != torch.bfloat16]
    low = [torch.linalg.vector_norm(each, dtype=torch.float32) for each in gradients if each.dtype == torch.bfloat16]
    norms = [nn.utils.get_total_norm(high, foreach=True)] if high else []
    return norms[0] if not low else torch.linalg.vector_norm(torch.stack([*norms, *low]))
