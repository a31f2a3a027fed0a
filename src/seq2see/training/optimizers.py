"""The optimizers themselves: how far each weight moves, given its gradient.

What they compute stands in their docstrings, one line for each weight; the kernels of torch that they call do the same
for all weights in one pass. The classes of `torch.optim` call these kernels too, but import torch's compiler first,
which takes longer than many a training of ours. Nothing here depends on a number that is only known on the device, so a
CUDA graph can record a step: what changes from step to step (rate, divisor, whether to step at all) is a tensor, and
what is remembered is there from the beginning and stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.core.devices import TRITON
from seq2see.training.bf16_weights import Bf16Weights

# Vaswani et al. 2017, section 5.3: a shorter memory of squared gradients than Adam's usual 0.999.
BETAS, EPSILON = (0.9, 0.98), 1e-9

Scalar = Float[Tensor, ""]


@dataclass(frozen=True)
class ParameterGroup:
    """Weights by their names, which shrink alike and move at the same pace: as a share of the rate."""

    parameters: Mapping[str, nn.Parameter]
    weight_decay: float = 0.0
    lr_scale: float = 1.0

    def with_gradients(self) -> dict[str, nn.Parameter]:
        """Those that have a gradient; a weight that this step did not use is left alone."""
        return {name: weight for name, weight in self.parameters.items() if weight.grad is not None}


class Optimizer:
    """What all optimizers share: groups of weights, a rate, and a memory of every weight."""

    kind: str
    """The name under which checkpoints store it; that of its class in `torch.optim` where there is one."""

    def __init__(self, groups: Sequence[ParameterGroup], learning_rate: Scalar):
        self.groups, self.learning_rate = groups, learning_rate
        self.weights = {name: weight for group in groups for name, weight in group.parameters.items()}
        self.state: dict[str, dict[str, Tensor]] = {}  # what it is, then of which weight

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """Move all weights along their gradients, each of which is divided by `grad_scale` first.

        Nothing moves, and nothing is remembered, if `found_inf` is 1. That is decided on the device: nobody waits for it.
        """
        for group in self.groups:
            weights = group.with_gradients()
            if weights:
                self._update(weights, group, grad_scale, found_inf)

    def _update(
        self, weights: Mapping[str, nn.Parameter], group: ParameterGroup, grad_scale: Scalar, found_inf: Scalar
    ) -> None:
        raise NotImplementedError

    def attach(self, bf16_weights: Bf16Weights) -> None:
        """Take the gradients of weights that exist twice as they are, if that is possible."""

    def _learning_rate(self, group: ParameterGroup) -> Scalar:
        return self.learning_rate if group.lr_scale == 1 else self.learning_rate * group.lr_scale

    def _state_of(self, what: str, weights: Iterable[str]) -> list[Tensor]:
        remembered = self.state[what]
        return [remembered[name] for name in weights]

    def zero_grad(self) -> None:
        """Forget the gradients of all weights."""
        for weight in self.weights.values():
            weight.grad = None


class SGDOptimizer(Optimizer):
    """v ← momentum · v + (g + shrinking · w), then w ← w - rate · v; without momentum v is not kept.

    Polyak 1964, as in Sutskever et al. 2013 (equations 1 and 2) but with the rate outside of v, so that a change of the
    rate shows at once.
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
            is_first_step=False,  # v begins as 0, so the first step is like any other
            grad_scale=grad_scale,
            found_inf=found_inf,
        )


