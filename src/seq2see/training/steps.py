"""The optimisers themselves: how far each weight moves, given its gradient.

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
from seq2see.training.doubles import Doubles

# Vaswani et al. 2017, section 5.3: a shorter memory of squared gradients than Adam's usual 0.999.
BETAS, EPSILON = (0.9, 0.98), 1e-9

Scalar = Float[Tensor, ""]


@dataclass(frozen=True)
class Group:
    """Weights by their names, which shrink alike and move at the same pace: as a share of the rate."""

    named: Mapping[str, nn.Parameter]
    shrinking: float = 0.0
    pace: float = 1.0

    def moving(self) -> dict[str, nn.Parameter]:
        """Those that have a gradient; a weight that this step did not use is left alone."""
        return {name: weight for name, weight in self.named.items() if weight.grad is not None}


class Steps:
    """What all optimisers share: groups of weights, a rate, and a memory of every weight."""

    kind: str
    """The name under which checkpoints store it; that of its class in `torch.optim` where there is one."""

    def __init__(self, groups: Sequence[Group], rate: Scalar):
        self.groups, self.rate = groups, rate
        self.weights = {name: weight for group in groups for name, weight in group.named.items()}
        self.memory: dict[str, dict[str, Tensor]] = {}  # what it is, then of which weight

    @torch.no_grad()
    def step(self, divisor: Scalar, broken: Scalar) -> None:
        """Move all weights along their gradients, each of which is divided by `divisor` first.

        Nothing moves, and nothing is remembered, if `broken` is 1. That is decided on the device: nobody waits for it.
        """
        for group in self.groups:
            weights = group.moving()
            if weights:
                self._move(weights, group, divisor, broken)

    def _move(self, weights: Mapping[str, nn.Parameter], group: Group, divisor: Scalar, broken: Scalar) -> None:
        raise NotImplementedError

    def join(self, doubles: Doubles) -> None:
        """Take the gradients of weights that exist twice as they are, if that is possible."""

    def _rate(self, group: Group) -> Scalar:
        return self.rate if group.pace == 1 else self.rate * group.pace

    def _memory(self, what: str, weights: Iterable[str]) -> list[Tensor]:
        remembered = self.memory[what]
        return [remembered[name] for name in weights]

    def drop_gradients(self) -> None:
        """Forget the gradients of all weights."""
        for weight in self.weights.values():
            weight.grad = None


class SGDSteps(Steps):
    """v ← momentum · v + (g + shrinking · w), then w ← w - rate · v; without momentum v is not kept.

    Polyak 1964, as in Sutskever et al. 2013 (equations 1 and 2) but with the rate outside of v, so that a change of the
    rate shows at once.
    """

    kind = "SGD"

    def __init__(self, groups: Sequence[Group], rate: Scalar, momentum: float):
        super().__init__(groups, rate)
        self.momentum = momentum
        self.memory = {"momentum_buffer": zeros(self.weights)} if momentum else {}

    def _move(self, weights: Mapping[str, nn.Parameter], group: Group, divisor: Scalar, broken: Scalar) -> None:
        torch._fused_sgd_(
            list(weights.values()),
            gradients_of(weights),
            self._memory("momentum_buffer", weights) if self.momentum else [],
            weight_decay=group.shrinking,
            momentum=self.momentum,
            lr=self._rate(group),
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # v begins as 0, so the first step is like any other
            grad_scale=divisor,
            found_inf=broken,
        )


class AdamSteps(Steps):
    """Steps of about the rate's own size, whatever the size of a weight's gradients (Kingma & Ba 2015, algorithm 1).

    t ← t + 1,  m ← β₁ m + (1 - β₁) g,  s ← β₂ s + (1 - β₂) g²
    w ← w - rate · (m / (1 - β₁ᵗ)) / (√(s / (1 - β₂ᵗ)) + ε)

    m and s begin as 0, and the divisions by 1 - βᵗ make up for it. If weights shrink, g has shrinking · w in it.
    """

    kind = "Adam"
    kernel = staticmethod(torch._fused_adam_)

    def __init__(self, groups: Sequence[Group], rate: Scalar):
        super().__init__(groups, rate)
        counts = {name: torch.zeros((), device=weight.device) for name, weight in self.weights.items()}
        self.memory = {"exp_avg": zeros(self.weights), "exp_avg_sq": zeros(self.weights), "step": counts}
        self.doubles: Doubles | None = None

    def join(self, doubles: Doubles) -> None:
        """What is remembered of them lies one after another as they do; all have to move at one pace."""
        if not TRITON or any(group.pace != 1 for group in self.groups):
            return
        self.doubles, doubles.joined = doubles, True
        self.joined = torch.zeros_like(doubles.whole), torch.zeros_like(doubles.whole)
        self.memory["exp_avg"] |= doubles.views(self.joined[0])
        self.memory["exp_avg_sq"] |= doubles.views(self.joined[1])

    @torch.no_grad()
    def step(self, divisor: Scalar, broken: Scalar) -> None:
        """Those with a gradient of their own, then all others at once."""
        super().step(divisor, broken)
        if self.doubles is None:
            return
        if self.doubles.gradient is None:
            self.doubles.renew()
        else:
            self._move_joined(self.doubles, self.doubles.gradient, divisor, broken)

    def _move_joined(self, doubles: Doubles, gradient: Tensor, divisor: Scalar, broken: Scalar) -> None:
        from seq2see.kernels.adam import move

        counts = self._memory("step", doubles.weights)
        torch._foreach_add_(counts, [1 - broken] * len(counts))
        shrinking = max(group.shrinking for group in self.groups)
        numbers = (doubles.whole, doubles.low, gradient, *self.joined)
        move(numbers, (self.rate, divisor, broken, counts[0]), (shrinking, doubles.matrices), (*BETAS, EPSILON))

    def drop_gradients(self) -> None:
        """Forget the gradients of all weights."""
        super().drop_gradients()
        if self.doubles is not None:
            self.doubles.gradient = None

    def _move(self, weights: Mapping[str, nn.Parameter], group: Group, divisor: Scalar, broken: Scalar) -> None:
        means, squares, counts = (self._memory(what, weights) for what in ("exp_avg", "exp_avg_sq", "step"))
        torch._foreach_add_(counts, [1 - broken] * len(counts))  # one for each: a GPU would be asked for a single one
        self.kernel(
            list(weights.values()),
            gradients_of(weights),
            means,
            squares,
            [],
            counts,
            amsgrad=False,
            lr=self._rate(group),
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=group.shrinking,
            eps=EPSILON,
            maximize=False,
            grad_scale=divisor,
            found_inf=broken,
        )


class AdamWSteps(AdamSteps):
    """Adam whose weights shrink apart from their gradients: w ← w - rate · shrinking · w, then Adam's own step.

    As a part of g it would be divided by √s, and weights with large gradients would hardly shrink (Loshchilov & Hutter
    2019, algorithm 2).
    """

    kind = "AdamW"
    kernel = staticmethod(torch._fused_adamw_)


def rate_beside(weights: Mapping[str, nn.Parameter], rate: float) -> Scalar:
    """The rate where the weights are: a kernel, and so a CUDA graph, reads it there anew at every step."""
    device = next(iter(weights.values())).device
    # Kernels of a GPU read float32; on a CPU a rate is as exact as Python's.
    return torch.tensor(rate, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)


def zeros(weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """A 0 for every number of every weight."""
    return {name: torch.zeros_like(weight, requires_grad=False) for name, weight in weights.items()}


def gradients_of(weights: Mapping[str, nn.Parameter]) -> list[Tensor]:
    """The gradients of weights, those that have one."""
    return [weight.grad for weight in weights.values() if weight.grad is not None]
