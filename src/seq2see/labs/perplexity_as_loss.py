"""C12 and C13: what is the perplexity of a uniform prediction, and does perplexity serve as a loss?

C12 compares exp(cross-entropy) of a uniform prediction with the size of the vocabulary and with the number of tokens in
the corpus, for random corpora.

C13: softmax regression is trained on the cross-entropy and on its exponential. Each loss has its own best learning rate
of a grid, so that only the loss differs. The claim, that perplexity may be the loss, predicts about equal results.
"""

from __future__ import annotations

import math

import torch

from seq2see.core.seeds import derive_seed, generator
from seq2see.foundations.softmax_regression import (
    Loss,
    cross_entropy_and_gradient,
    perplexity_and_gradient,
    random_classification,
)
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import AtMost, Equivalence, Verdict

CLASSES, WIDTH = 30, 20
LOG_RATES = range(-12, 7)


def measure_uniform(seed: int, max_tokens: int) -> Measurement:
    """The relative distance of the perplexity of a uniform prediction from two counts."""
    rng = generator(seed, "corpus")
    tokens = rng.integers(0, int(rng.integers(2, 50)), int(rng.integers(100, max_tokens)))
    vocabulary = len(set(tokens.tolist()))
    perplexity = math.exp(-sum(math.log(1 / vocabulary) for _ in tokens) / len(tokens))
    values = {"tokens": abs(perplexity / len(tokens) - 1), "vocabulary": abs(perplexity / vocabulary - 1)}
    best = math.exp(-sum(math.log(1.0) for _ in tokens) / len(tokens))
    return Measurement(values | {"best": abs(best - 1)})


def cross_entropy_after(seed: int, loss: Loss, learning_rate: float, steps: int) -> list[float]:
    """The cross-entropy at every step of training on one of the two losses, with batches of 32."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "perplexity"))
    inputs, labels = random_classification(1000, WIDTH, CLASSES, rng)
    weights = 0.5 * torch.randn(WIDTH, CLASSES, dtype=torch.float64, generator=rng)  # the first predictions are bad
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(labels), (32,), generator=rng)
        weights = weights - learning_rate * loss(inputs[rows], labels[rows], weights)[1]
        losses.append(float(cross_entropy_and_gradient(inputs, labels, weights)[0]))
    return [each if math.isfinite(each) else math.inf for each in losses]


def measure_training(seed: int, steps: int) -> Measurement:
    """The final cross-entropy of each loss at its best learning rate."""
    runs = {
        name: min((cross_entropy_after(seed, loss, 2**rate, steps) for rate in LOG_RATES), key=lambda run: run[-1])
        for name, loss in (("cross-entropy", cross_entropy_and_gradient), ("perplexity", perplexity_and_gradient))
    }
    difference = runs["perplexity"][-1] - runs["cross-entropy"][-1]
    return Measurement({"difference": difference}, {name: (range(1, steps + 1), run) for name, run in runs.items()})


LABS = {
    "C12": Experiment(
        claim="C12",
        prediction=(
            "It is the size of the vocabulary, the number of different tokens, and not the number of tokens.",
            "它等于词表大小（不同词元的个数），而不是语料中词元的总数。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            AtMost(
                "tokens", ("relative distance from the number of tokens in the corpus", "与语料词元总数的相对差"), 1e-9
            ),
            AtMost("best", ("distance of a perfect prediction from 1", "完美预测与 1 的差"), 1e-9),
        ),
        additional=(
            AtMost("vocabulary", ("relative distance from the size of the vocabulary", "与词表大小的相对差"), 1e-9),
        ),
        measure=measure_uniform,
        seeds=100,
        size={"max_tokens": 1000},
        tiny={"max_tokens": 110},
        would_change=("reading “all tokens” as “all different tokens”", "若把“所有的词元”理解成“所有不同的词元”"),
    ),
    "C13": Experiment(
        claim="C13",
        prediction=(
            "Perplexity has the same minimum, but its gradient is that of the cross-entropy times the perplexity. "
            "With a "
            "learning rate of its own the result is slightly worse: steps are too large at first or too small later.",
            "困惑度的最小点相同，但梯度多了困惑度这个因子。即使学习率单独调过，结果也略差：要么开头步子太大，要么后面太小。",
        ),
        expected=Verdict.UNDECIDED,
        decisive=(
            Equivalence(
                "difference",
                (
                    "cross-entropy after training on perplexity minus on cross-entropy",
                    "交叉熵之差：用困惑度训练减用交叉熵训练",
                ),
                0.02,
            ),
        ),
        measure=measure_training,
        seeds=10,
        size={"steps": 150},
        tiny={"steps": 2},
        would_change=(
            "a worse start makes the difference larger; Adam divides by the size of the gradient and makes it smaller",
            "起点越差，差别越大；Adam 会除以梯度的大小，差别会变小",
        ),
        axes=Axes(("step", "步"), ("cross-entropy of all examples", "全部样例的交叉熵")),
    ),
}
