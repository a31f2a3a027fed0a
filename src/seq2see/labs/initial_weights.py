"""C06 and C07: can a network be trained from zeros, and does each activation function have its initialization?

C06 trains an MLP on labels that no linear model can predict: the sign of x₁ · x₂. Both arms have the same examples, the
same steps and the same learning rate; only the first weights differ. For comparison, softmax regression on linearly
separable labels starts from zeros and from Xavier's weights as well.

C07 measures the size of activations and gradients in a network of 20 layers. By the claim it stays about the
same: the last layer and the first one differ by less than a factor of 10, for each pair of the notes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.foundations.signal_by_depth import signal_by_depth
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import Effect, Equivalence, Verdict
from seq2see.layers.initialization import initialize

PAIRS = (("tanh", "Xavier"), ("sigmoid", "Xavier"), ("ReLU", "He"))


def examples(count: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Points, the sign of x₁ · x₂, and the sign of x₁ + x₂."""
    points = torch.randn(count, 2, generator=rng)
    return points, (points.prod(1) > 0).long(), (points.sum(1) > 0).long()


def accuracy_after_training(
    network: nn.Sequential, name: str, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], steps: int
) -> float:
    """The accuracy on new points after gradient descent from one initialization."""
    initialize(network, name)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(train[0]), train[1]).backward()
        optimizer.step()
    return (network(test[0]).argmax(1) == test[1]).float().mean().item()


def measure_zeros(seed: int, steps: int, width: int) -> Measurement:
    """The accuracy from Xavier's weights minus that from zeros, with and without a hidden layer."""
    rng = torch.Generator().manual_seed(derive_seed(seed, "points"))
    (points, product, total), (new, new_product, new_total) = examples(400, rng), examples(1000, rng)
    accuracies: dict[str, float] = {}
    for name in ("xavier", "zero"):
        seed_torch(seed, "weights")
        mlp, linear = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2)), nn.Sequential(nn.Linear(2, 2))
        accuracies[f"mlp {name}"] = accuracy_after_training(mlp, name, (points, product), (new, new_product), steps)
        accuracies[f"linear {name}"] = accuracy_after_training(linear, name, (points, total), (new, new_total), steps)
    values = {kind: accuracies[f"{kind} xavier"] - accuracies[f"{kind} zero"] for kind in ("mlp", "linear")}
    return Measurement(values)


def measure_depth(seed: int, depth: int, width: int) -> Measurement:
    """log₁₀ of the last over the first size, of activations; and of the first over the last size, of gradients."""
    values, lines = {}, {}
    for activation, initialization in PAIRS:
        rng = torch.Generator().manual_seed(derive_seed(seed, "signal"))
        activations, gradients = signal_by_depth(activation, initialization, depth, width, rng)
        values[f"{activation} forward"] = math.log10(activations[-1] / activations[0])
        values[f"{activation} backward"] = math.log10(gradients[0] / gradients[-1])
        lines[f"{activation} + {initialization}: activations"] = (range(1, depth + 1), activations)
        lines[f"{activation} + {initialization}: gradients"] = (range(1, depth + 1), gradients)
    return Measurement(values, lines)


def _stable(activation: str, way: str, english: str, chinese: str) -> Equivalence:
    title = (
        f"{activation}: log₁₀ of the change of {english} over all layers",
        f"{activation}：{chinese}经过所有层的变化的 log₁₀",
    )
    return Equivalence(f"{activation} {way}", title, 1.0)


LABS = {
    "C06": Experiment(
        claim="C06",
        prediction=(
            "From zeros the hidden layer has no gradient, so only the last bias learns, and accuracy stays near one "
            "half. A linear model may start from zeros.",
            "从全零开始时隐藏层没有梯度，只有最后一层的偏置在学，准确率停在一半左右。线性模型则可以从零开始。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect(
                "mlp",
                ("with a hidden layer: accuracy from Xavier minus from zeros", "有隐藏层：Xavier 与全零的准确率之差"),
                0.2,
            ),
        ),
        additional=(
            Equivalence("linear", ("without a hidden layer: the same difference", "没有隐藏层：同样的差"), 0.02),
        ),
        measure=measure_zeros,
        seeds=10,
        size={"steps": 500, "width": 16},
        tiny={"steps": 2, "width": 3},
        would_change=(
            "a model without hidden layers; or small random numbers instead of zeros",
            "没有隐藏层的模型；或者把零换成小随机数",
        ),
    ),
    "C07": Experiment(
        claim="C07",
        prediction=(
            "Tanh with Xavier and ReLU with He are stable. Sigmoid with Xavier is not: its derivative is at most "
            "1/4, so "
            "gradients shrink by at least that factor in each layer.",
            "tanh 配 Xavier、ReLU 配 He 是稳定的；sigmoid 配 Xavier 不行：它的导数最大只有 1/4，"
            "梯度每过一层至少缩小到四分之一。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=tuple(
            _stable(activation, *rest)
            for activation, _ in PAIRS
            for rest in (("forward", "activations", "激活值"), ("backward", "gradients", "梯度"))
        ),
        measure=measure_depth,
        seeds=20,
        size={"depth": 20, "width": 256},
        tiny={"depth": 3, "width": 8},
        would_change=(
            "fewer layers; norms and residual connections, which preserve the size of the signal by themselves",
            "层数更少；或者加上归一化和残差连接，它们自己就能保持信号的大小",
        ),
        axes=Axes(("layer", "层"), ("standard deviation", "标准差"), log_y=True),
    ),
}
