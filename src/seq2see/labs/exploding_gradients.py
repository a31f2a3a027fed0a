"""C08: are exploding gradients common in models of sequences, and does clipping keep training stable?

A vanilla RNN with tanh learns the next character of a text, by SGD with a learning rate of 1 and, in one arm, clipping
at a norm of 1: the values of the notes' textbook (d2l, section 9.5). The other arm differs in the clipping alone. A run
is unstable if its loss rises above twice the loss at the start, or is not a number. Four learning rates around the
textbook's show where clipping matters.
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

LEARNING_RATES = (0.25, 1.0, 4.0, 16.0)
TEXTBOOK_RATE, THRESHOLD = 1.0, 1.0
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


def train(seed: int, learning_rate: float, threshold: float, steps: int, width: int) -> tuple[bool, float]:
    """Whether the run was unstable, and the largest norm of a gradient relative to the first one."""
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
        if not math.isfinite(losses[-1]) or losses[-1] > 2 * losses[0]:
            return True, max(norms) / norms[0]
        with torch.no_grad():
            for weight, gradient in zip(model.parameters(), clip_gradient(gradients, threshold), strict=True):
                weight -= learning_rate * gradient
    return False, max(norms) / norms[0]


def measure(seed: int, steps: int, width: int) -> Measurement:
    """Which runs are unstable, with and without clipping, for one seed."""
    clipped, free = (
        [train(seed, rate, threshold, steps, width) for rate in LEARNING_RATES] for threshold in (THRESHOLD, math.inf)
    )
    textbook = LEARNING_RATES.index(TEXTBOOK_RATE)
    unstable = [[float(each[0]) for each in runs] for runs in (clipped, free)]
    values = {
        "explodes": float(free[textbook][1] > 10 or free[textbook][0]),
        "gain": (sum(unstable[1]) - sum(unstable[0])) / len(LEARNING_RATES),
        "clipped": unstable[0][textbook],
    }
    lines = {"with clipping": (LEARNING_RATES, unstable[0]), "without clipping": (LEARNING_RATES, unstable[1])}
    return Measurement(values, lines)


LABS = {
    "C08": Experiment(
        claim="C08",
        prediction=(
            "At the textbook's learning rate most runs without clipping have a gradient above ten times the first one. "
            "Clipping prevents most unstable runs.",
            "按教材的学习率，不裁剪时多数运行会出现超过开头十倍的梯度；裁剪能避免大部分不稳定。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Share(
                "explodes",
                (
                    "share of runs with a gradient above 10 × the first one, rate 1",
                    "学习率 1：出现超过开头 10 倍的梯度的比例",
                ),
                0.5,
            ),
            Effect(
                "gain",
                ("unstable runs without clipping minus with it, as a share", "不稳定运行的比例：不裁剪减裁剪"),
                0.1,
            ),
        ),
        additional=(
            Share("clipped", ("share of unstable runs with clipping, rate 1", "学习率 1、裁剪：不稳定的比例"), 0.1),
        ),
        measure=measure,
        seeds=10,
        size={"steps": 80, "width": 64},
        tiny={"steps": 2, "width": 4},
        would_change=(
            "gated cells, Adam, shorter sequences: all of them make exploding gradients rarer",
            "门控单元、Adam、更短的序列：都会让梯度爆炸变少",
        ),
        axes=Axes(("learning rate", "学习率"), ("share of unstable runs", "不稳定运行的比例"), log_x=True),
    )
}
