"""C70: does attention need more data than an RNN?

A GPT and a GRU of equal width and depth are trained on few and on many sentences, with the same steps and learning
rate. The measure is an interaction: how much larger the lead of the GRU is with few sentences than with many. Each
loss is the best one during training, so that overfitting on few sentences is stopped early.
"""

from __future__ import annotations

from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.small_language_models import gpt, losses_by_step, recurrent
from seq2see.labs.verdicts import Effect, Verdict


def measure(seed: int, steps: int, width: int, few: int, many: int) -> Measurement:
    """The lead of the GRU with few sentences, with many, and the difference of both."""
    models = {"GPT": lambda: gpt(width, 2), "GRU": lambda: recurrent(width, 2, "gru")}
    sizes = (few, many)
    losses = {
        name: [min(losses_by_step(build, seed, steps, size)[1]) for size in sizes] for name, build in models.items()
    }
    leads = [attention - recurrence for attention, recurrence in zip(losses["GPT"], losses["GRU"], strict=True)]
    values = {"interaction": leads[0] - leads[-1], "few": leads[0], "many": leads[-1]}
    return Measurement(values, {name: (sizes, each) for name, each in losses.items()})


LABS = {
    "C70": Experiment(
        claim="C70",
        prediction=(
            "The lead of the GRU is larger with few sentences, but sentences of pocket are so short that the "
            "difference "
            "is small.",
            "句子少时 GRU 领先更多；但 pocket 的句子很短，差别不大。",
        ),
        expected=Verdict.UNDECIDED,
        decisive=(
            Effect(
                "interaction",
                ("lead of the GRU with few sentences minus with many (loss)", "GRU 的领先：数据少减数据多（损失）"),
                0.05,
            ),
        ),
        additional=(
            Effect("few", ("few sentences: loss of GPT minus GRU", "数据少：GPT 减 GRU 的损失"), 0.05),
            Effect("many", ("many sentences: loss of GPT minus GRU", "数据多：GPT 减 GRU 的损失"), 0.05),
        ),
        measure=measure,
        seeds=5,
        size={"steps": 100, "width": 64, "few": 200, "many": 8000},
        tiny={"steps": 2, "width": 8, "few": 4, "many": 9},
        would_change=(
            "more training: after 100 steps the GRU is limited by the steps and not by the data; "
            "a learning rate for each model",
            "训练更久：100 步之后，限制 GRU 的是步数而不是数据；为每个模型单独调学习率",
        ),
        axes=Axes(("training sentences", "训练句数"), ("best validation loss", "最低验证集损失"), log_x=True),
    )
}
