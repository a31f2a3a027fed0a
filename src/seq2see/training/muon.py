"""Muon: updates of matrices with equal weight for all directions (Jordan et al. 2024).

The gradient of a matrix is dominated by a few large singular values; a step along it hardly moves the other directions,
though these may be the rare ones that are still to be learned. Muon takes the momentum M = U S Vᵀ and steps along U Vᵀ:
the same directions, all with singular value 1. No decomposition is needed: Newton-Schulz iterations bring all singular
values near 1 with a few matmuls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.training.optimizers import AdamWOptimizer, ParameterGroup, Scalar, gradients_of, zeros

ITERATIONS = 5
MOMENTUM = 0.95
"""Decay of the momentum: the share of the previous momentum in the next one."""
CUBIC, QUINTIC = -4.7750, 2.0315
LINEAR = 3.4445
"""p(x) = LINEAR x + CUBIC x³ + QUINTIC x⁵ drives every x in (0, 1] to about 1, most steeply at 0."""


def orthogonalize(
    matrices: Float[Tensor, "matrix row column"], dtype: torch.dtype | None = None
) -> Float[Tensor, "matrix row column"]:
    """U Vᵀ of each matrix U S Vᵀ, approximately: its singular values become numbers between 0.7 and 1.2.

    For matrices p reads X ← LINEAR X + (CUBIC S + QUINTIC S S) X with S = X Xᵀ. `baddbmm` computes a matmul, a scaling
    and an addition in one kernel, so an iteration is three matmuls. They may have a `dtype` of less precision, because
    the result need not be exact.
    """
    wide = matrices if matrices.size(1) <= matrices.size(2) else matrices.mT
    x = wide.to(dtype or wide.dtype)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=CUBIC, alpha=QUINTIC)
        x = torch.baddbmm(x, polynomial, x, beta=LINEAR)
    return (x if wide is matrices else x.mT).to(matrices.dtype)


class MuonOptimizer(AdamWOptimizer):
    """Muon for the matrices of blocks, AdamW for the other parameter groups.

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
        share, learning_rate = not_skipped * (1 - MOMENTUM), not_skipped * self.learning_rate
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
        nesterov = gradients.lerp_(momentum, MOMENTUM)  # Nesterov momentum
        update = orthogonalize(nesterov.flatten(2), self.dtype).view_as(
            nesterov
        )  # a convolution has one row per output channel
        # An element changes by about the learning rate in AdamW; this factor gives the same here (Liu et al. 2025).
        steps = update * (learning_rate * (0.2 * max(nesterov.flatten(2).shape[1:]) ** 0.5))
        torch._foreach_sub_([*weights.values()], list(steps.unbind()))
