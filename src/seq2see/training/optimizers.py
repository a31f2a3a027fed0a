"""The optimizers: the update of each weight, given its gradient; gradient clipping; and averages of the weights.

The docstrings have the formulas, for one weight; torch's fused kernels compute them for all weights in one pass. The
classes of `torch.optim` call the same kernels, but import torch's compiler first, which takes longer than many of our
trainings. No value on the device decides the control flow, so a CUDA graph can capture a step: everything that changes
from step to step (learning rate, grad scale, whether to skip the step) is a tensor, and the optimizer's state is
allocated at construction and updated in place.

Averages of the weights over the last part of training are often better than the weights of the last step.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from seq2see.core.devices import scalar_on
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


MUON_ITERATIONS = 5
MUON_MOMENTUM = 0.95
"""Decay of the momentum: the share of the previous momentum in the next one."""
CUBIC, QUINTIC = -4.7750, 2.0315
LINEAR = 3.4445
"""p(x) = LINEAR x + CUBIC x³ + QUINTIC x⁵ drives every x in (0, 1] to about 1, most steeply at 0."""


def orthogonalize(
    matrices: Float[Tensor, "matrix row column"], dtype: torch.dtype | None = None
) -> Float[Tensor, "matrix row column"]:
    """U Vᵀ of each matrix U S Vᵀ, approximately: its singular values become numbers between 0.7 and 1.2.

    No decomposition is needed: Newton-Schulz iterations bring all singular values near 1 with a few matmuls.

    For matrices p reads X ← LINEAR X + (CUBIC S + QUINTIC S S) X with S = X Xᵀ. `baddbmm` computes a matmul, a scaling
    and an addition in one kernel, so an iteration is three matmuls. They may have a `dtype` of less precision, because
    the result need not be exact.
    """
    wide = matrices if matrices.size(1) <= matrices.size(2) else matrices.mT
    x = wide.to(dtype or wide.dtype)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(MUON_ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=CUBIC, alpha=QUINTIC)
        x = torch.baddbmm(x, polynomial, x, beta=LINEAR)
    return (x if wide is matrices else x.mT).to(matrices.dtype)


class MuonOptimizer(AdamWOptimizer):
    """Muon for the matrices of blocks (Jordan et al. 2024), AdamW for the other parameter groups.

    The gradient of a matrix is dominated by a few large singular values; a step along it hardly moves the other
    directions, though these may be the rare ones that are still to be learned. Muon takes the momentum M = U S Vᵀ and
    steps along U Vᵀ: the same directions, all with singular value 1.

    M ← μ M + (1 - μ) g,  w ← w - lr · (0.2 √max(rows, columns) · orthogonalize((1 - μ) g + μ M) + weight_decay · w)
    """

    kind = "Muon"

    def __init__(self, blocks: ParameterGroup, groups: Sequence[ParameterGroup], learning_rate: Scalar):
        super().__init__(groups, learning_rate)
        self.blocks = blocks
        self.state["momentum"] = zeros(blocks.parameters)
        self.weights |= blocks.parameters
        self.dtype: torch.dtype | None = None  # that of the matmuls, if it is not that of the weights

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """One step of all weights."""
        super().step(grad_scale, found_inf)
        with_gradients = self.blocks.with_gradients()
        by_shape: dict[tuple[int, ...], dict[str, nn.Parameter]] = defaultdict(dict)
        for name, weight in with_gradients.items():
            by_shape[tuple(weight.shape)][name] = weight
        not_skipped = 1 - found_inf
        # A skipped step has a share and a learning rate of 0, so it changes nothing.
        share, learning_rate = not_skipped * (1 - MUON_MOMENTUM), not_skipped * self.learning_rate
        if with_gradients:
            torch._foreach_mul_([*with_gradients.values()], 1 - learning_rate * self.blocks.weight_decay)
        for weights in by_shape.values():  # matrices of one shape are one batched matmul
            self._orthogonalized_update(weights, grad_scale, share, learning_rate)

    def _orthogonalized_update(
        self, weights: Mapping[str, nn.Parameter], grad_scale: Scalar, share: Scalar, learning_rate: Scalar
    ) -> None:
        """Update the matrices of one shape; `share` is the weight of the gradient in the new momentum."""
        # NaN times 0 is NaN. A step with such gradients is skipped, so 0 serves as well.
        gradients = (torch.stack(gradients_of(weights)) / grad_scale).nan_to_num_(0, 0, 0)
        state = self._state_of("momentum", weights)
        momentum = torch.stack(state).lerp_(gradients, share)
        torch._foreach_copy_(state, momentum.unbind())
        nesterov = gradients.lerp_(momentum, MUON_MOMENTUM)  # Nesterov momentum
        update = orthogonalize(nesterov.flatten(2), self.dtype).view_as(
            nesterov
        )  # a convolution has one row per output channel
        # An element changes by about the learning rate in AdamW; this factor gives the same here (Liu et al. 2025).
        steps = update * (learning_rate * (0.2 * max(nesterov.flatten(2).shape[1:]) ** 0.5))
        torch._foreach_sub_([*weights.values()], list(steps.unbind()))


def learning_rate_tensor(weights: Mapping[str, nn.Parameter], learning_rate: float) -> Scalar:
    """The learning rate as a tensor on the weights' device: kernels, and so CUDA graphs, read it at every step."""
    return scalar_on(next(iter(weights.values())).device, learning_rate)


