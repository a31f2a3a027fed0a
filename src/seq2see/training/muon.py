"""Muon: steps of matrices whose directions all count alike (Jordan et al. 2024).

The gradient of a matrix is mostly a few large directions; a step along it hardly moves the others, though they may be
the rare ones that are still to be learned. Muon takes the momentum M = U S Vᵀ and steps along U Vᵀ: the same directions,
each with the same weight. The decomposition itself is not needed: Newton-Schulz iterations bring all singular values
near 1 with a few products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seq2see.training.bf16_weights import Bf16Weights
from seq2see.training.optimizers import AdamWOptimizer, ParameterGroup, Scalar, gradients_of, zeros

ITERATIONS = 5
MOMENTUM = 0.95
"""Share of the last steps' direction that is kept."""
CUBIC, QUINTIC = -4.7750, 2.0315
LINEAR = 3.4445
"""p(x) = LINEAR x + CUBIC x³ + QUINTIC x⁵ drives every x in (0, 1] to about 1, most steeply at 0."""


def orthogonalize(matrices: Float[Tensor, "matrix row column"]) -> Float[Tensor, "matrix row column"]:
    """U Vᵀ of each matrix U S Vᵀ, nearly: its singular values are brought to between 0.7 and 1.2.

    For matrices p reads X ← LINEAR X + (CUBIC S + QUINTIC S S) X with S = X Xᵀ. `baddbmm` is a product that scales and
    adds by itself what stands before it: three products are an iteration. On a GPU in bf16: nothing needs to be exact.
    """
    wide = matrices if matrices.size(1) <= matrices.size(2) else matrices.mT
    found = wide.bfloat16() if wide.is_cuda else wide
    found = found / (found.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        square = found @ found.mT
        higher = torch.baddbmm(square, square, square, beta=CUBIC, alpha=QUINTIC)
        found = torch.baddbmm(found, higher, found, beta=LINEAR)
    return (found if wide is matrices else found.mT).to(matrices.dtype)


class MuonOptimizer(AdamWOptimizer):
    """Muon for matrices of blocks, AdamW for the other groups.

    M ← μ M + (1 - μ) g,  w ← w - rate · (0.2 √max(rows, columns) · orthogonalize((1 - μ) g + μ M) + shrinking · w)
    """

    kind = "Muon"

    def __init__(self, blocks: ParameterGroup, groups: Sequence[ParameterGroup], learning_rate: Scalar):
        super().__init__(groups, learning_rate)
        self.blocks = blocks
        self.state["momentum"] = zeros(blocks.parameters)
        self.weights |= blocks.parameters

    def attach(self, bf16_weights: Bf16Weights) -> None:
        """A matrix is turned as a whole, so each has a gradient of its own."""

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """One step of all weights."""
        super().step(grad_scale, found_inf)
        with_gradients = self.blocks.with_gradients()
        by_shape: dict[tuple[int, ...], dict[str, nn.Parameter]] = defaultdict(dict)
        for name, weight in with_gradients.items():
            by_shape[tuple(weight.shape)][name] = weight
        go = 1 - found_inf
        share, learning_rate = (
            go * (1 - MOMENTUM),
            go * self.learning_rate,
        )  # where both are 0 everything stays as it is
        if with_gradients:
            torch._foreach_mul_([*with_gradients.values()], 1 - learning_rate * self.blocks.weight_decay)
        for weights in by_shape.values():  # equal shapes in one product
            self._orthogonalized_update(weights, grad_scale, share, learning_rate)

    def _orthogonalized_update(
        self, weights: Mapping[str, nn.Parameter], grad_scale: Scalar, share: Scalar, learning_rate: Scalar
    ) -> None:
        """One step of matrices of one shape; `share` is how much of the gradient is remembered."""
        # What is no number would stay none even when multiplied by 0. Such a step is broken, so 0 serves as well.
        gradients = (torch.stack(gradients_of(weights)) / grad_scale).nan_to_num_(0, 0, 0)
        state = self._state_of("momentum", weights)
        remembered = torch.stack(state).lerp_(gradients, share)
        torch._foreach_copy_(state, remembered.unbind())
        ahead = gradients.lerp_(remembered, MOMENTUM)  # Nesterov: where it will be after this step
        turned = orthogonalize(ahead.flatten(2)).view_as(ahead)  # of a convolution, all that one output is made of
        # AdamW changes a number by about the rate; this is scaled to change it by as much (Liu et al. 2025).
        steps = turned * (learning_rate * (0.2 * max(ahead.flatten(2).shape[1:]) ** 0.5))
        torch._foreach_sub_([*weights.values()], list(steps.unbind()))
