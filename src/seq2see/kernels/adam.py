"""Adam for weights that exist twice, as one walk: it reads their gradients in bf16, and renews their copies in bf16.

All weights lie one after another, so that a program needs to know nothing but where it stands. The plain twin is
`AdamWOptimizer` of training/optimizers.py, which takes torch's kernel; a test compares them. `triton` comes with torch's builds
for a GPU.
"""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


@triton.jit
def _adamw_kernel(
    weights, low_precision_weights, gradients, exp_avgs, exp_avg_sqs, learning_rate, grad_scale, found_inf, count, weight_decay, decayed_size, size,
    beta_1, beta_2, eps, BLOCK: tl.constexpr,
):  # fmt: skip
    """The weights up to `decayed_size` shrink; nothing happens at all if the step is broken."""
    if tl.load(found_inf) == 0:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside, lr, steps = at < size, tl.load(learning_rate), tl.load(count)
        gradient = tl.load(gradients + at, inside, 0.0).to(tl.float32) / tl.load(grad_scale)
        mean = tl.load(exp_avgs + at, inside, 0.0)
        mean += (1 - beta_1) * (gradient - mean)
        square = beta_2 * tl.load(exp_avg_sqs + at, inside, 0.0) + (1 - beta_2) * gradient * gradient
        weight = tl.load(weights + at, inside, 0.0)
        weight -= tl.where(at < decayed_size, lr * weight_decay, 0.0) * weight
        early_mean, early_square = 1 - tl.exp(steps * tl.log(beta_1)), 1 - tl.exp(steps * tl.log(beta_2))
        weight -= lr / early_mean * mean / (tl.sqrt(square / early_square) + eps)
        tl.store(exp_avgs + at, mean, inside)
        tl.store(exp_avg_sqs + at, square, inside)
        tl.store(weights + at, weight, inside)
        tl.store(low_precision_weights + at, weight.to(low_precision_weights.dtype.element_ty), inside)


def adamw_step(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    scalars: tuple[Tensor, Tensor, Tensor, Tensor],
    weight_decay: tuple[float, int],
    constants: tuple[float, float, float],
) -> None:
    """Move all weights and renew their copies.

    `tensors` are weights, copies, gradients, means and squares; `scalars` rate, divisor, whether the step is broken,
    and how many were taken; `weight_decay` how much weights shrink, and how many of them; `constants` β₁, β₂ and ε.
    """
    size = tensors[0].numel()
    _adamw_kernel[(triton.cdiv(size, BLOCK),)](
        *tensors, *scalars, *weight_decay, size, *constants, BLOCK=BLOCK, num_warps=4
    )