class AdamOptimizer(Optimizer):
    """Steps of about the rate's own size, whatever the size of a weight's gradients (Kingma & Ba 2015, algorithm 1).

    t ← t + 1,  m ← β₁ m + (1 - β₁) g,  s ← β₂ s + (1 - β₂) g²
    w ← w - rate · (m / (1 - β₁ᵗ)) / (√(s / (1 - β₂ᵗ)) + ε)

    m and s begin as 0, and the divisions by 1 - βᵗ make up for it. If weights shrink, g has shrinking · w in it.
    """

    kind = "Adam"
    kernel = staticmethod(torch._fused_adam_)

    def __init__(self, groups: Sequence[ParameterGroup], learning_rate: Scalar):
        super().__init__(groups, learning_rate)
        counts = {name: torch.zeros((), device=weight.device) for name, weight in self.weights.items()}
        self.state = {"exp_avg": zeros(self.weights), "exp_avg_sq": zeros(self.weights), "step": counts}
        self.bf16_weights: Bf16Weights | None = None

    def attach(self, bf16_weights: Bf16Weights) -> None:
        """What is remembered of them lies one after another as they do; all have to move at one pace."""
        if not TRITON or any(group.lr_scale != 1 for group in self.groups):
            return
        self.bf16_weights, bf16_weights.fused = bf16_weights, True
        self.fused = torch.zeros_like(bf16_weights.master), torch.zeros_like(bf16_weights.master)
        self.state["exp_avg"] |= bf16_weights.unflatten(self.fused[0])
        self.state["exp_avg_sq"] |= bf16_weights.unflatten(self.fused[1])

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """Those with a gradient of their own, then all others at once."""
        super().step(grad_scale, found_inf)
        if self.bf16_weights is None:
            return
        if self.bf16_weights.gradient is None:
            self.bf16_weights.refresh()
        else:
            self._update_flat(self.bf16_weights, self.bf16_weights.gradient, grad_scale, found_inf)

    def _update_flat(self, bf16_weights: Bf16Weights, gradient: Tensor, grad_scale: Scalar, found_inf: Scalar) -> None:
        from seq2see.kernels.adam import adamw_step

        counts = self._state_of("step", bf16_weights.weights)
        torch._foreach_add_(counts, [1 - found_inf] * len(counts))
        weight_decay = max(group.weight_decay for group in self.groups)
        numbers = (bf16_weights.master, bf16_weights.flat_bf16, gradient, *self.fused)
        adamw_step(
            numbers,
            (self.learning_rate, grad_scale, found_inf, counts[0]),
            (weight_decay, bf16_weights.matrix_numel),
            (*BETAS, EPSILON),
        )

    def zero_grad(self) -> None:
        """Forget the gradients of all weights."""
        super().zero_grad()
        if self.bf16_weights is not None:
            self.bf16_weights.gradient = None

    def _update(
        self, weights: Mapping[str, nn.Parameter], group: ParameterGroup, grad_scale: Scalar, found_inf: Scalar
    ) -> None:
        means, squares, counts = (self._state_of(what, weights) for what in ("exp_avg", "exp_avg_sq", "step"))
        torch._foreach_add_(
            counts, [1 - found_inf] * len(counts)
        )  # one for each: a GPU would be asked for a single one
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
    """Adam whose weights shrink apart from their gradients: w ← w - rate · shrinking · w, then Adam's own step.

    As a part of g it would be divided by √s, and weights with large gradients would hardly shrink (Loshchilov & Hutter
    2019, algorithm 2).
    """

    kind = "AdamW"
    kernel = staticmethod(torch._fused_adamw_)


def learning_rate_tensor(weights: Mapping[str, nn.Parameter], learning_rate: float) -> Scalar:
    """The rate where the weights are: a kernel, and so a CUDA graph, reads it there anew at every step."""
    device = next(iter(weights.values())).device
    # Kernels of a GPU read float32; on a CPU a rate is as exact as Python's.
    return torch.tensor(learning_rate, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)


def zeros(weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """A 0 for every number of every weight."""
    return {name: torch.zeros_like(weight, requires_grad=False) for name, weight in weights.items()}


def gradients_of(weights: Mapping[str, nn.Parameter]) -> list[Tensor]:
    """The gradients of weights, those that have one."""
    return [weight.grad for weight in weights.values() if weight.grad is not None]
