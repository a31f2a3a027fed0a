"""C08: are exploding gradients common in models of sequences, and does clipping keep training stable?

A vanilla RNN with tanh learns the next character of a text, by SGD and, in one arm, clipping at a norm of 1: the
textbook of the notes has a learning rate of 1 and this clipping (d2l, section 9.5). The other arm differs in the
clipping alone. A run is stable if its mean loss over the last 20 steps is not above the loss at the start.

A first version measured the share of unstable runs at the rates 1/4, 1, 4 and 16, and found no difference: at 1 both
arms were stable, at 4 neither. Now the largest stable rate of each arm is measured between 1 and 8.
"""

from __future__ import annotations

import math
import pydoc_data.topics

import torch
from torch import Tensor, nn

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.foundations.gradient_clipping import clip_gradient
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import Effect, Share, Verdict

LEARNING_RATES = tuple(2 ** (index / 2) for index in range(7))
THRESHOLD, LAST_STEPS = 1.0, 20
CHARACTERS = "abcdefghijklmnopqrstuvwxyz "


class CharacterRNN(nn.Module):
    """A vanilla RNN on one-hot characters, and a linear layer for the next character."""

    def __init__(self, width: int):
        super().__init__()
        self.rnn = nn.RNN(len(CHARACTERS), width, batch_first=True)
        self.head = nn.Linear(width, len(CHARACTERS))

    def loss(self, ids: Tensor) -> Tensor:
        """The mean cross-entropy of the next characters."""
        hidden, _ = self.rnn(nn.functional.one_hot(ids[:, :-1], len(CHARACTERS)).float())
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), ids[:, 1:].flatten())


def english_ids() -> Tensor:
    """Python's language reference, lower-cased, letters and spaces only: an English text that is always installed."""
    topics = sorted(pydoc_data.topics.topics.items())
    text = " ".join(" ".join(text.split()) for _, text in topics[:20]).lower()
    return torch.tensor([CHARACTERS.index(each) for each in text if each in CHARACTERS])


def train(seed: int, learning_rate: float, threshold: float, steps: int, width: int) -> tuple[float, float]:
    """The final loss relative to the first one, and the largest norm of a gradient relative to the first one."""
    seed_torch(seed, "weights")
    model, text = CharacterRNN(width), english_ids()
    rng = torch.Generator().manual_seed(derive_seed(seed, "batches"))
    losses, norms = [], []
    for _ in range(steps):
        starts = torch.randint(len(text) - 36, (16,), generator=rng)
        loss = model.loss(text[starts[:, None] + torch.arange(36)])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        losses.append(loss.item())
        norms.append(torch.cat([each.flatten() for each in gradients]).norm().item())
        if not math.isfinite(losses[-1] + norms[-1]):
            return math.inf, math.inf
        with torch.no_grad():
            for weight, gradient in zip(model.parameters(), clip_gradient(gradients, threshold), strict=True):
                weight.sub_(learning_rate * gradient)
    last = losses[-LAST_STEPS:]
    return sum(last) / len(last) / losses[0], max(norms) / norms[0]


def largest_stable(ratios: list[float]) -> float:
    """log₂ of the largest learning rate up to which all runs are stable; −1/2 if the first one is not."""
    stable = [ratio <= 1 for ratio in ratios]
    count = stable.index(False) if False in stable else len(stable)
    return (count - 1) / 2


def measure(seed: int, steps: int, width: int) -> Measurement:
    """The largest stable rates with and without clipping, and whether gradients explode at the textbook's rate."""
    runs = {
        name: [train(seed, rate, threshold, steps, width) for rate in LEARNING_RATES]
        for name, threshold in (("with clipping", THRESHOLD), ("without clipping", math.inf))
    }
    ratios = {name: [min(each[0], 1e6) for each in arm] for name, arm in runs.items()}
    clipped, free = (largest_stable(each) for each in ratios.values())
    values = {"explodes": float(runs["without clipping"][0][1] > 10), "range": clipped - free}
    values["size"] = math.log10(min(ratios["without clipping"][-1], 1e6) / ratios["with clipping"][-1])
    return Measurement(values, {name: (LEARNING_RATES, each) for name, each in ratios.items()})


LABS = {
    "C08": Experiment(
        claim="C08",
        prediction=(
            "At the textbook's learning rate few runs of this small model have a gradient above ten times the first "
            "one, "
            "so exploding gradients are not common here. Clipping allows a larger learning rate.",
            "按教材的学习率，这个小模型很少出现超过开头十倍的梯度，所以在这里梯度爆炸并不常见；裁剪允许更大的学习率。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Share(
                "explodes",
                (
                    "learning rate 1: share of runs with a gradient above 10 × the first one",
                    "学习率 1：出现超过开头 10 倍的梯度的运行比例",
                ),
                0.5,
            ),
            Effect(
                "range",
                (
                    "log₂ of the largest stable rate, with clipping over without",
                    "最大稳定学习率之比的 log₂（裁剪比不裁剪）",
                ),
                0.5,
            ),
        ),
        additional=(
            Effect(
                "size",
                (
                    "learning rate 8: log₁₀ of the final losses, without over with clipping",
                    "学习率 8：最终损失之比的 log₁₀（不裁剪比裁剪）",
                ),
                0.3,
            ),
        ),
        measure=measure,
        seeds=10,
        size={"steps": 200, "width": 64},
        tiny={"steps": 2, "width": 4},
        would_change=(
            "larger weights at the start, more units (the textbook has 512) and longer training make explosions more "
            "common",
            "开始时权重更大、单元更多（教材用 512 个）、训练更久，爆炸会更常见",
        ),
        axes=Axes(
            ("learning rate", "学习率"),
            ("final loss over first loss", "最终损失与开头损失之比"),
            log_x=True,
            log_y=True,
        ),
    )
}
