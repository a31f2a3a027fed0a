"""The optimizers: the update of each weight, given its gradient.

The docstrings have the formulas, for one weight; torch's fused kernels compute them for all weights in one pass. The
classes of `torch.optim` call the same kernels, but import torch's compiler first, which takes longer than many of our
trainings. No value on the device decides the control flow, so a CUDA graph can capture a step: everything that changes
from step to step (learning rate, grad scale, whether to skip the step) is a tensor, and the optimizer's state is
allocated at construction and updated in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.devices import scalar_on

# Vaswani et al. 2017, section 5.3: a shorter average of squared gradients than with Adam's usual 0.999.
BETAS, EPSILON = (0.9, 0.98), 1e-9

Scalar = Float[Tensor, ""]


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters by name that share a weight decay and a factor of the learning rate."""

    parameters: Mapping[str, nn.Parameter]
    weight_decay: float = 0.0
    lr_scale: float = 1.0

    def with_gradients(self) -> dict[str, nn.Parameter]:
        """The parameters with a gradient; a weight that this step did not use stays as it is."""
        return {name: weight for name, weight in self.parameters.items() if weight.grad is not None}


class Optimizer:
    """The base class: parameter groups, a learning rate, and a state for every weight."""

    kind: str
    """The name in checkpoints: that of the class in `torch.optim` if there is one."""

    def __init__(self, groups: Sequence[ParameterGroup], learning_rate: Scalar):
        self.groups, self.learning_rate = groups, learning_rate
        self.weights = {name: weight for group in groups for name, weight in group.parameters.items()}
        self.state: dict[str, dict[str, Tensor]] = {}  # name of the state, then name of the weight

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """Update all weights. Gradients are divided by `grad_scale` first.

        If `found_inf` is 1, neither weights nor state change; the kernels read it on the device, without a GPU sync.
        """
        for group in self.groups:
            weights = group.with_gradients()
            if weights:
                self._update(weights, group, grad_scale, found_inf)

    def _update(
        self, weights: Mapping[str, nn.Parameter], group: ParameterGroup, grad_scale: Scalar, found_inf: Scalar
    ) -> None:
        raise NotImplementedError

    def _learning_rate(self, group: ParameterGroup) -> Scalar:
        return self.learning_rate if group.lr_scale == 1 else self.learning_rate * group.lr_scale

    def _state_of(self, kind: str, weights: Iterable[str]) -> list[Tensor]:
        states = self.state[kind]
        return [states[name] for name in weights]

    def zero_grad(self) -> None:
        """Set the gradients of all weights to None."""
        for weight in self.weights.values():
            weight.grad = None


class SGDOptimizer(Optimizer):
    """v ← momentum · v + (g + weight_decay · w), then w ← w - lr · v; without momentum v is not stored.

    Polyak 1964, as in Sutskever et al. 2013 (equations 1 and 2), but the learning rate is outside of v, so that a new
    learning rate has its full effect at once.
    """

    kind = "SGD"

    def __init__(self, groups: Sequence[ParameterGroup], learning_rate: Scalar, momentum: float):
        super().__init__(groups, learning_rate)
        self.momentum = momentum
        self.state = {"momentum_buffer": zeros(self.weights)} if momentum else {}

    def _update(
        self, weights: Mapping[str, nn.Parameter], group: ParameterGroup, grad_scale: Scalar, found_inf: Scalar
    ) -> None:
        torch._fused_sgd_(
            list(weights.values()),
            gradients_of(weights),
            self._state_of("momentum_buffer", weights) if self.momentum else [],
            weight_decay=group.weight_decay,
            momentum=self.momentum,
            lr=self._learning_rate(group),
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # v is initialized to 0, so the first step needs no special case
            grad_scale=grad_scale,
            found_inf=found_inf,
        )


class AdamOptimizer(Optimizer):
    """Steps of about the learning rate's size, independent of the gradient's scale (Kingma & Ba 2015, algorithm 1).

    t ← t + 1,  m ← β₁ m + (1 - β₁) g,  s ← β₂ s + (1 - β₂) g²
    w ← w - lr · (m / (1 - β₁ᵗ)) / (√(s / (1 - β₂ᵗ)) + ε)

    m and s start at 0, and the divisions by 1 - βᵗ correct this bias. With weight decay, g includes weight_decay · w.
    """

    kind = "Adam"
    kernel = staticmethod(torch._fused_adam_)

    def __init__(self, groups: Sequence[ParameterGroup], learning_rate: Scalar):
        super().__init__(groups, learning_rate)
        counts = {name: torch.zeros((), device=weight.device) for name, weight in self.weights.items()}
        self.state = {"exp_avg": zeros(self.weights), "exp_avg_sq": zeros(self.weights), "step": counts}

    def _update(
        self, weights: Mapping[str, nn.Parameter], group: ParameterGroup, grad_scale: Scalar, found_inf: Scalar
    ) -> None:
        means, squares, counts = (self._state_of(kind, weights) for kind in ("exp_avg", "exp_avg_sq", "step"))
        torch._foreach_add_(counts, [1 - found_inf] * len(counts))  # a list: a single tensor would need a GPU sync
        self.kernel(
            list(weights.values()),
            gradients_of(weights),
            means,
            squares,
            [],
            counts,
            amsgrad=False,
            lr=self._learning_rate(group),
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=group.weight_decay,
            eps=EPSILON,
            maximize=False,
            grad_scale=grad_scale,
            found_inf=found_inf,
        )


class AdamWOptimizer(AdamOptimizer):
    """Adam with decoupled weight decay: w ← w - lr · weight_decay · w, then Adam's own step.

    As a part of g the decay would be divided by √s, and weights with large gradients would hardly shrink (Loshchilov &
    Hutter 2019, algorithm 2).
    """

    kind = "AdamW"
    kernel = staticmethod(torch._fused_adamw_)


def learning_rate_tensor(weights: Mapping[str, nn.Parameter], learning_rate: float) -> Scalar:
    """The learning rate as a tensor on the weights' device: kernels, and so CUDA graphs, read it at every step."""
    return scalar_on(next(iter(weights.values())).device, learning_rate)


def zeros(weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """A tensor of zeros for every weight."""
    return {name: torch.zeros_like(weight, requires_grad=False) for name, weight in weights.items()}


def gradients_of(weights: Mapping[str, nn.Parameter]) -> list[Tensor]:
    """The gradients of those weights that have one."""
    return [weight.grad for weight in weights.values() if weight.grad is not None]
