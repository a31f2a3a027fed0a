"""Adam for weights with bf16 copies: all of them in one kernel (`adam.py`), which also refreshes the copies.

The definition is `AdamOptimizer` of training/optimizers.py; tests compare them (tests/acceleration/test_adam.py).
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.acceleration.bf16_weights import Bf16Weights
from seq2see.acceleration.support import TRITON
from seq2see.training.optimizers import BETAS, EPSILON, AdamOptimizer, AdamWOptimizer, Optimizer, Scalar


class FlatAdamOptimizer(AdamOptimizer):
    """`AdamOptimizer` that reads the flat gradient of the bf16 copies directly."""

    bf16_weights: Bf16Weights
    flat_moments: tuple[Tensor, Tensor]

    @torch.no_grad()
    def step(self, grad_scale: Scalar, found_inf: Scalar) -> None:
        """Update weights that have a gradient of their own, then the flat ones in one kernel."""
        super().step(grad_scale, found_inf)
        if self.bf16_weights.gradient is None:
            self.bf16_weights.refresh()
        else:
            self._update_flat(self.bf16_weights.gradient, grad_scale, found_inf)

    def _update_flat(self, gradient: Tensor, grad_scale: Scalar, found_inf: Scalar) -> None:
        from seq2see.acceleration.adam import adamw_step

        counts = self._state_of("step", self.bf16_weights.weights)
        torch._foreach_add_(counts, [1 - found_inf] * len(counts))
        weight_decay = max(group.weight_decay for group in self.groups)
        tensors = (self.bf16_weights.master, self.bf16_weights.flat_bf16, gradient, *self.flat_moments)
        adamw_step(
            tensors,
            (self.learning_rate, grad_scale, found_inf, counts[0]),
            (weight_decay, self.bf16_weights.matrix_numel),
            (*BETAS, EPSILON),
        )

    def zero_grad(self) -> None:
        """Set the gradients of all weights to None."""
        super().zero_grad()
        self.bf16_weights.gradient = None


class FlatAdamWOptimizer(FlatAdamOptimizer, AdamWOptimizer):
    """`AdamWOptimizer` that reads the flat gradient of the bf16 copies directly."""


FLAT: dict[type[Optimizer], type[FlatAdamOptimizer]] = {
    AdamOptimizer: FlatAdamOptimizer,
    AdamWOptimizer: FlatAdamWOptimizer,
}
"""The fast class of each optimizer that has one. Muon has none: it orthogonalizes a matrix as a whole."""


def attach(optimizer: Optimizer, bf16_weights: Bf16Weights) -> None:
    """Keep the moments of the bf16 weights in flat tensors; this requires one learning rate for all groups."""
    fast = FLAT.get(type(optimizer))
    if fast is None or not TRITON or any(group.lr_scale != 1 for group in optimizer.groups):
        return
    optimizer.__class__ = fast
    assert isinstance(optimizer, FlatAdamOptimizer)
    optimizer.bf16_weights, bf16_weights.fused = bf16_weights, True
    optimizer.flat_moments = torch.zeros_like(bf16_weights.master), torch.zeros_like(bf16_weights.master)
    optimizer.state["exp_avg"] |= bf16_weights.unflatten(optimizer.flat_moments[0])
    optimizer.state["exp_avg_sq"] |= bf16_weights.unflatten(optimizer.flat_moments[1])
