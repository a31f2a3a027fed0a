"""The settings of the four optimizers, and gradient clipping."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

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
    """Stochastic gradient descent, with optional momentum."""

    # Learning rates of SGD are far larger than those of AdamW, so a weight decay chosen for one is wrong for the other.
    not_carried: ClassVar[frozenset[str]] = frozenset({"weight_decay"})

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum: the share of the previous update in the next one."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay (L2 penalty): the loss has half of this times the squares of weight matrices as a further term."""

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these parameters."""
        return SGDOptimizer(
            _weight_decay_groups(parameters, self.weight_decay),
            learning_rate_tensor(parameters, learning_rate),
            self.momentum,
        )


class Adam(Settings):
    """Adam: steps scaled by the running mean of squared gradients (Kingma & Ba 2015)."""

    kind: Literal["adam"] = "adam"

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these parameters."""
        return AdamOptimizer([ParameterGroup(parameters)], learning_rate_tensor(parameters, learning_rate))


class AdamW(Settings):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay: weight matrices shrink by learning rate · weight decay at every step; biases and norms do not."""
    layer_decay: float = Field(1.0, gt=0, le=1)
    """Layer-wise learning rate decay, for pretrained weights: the rate of each block over that of the one above."""

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these parameters."""
        layers = _layers(parameters) if self.layer_decay < 1 else [parameters]
        groups = [
            replace(group, lr_scale=self.layer_decay**layers_above)
            for layers_above, layer in enumerate(layers)
            for group in _weight_decay_groups(layer, self.weight_decay)
        ]
        return AdamWOptimizer(groups, learning_rate_tensor(parameters, learning_rate))


class Muon(Settings):
    """Muon: orthogonalized momentum for the matrices of blocks (Jordan et al. 2024); AdamW for all other weights.

    Embeddings and heads have a row for each token, and the row of a token outside the batch has no gradient direction.
    """

    kind: Literal["muon"] = "muon"
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay: weight matrices shrink by learning rate · weight decay at every step; biases and norms do not."""

    def build(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> Optimizer:
        """The optimizer for these parameters."""
        blocks = {name: weight for name, weight in parameters.items() if ".blocks." in name and weight.dim() >= 2}
        others = {name: weight for name, weight in parameters.items() if name not in blocks}
        groups = _weight_decay_groups(others, self.weight_decay)
        return MuonOptimizer(
            ParameterGroup(blocks, self.weight_decay), groups, learning_rate_tensor(parameters, learning_rate)
        )


OptimizerSettings = SGD | Adam | AdamW | Muon


def _layers(parameters: Mapping[str, nn.Parameter]) -> list[dict[str, nn.Parameter]]:
    """The parameters by their distance from the output: the head first, then block by block, the embeddings last.

    Pretrained layers are the more general the nearer they are to the input, so these get a lower learning rate
    (Howard & Ruder 2018, section 3.2; Bao et al. 2022, section 3.1, for ViT).
    """
    block_numbers = {name: int(match[1]) for name in parameters if (match := re.search(r"\bblocks\.(\d+)\.", name))}
    top = max(block_numbers.values(), default=-1) + 1
    input_layer = re.compile(r"(source|target)\.|\w+\.input_projection\.")
    distance = {
        name: top - block_numbers[name] if name in block_numbers else (top + 1) * bool(input_layer.match(name))
        for name in parameters
    }
    return [{name: parameters[name] for name in parameters if distance[name] == above} for above in range(top + 2)]


def _weight_decay_groups(parameters: Mapping[str, nn.Parameter], weight_decay: float) -> list[ParameterGroup]:
    """One group of matrices, with weight decay, and one of all other parameters (biases, norms), without."""
    matrices = {name: weight for name, weight in parameters.items() if weight.dim() >= 2}
    others = {name: weight for name, weight in parameters.items() if weight.dim() < 2}
    return [ParameterGroup(matrices, weight_decay), ParameterGroup(others)]


def grad_norm_and_scale(total_norm: Tensor, count: Tensor, max_norm: float) -> tuple[Tensor, Tensor]:
    """‖g / count‖ over all gradients together, and the number that an optimizer divides g by.

    g / count is the mean gradient. Clipping by norm: g ← min(1, max_norm / ‖g‖) g (Pascanu et al. 2013). The gradients
    are only read here; the optimizer divides them in its own kernel.
    """
    norm = total_norm / count
    excess = ((norm + 1e-6) / max_norm).clamp(min=1) if max_norm > 0 else torch.ones_like(norm)
    return norm, (count * excess).float()  # kernels read `grad_scale` as float32 whatever the dtype of the weights