def zeros(weights: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """A tensor of zeros for every weight."""
    return {name: torch.zeros_like(weight, requires_grad=False) for name, weight in weights.items()}


def gradients_of(weights: Mapping[str, nn.Parameter]) -> list[Tensor]:
    """The gradients of those weights that have one."""
    return [weight.grad for weight in weights.values() if weight.grad is not None]


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


NON_MONOTONE_INTERVAL = 5
"""The number of recent evaluations that NT-ASGD leaves out of its comparison (n in the paper)."""


class NoAverage(Settings):
    """No averaging: the model has the weights of the last step."""

    kind: Literal["none"] = "none"


class ExponentialMovingAverage(Settings):
    """An exponential moving average (EMA) of the weights, updated after every step (Polyak & Juditsky 1992)."""

    kind: Literal["ema"] = "ema"
    decay: float = Field(0.999, gt=0, lt=1)
    """Decay of the moving average per step; in the first steps it is smaller, (1 + step) / (10 + step)."""

    def lerp_weight(self, step: int, start: int) -> float:
        """The weight of `lerp`: average ← average + lerp_weight · (weights - average) after this step."""
        return 1 - decay_at(step, self.decay)


class CheckpointAverage(Settings):
    """The arithmetic mean of the last few checkpoints (Vaswani et al. 2017, section 6.1)."""

    kind: Literal["checkpoints"] = "checkpoints"
    count: int = Field(10, ge=2)
    """The number of checkpoints."""


class NTASGD(Settings):
    """The arithmetic mean of the weights after every step, once validation stops improving (NT-ASGD).

    Averaged SGD (Polyak & Juditsky 1992) needs a first step: with an early one the mean contains bad weights, with a
    late one it contains few weights. Merity et al. 2018, algorithm 1: averaging starts when the loss is worse than the
    best of the evaluations before the last five. Until then the average equals the weights.
    """

    kind: Literal["asgd"] = "asgd"

    def is_triggered(self, losses: Sequence[float]) -> bool:
        """Whether averaging starts after the last of these validation losses."""
        *earlier, last = losses
        return len(earlier) > NON_MONOTONE_INTERVAL and last > min(earlier[:-NON_MONOTONE_INTERVAL])

    def lerp_weight(self, step: int, start: int) -> float:
        """1 / count, where count is the number of weights in the mean, this step included; 1 before step `start`.

        average + (weights - average) / count is the mean of count weights if average is the mean of the previous ones.
        `start` is 0 as long as averaging has not been triggered.
        """
        return 1 / (step - start + 1) if 0 < start < step else 1.0


Averaging = NoAverage | ExponentialMovingAverage | CheckpointAverage | NTASGD


def decay_at(step: int, decay: float) -> float:
    """The decay of the moving average at this step: smaller at the start, when the average still contains few steps."""
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def update_average(average: Iterable[Tensor], weights: Iterable[nn.Parameter], lerp_weight: Float[Tensor, ""]) -> None:
    """average ← average + lerp_weight · (weights - average), in place. `lerp_weight` is a tensor for CUDA graphs."""
    average = list(average)
    differences = torch._foreach_sub([weight.detach() for weight in weights], average)
    torch._foreach_mul_(differences, lerp_weight)
    torch._foreach_add_(average, differences)


def average_weights(models: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64 in the order of `models`."""
    return {
        name: (sum(model[name].double() for model in models) / len(models)).to(first.dtype)  # type: ignore[union-attr]
        for name, first in models[0].items()
    }
