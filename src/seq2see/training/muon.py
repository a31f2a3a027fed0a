"""Muon: steps of matrices whose directions all count alike (Jordan et al. 2024).

The gradient of a matrix is mostly a few large directions; a step along it hardly moves the others, though they may be
the rare ones that are still to be learnt. Muon takes the momentum M = U S Vᵀ and steps along U Vᵀ: the same directions,
each with the same weight. The decomposition itself is not needed: Newton-Schulz iterations bring all singular values
near 1 with a few products.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

ITERATIONS = 5
MOMENTUM, SHRINKING = 0.95, 0.01
"""Share of the last steps' direction that is kept; how much matrices shrink, by rate · this at every step."""
CUBIC, QUINTIC = -4.7750, 2.0315
LINEAR = 3.4445
"""p(x) = LINEAR x + CUBIC x³ + QUINTIC x⁵ drives every x in (0, 1] to about 1, most steeply at 0."""


def orthogonalise(matrices: Float[Tensor, "matrix row column"]) -> Float[Tensor, "matrix row column"]:
    """U Vᵀ of each matrix U S Vᵀ, nearly: its singular values are brought to between 0.7 and 1.2.

    On a GPU in bf16: nothing here needs to be exact.
    """
    wide = matrices if matrices.size(1) <= matrices.size(2) else matrices.mT
    found = wide.bfloat16() if wide.is_cuda else wide
    found = found / (found.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        square = found @ found.mT
        found = LINEAR * found + (CUBIC * square + QUINTIC * square @ square) @ found
    return (found if wide is matrices else found.mT).to(matrices.dtype)


class MuonSteps(torch.optim.AdamW):
    """Muon for the groups that ask for it, AdamW for the others; recorded in a CUDA graph like any other."""

    found_inf: Tensor  # 1 where a step must not be taken; fused kernels look for this name

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of all weights."""
        asked, others = ([group for group in self.param_groups if group["muon"] == wanted] for wanted in (True, False))
        for group in asked:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                by_shape[tuple(weight.shape)].append(weight)
            for weights in by_shape.values():  # equal shapes in one product
                self._move(weights, group)
        groups, self.param_groups = self.param_groups, others
        try:
            return super().step(closure)
        finally:
            self.param_groups = groups

    def _move(self, weights: Sequence[Tensor], group: dict[str, Any]) -> None:
        gradients = torch.stack([weight.grad for weight in weights if weight.grad is not None])
        go = 1 - self.found_inf if hasattr(self, "found_inf") else 1
        for weight, gradient in zip(weights, gradients, strict=True):
            memory = self.state[weight]
            if not memory:
                memory["momentum"] = torch.zeros_like(weight)
            memory["momentum"].lerp_(torch.where(gradient.isfinite(), gradient, 0), go * (1 - MOMENTUM))
        remembered = torch.stack([self.state[weight]["momentum"] for weight in weights])
        ahead = torch.lerp(gradients, remembered, MOMENTUM)  # Nesterov: where it will be after this step
        rows, columns = weights[0].shape
        # AdamW changes a number by about the rate; this is scaled to change it by as much (Liu et al. 2025).
        size = 0.2 * max(rows, columns) ** 0.5
        steps = orthogonalise(torch.where(ahead.isfinite(), ahead, 0)) * size
        for weight, step in zip(weights, steps, strict=True):
            rate = go * group["lr"]
            weight.sub_(rate * (step + group["weight_decay"] * weight))
