"""Adam for weights that exist twice, as one walk: it reads their gradients in bf16, and renews their copies in bf16.

All weights lie one after another, so that a program needs to know nothing but where it stands. The plain twin is
`AdamWSteps` of training/steps.py, which takes torch's kernel; a test compares them. `triton` comes with torch's builds
for a GPU.
"""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


@triton.jit
def _move(
    weights, copies, gradients, means, squares, rate, divisor, broken, count, shrinking, shrunk, size,
    beta_1, beta_2, epsilon, BLOCK: tl.constexpr,
):  # fmt: skip
    """The weights up to `shrunk` shrink; nothing happens at all if the step is broken."""
    if tl.load(broken) == 0:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside, pace, steps = at < size, tl.load(rate), tl.load(count)
        gradient = tl.load(gradients + at, inside, 0.0).to(tl.float32) / tl.load(divisor)
        mean = tl.load(means + at, inside, 0.0)
        mean += (1 - beta_1) * (gradient - mean)
        square = beta_2 * tl.load(squares + at, inside, 0.0) + (1 - beta_2) * gradient * gradient
        weight = tl.load(weights + at, inside, 0.0)
        weight -= tl.where(at < shrunk, pace * shrinking, 0.0) * weight
        early_mean, early_square = 1 - tl.exp(steps * tl.log(beta_1)), 1 - tl.exp(steps * tl.log(beta_2))
        weight -= pace / early_mean * mean / (tl.sqrt(square / early_square) + epsilon)
        tl.store(means + at, mean, inside)
        tl.store(squares + at, square, inside)
        tl.store(weights + at, weight, inside)
        tl.store(copies + at, weight.to(copies.dtype.element_ty), inside)


def move(
    numbers: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    scalars: tuple[Tensor, Tensor, Tensor, Tensor],
    shrinking: tuple[float, int],
    constants: tuple[float, float, float],
) -> None:
    """Move all weights and renew their copies.

    `numbers` are weights, copies, gradients, means and squares; `scalars` rate, divisor, whether the step is broken,
    and how many were taken; `shrinking` how much weights shrink, and how many of them; `constants` β₁, β₂ and ε.
    """
    size = numbers[0].numel()
    _move[(triton.cdiv(size, BLOCK),)](*numbers, *scalars, *shrinking, size, *constants, BLOCK=BLOCK, num_warps=4)
