"""C01 and C02: is linear regression alone in having a closed form, and does minibatch SGD reach it?

C01 needs one counterexample. Ridge regression and kernel ridge regression are solved by one linear system; if the
gradient of their objectives vanishes there, they have a closed form, too. The gradient comes from torch, not from the
derivation of the formula.

C02 draws regressions with 40 examples for each weight and runs SGD with batches of 10, as the notes' textbook does. The
distance ‖w − w*‖ / ‖w*‖ is to the closed form of the same examples.
"""

from __future__ import annotations

import math
from itertools import islice

import torch
from torch import Tensor

from seq2see.core.seeds import derive_seed
from seq2see.foundations.least_squares import closed_form, kernel_ridge, minibatch_sgd, random_regression, ridge
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtLeast, Effect, Verdict

PENALTY, NOISE, BATCH, LEARNING_RATE = 0.3, 0.01, 10, 0.03


def generator(seed: int, purpose: str) -> torch.Generator:
    """torch's generator for one purpose."""
    return torch.Generator().manual_seed(derive_seed(seed, purpose))


def relative_gradient(objective: object, point: Tensor) -> float:
    """The norm of the gradient at a point, relative to the norm at zero."""
    norms = []
    for weights in (point, torch.zeros_like(point)):
        weights = weights.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(weights), weights)  # type: ignore[operator]
        norms.append(gradient.norm().item())
    return norms[0] / norms[1]


def measure_other_models(seed: int, examples: int, width: int) -> Measurement:
    """The relative gradient of two other models at their closed forms."""
    data = random_regression(examples, width, 10.0, NOISE, generator(seed, "closed form"))
    inputs, targets = data.examples, data.targets
    distances = torch.cdist(inputs, inputs).square()
    kernel = (-distances / 2).exp()
    objectives = {
        "ridge": lambda w: (targets - inputs @ w).square().sum() + PENALTY * w.square().sum(),
        "kernel": lambda a: (targets - kernel @ a).square().sum() + PENALTY * a @ kernel @ a,
    }
    points = {"ridge": ridge(inputs, targets, PENALTY), "kernel": kernel_ridge(kernel, targets, PENALTY)}
    return Measurement({name: relative_gradient(objectives[name], points[name]) for name in points})


def measure_sgd(seed: int, width: int, steps: int) -> Measurement:
    """The distance of SGD from the closed form for well and for badly conditioned regressions."""
    values, lines = {}, {}
    for condition in (10, 10_000):
        data = random_regression(40 * width, width, condition, NOISE, generator(seed, "regression"))
        best = closed_form(data.examples, data.targets)
        run = minibatch_sgd(data, LEARNING_RATE, BATCH, generator(seed, "batches"))
        distances = [((weights - best).norm() / best.norm()).item() for weights in islice(run, steps)]
        values[f"closeness {condition}"] = -math.log10(distances[-1])
        shown = sorted({min(steps - 1, round(1.35**index)) for index in range(40)})
        lines[f"κ = {condition:,}"] = ([step + 1 for step in shown], [distances[step] for step in shown])
    return Measurement(values, lines)


LABS = {
    "C01": Experiment(
        claim="C01",
        prediction=(
            "Both gradients vanish up to rounding: ridge and kernel ridge regression have a closed form, so linear "
            "regression is not the only model that has one.",
            "两个梯度都为零（舍入误差之内）：岭回归和核岭回归也有显式解，所以线性回归并非唯一。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtLeast("ridge", ("ridge: gradient at the closed form", "岭回归：显式解处的梯度"), 1e-8),
            AtLeast("kernel", ("kernel ridge: gradient at the closed form", "核岭回归：显式解处的梯度"), 1e-8),
        ),
        measure=measure_other_models,
        seeds=20,
        size={"examples": 60, "width": 8},
        tiny={"examples": 12, "width": 2},
        would_change=(
            "only another meaning of “model”: neural networks with hidden layers have no closed form",
            "除非只谈带隐藏层的神经网络：它们确实没有显式解",
        ),
    ),
    "C02": Experiment(
        claim="C02",
        prediction=(
            "At condition number 10 SGD comes within 1 % of the closed form; at 10,000 it does not in the same steps.",
            "条件数为 10 时，SGD 与显式解的距离小于 1 %；条件数为一万时，同样的步数做不到。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect("closeness 10", ("κ = 10: −log₁₀ of the relative distance", "κ = 10：相对距离的 −log₁₀"), 2.0),
        ),
        additional=(
            Effect(
                "closeness 10000", ("κ = 10,000: −log₁₀ of the relative distance", "κ = 10,000：相对距离的 −log₁₀"), 2.0
            ),
        ),
        measure=measure_sgd,
        seeds=20,
        size={"width": 8, "steps": 3000},
        tiny={"width": 2, "steps": 20},
        would_change=(
            "a large condition number: then the same steps are too few; a large learning rate: then noise remains",
            "条件数很大时，同样的步数不够；学习率很大时，会停在噪声水平",
        ),
        axes=Axes(("step", "步"), ("relative distance to the closed form", "到显式解的相对距离"), True, True),
    ),
}
