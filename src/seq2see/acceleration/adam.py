"""AdamW for float32 weights with bf16 copies in one kernel: it reads bf16 gradients and updates the bf16 copies.

All weights are in one buffer, so that a program needs only its own offset. The definition is `AdamWOptimizer` of
training/optimizers.py, which uses torch's kernel; a test compares them. The CUDA builds of torch include `triton`.
"""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


@triton.jit
def _adamw_kernel(
    weights, bf16_weights, gradients, exp_avgs, exp_avg_sqs,
    learning_rate, grad_scale, found_inf, step_count, weight_decay, decayed_size, size,
    beta_1, beta_2, eps, BLOCK: tl.constexpr,
):  # fmt: skip
    """Weight decay applies to the weights up to `decayed_size`; nothing changes if `found_inf` is set."""
    if tl.load(found_inf) == 0:
        index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside, lr, steps = index < size, tl.load(learning_rate), tl.load(step_count)
        gradient = tl.load(gradients + index, inside, 0.0).to(tl.float32) / tl.load(grad_scale)
        exp_avg = tl.load(exp_avgs + index, inside, 0.0)
        exp_avg += (1 - beta_1) * (gradient - exp_avg)
        exp_avg_sq = beta_2 * tl.load(exp_avg_sqs + index, inside, 0.0) + (1 - beta_2) * gradient * gradient
        weight = tl.load(weights + index, inside, 0.0)
        weight -= tl.where(index < decayed_size, lr * weight_decay, 0.0) * weight
        bias_correction_1, bias_correction_2 = 1 - tl.exp(steps * tl.log(beta_1)), 1 - tl.exp(steps * tl.log(beta_2))
        weight -= lr / bias_correction_1 * exp_avg / (tl.sqrt(exp_avg_sq / bias_correction_2) + eps)
        tl.store(exp_avgs + index, exp_avg, inside)
        tl.store(exp_avg_sqs + index, exp_avg_sq, inside)
        tl.store(weights + index, weight, inside)
        tl.store(bf16_weights + index, weight.to(bf16_weights.dtype.element_ty), inside)


def adamw_step(
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    scalars: tuple[Tensor, Tensor, Tensor, Tensor],
    weight_decay: tuple[float, int],
    constants: tuple[float, float, float],
) -> None:
    """One AdamW step: update all weights and their bf16 copies.

    `tensors` are weights, copies, gradients, and the running averages of gradients and of their squares. `scalars` are
    learning rate, gradient scale, `found_inf` and the number of steps. `weight_decay` is the factor, and the number of
    weights that it applies to. `constants` are β₁, β₂ and ε.
    """
    size = tensors[0].numel()
    _adamw_kernel[(triton.cdiv(size, BLOCK),)](
        *tensors, *scalars, *weight_decay, size, *constants, BLOCK=BLOCK, num_warps=4
    )
