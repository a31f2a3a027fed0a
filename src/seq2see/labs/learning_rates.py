"""C03 and C04: how do the best learning rates of two runs compare?

The model is softmax regression on labels that a random linear model samples. Each learning rate of a geometric grid is
tried; the best one has the lowest loss on all examples at the end.

C03 changes the batch size alone. All runs use the same number of examples, so a larger batch has fewer steps: that is
the setting of the linear scaling rule (Goyal et al. 2017). The exponent is the slope of log₂ learning rate over log₂
batch size; by the claim it is 1. C04 changes the reduction alone, mean or sum, with the same batches and steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from seq2see.core.seeds import derive_seed
from seq2see.foundations.softmax_regression import cross_entropy_and_gradient, random_classification
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import Effect, Equivalence, Verdict

CLASSES = 5
BATCHES = (4, 16, 64, 256)
Update = Callable[[Tensor, int], Tensor]
"""From the gradient and the number of the step to the direction of the step."""


def sgd() -> Update:
    """The gradient itself."""
    return lambda gradient, step: gradient


def adam() -> Update:
    """Adam without weight decay (Kingma & Ba 2015)."""
    first = second = torch.zeros(())

    def direction(gradient: Tensor, step: int) -> Tensor:
        nonlocal first, second
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.square()
        return first / (1 - 0.9**step) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)

    return direction


def final_loss(seed: int, update: Update, learning_rate: float, batch: int, steps: int, scale: float = 1.0) -> float:
    """The loss on all examples after training; `scale` multiplies the gradient, as a summed loss does."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "learning rates"))
    inputs, labels = random_classification(2048, 10, CLASSES, rng)
    weights = torch.zeros(10, CLASSES, dtype=torch.float64)
    for step in range(1, steps + 1):
        rows = torch.randint(len(labels), (batch,), generator=rng)
        _, gradient = cross_entropy_and_gradient(inputs[rows], labels[rows], weights)
        weights = weights - learning_rate * update(scale * gradient, step)
    loss = float(cross_entropy_and_gradient(inputs, labels, weights)[0])
    return loss if math.isfinite(loss) else math.inf


def best_log_rate(losses: list[float], log_rates: list[float]) -> float:
    """The learning rate of the lowest loss, between the points of the grid by a parabola through three of them."""
    best = int(np.argmin(losses))
    if best in (0, len(losses) - 1) or not np.isfinite(losses[best - 1 : best + 2]).all():
        return log_rates[best]
    left, middle, right = losses[best - 1 : best + 2]
    curvature = left - 2 * middle + right
    shift = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return log_rates[best] + shift * (log_rates[1] - log_rates[0])


def measure_batches(seed: int, examples: int) -> Measurement:
    """The exponent of the best learning rate over the batch size, for SGD and Adam."""
    values, lines = {}, {}
    for name, update, first in (("SGD", sgd, -5.0), ("Adam", adam, -9.0)):
        log_rates = [first + index for index in range(11)]
        best = []
        for batch in BATCHES:
            steps = max(1, examples // batch)
            best.append(
                best_log_rate([final_loss(seed, update(), 2**rate, batch, steps) for rate in log_rates], log_rates)
            )
        values[name] = float(np.polyfit(np.log2(BATCHES), best, 1)[0])
        lines[name] = (BATCHES, [2**rate for rate in best])
    return Measurement({"SGD": values["SGD"] - 1, "Adam": values["Adam"] - 1}, lines)


def measure_reductions(seed: int, batch: int, steps: int) -> Measurement:
    """log₂ of the best learning rate of the mean over that of the sum, for SGD and Adam."""
    values = {}
    for name, update, first in (("SGD", sgd, -10.0), ("Adam", adam, -11.0)):
        log_rates = [first + index for index in range(16)]
        best = [
            best_log_rate([final_loss(seed, update(), 2**rate, batch, steps, scale) for rate in log_rates], log_rates)
            for scale in (1.0, float(batch))
        ]
        values[name] = best[0] - best[1]
    return Measurement(values)


LABS = {
    "C03": Experiment(
        claim="C03",
        prediction=(
            "The exponent of SGD is below 1: the rule holds for small batches and bends for large ones. That of Adam "
            "is nearer to 1/2.",
            "SGD 的指数小于 1：批次小时线性规则近似成立，批次大时偏离。Adam 的指数更接近 1/2。",
        ),
        expected=Verdict.UNDECIDED,
        decisive=(
            Equivalence("SGD", ("SGD: exponent of the best learning rate, minus 1", "SGD：最佳学习率的指数减 1"), 0.25),
        ),
        additional=(Equivalence("Adam", ("Adam: the same", "Adam：同上"), 0.25),),
        measure=measure_batches,
        seeds=8,
        size={"examples": 4096},
        tiny={"examples": 512},
        would_change=(
            "batches far below the critical batch size (McCandlish et al. 2018); equal steps instead of equal examples",
            "批次远小于临界批大小；或者固定步数而不是固定样本数",
        ),
        axes=Axes(("batch size", "批次大小"), ("best learning rate", "最佳学习率"), log_x=True, log_y=True),
    ),
    "C04": Experiment(
        claim="C04",
        prediction=(
            "For SGD the ratio is the batch size, 2⁶, because the gradient of a sum is 64 times that of a mean. Adam "
            "divides by the size of the gradient, so its best learning rate does not change.",
            "对 SGD，比值就是批次大小 2⁶：求和的梯度是均值的 64 倍。Adam 会除以梯度的大小，所以最佳学习率不变。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect(
                "SGD", ("SGD: log₂ of the best rate of mean over sum", "SGD：均值与求和的最佳学习率之比的 log₂"), 1.0
            ),
        ),
        additional=(Equivalence("Adam", ("Adam: the same", "Adam：同上"), 0.5),),
        measure=measure_reductions,
        seeds=10,
        size={"batch": 64, "steps": 60},
        tiny={"batch": 4, "steps": 3},
        would_change=(
            "an optimizer that divides by the size of the gradient, as Adam does",
            "换成 Adam 这类除以梯度大小的优化器",
        ),
    ),
}
