"""C56 and C58: the size of embeddings, and their relation to the output matrix.

C56 trains GPTs whose tables start at N(0, 1/d), with and without the factor √d, and one whose table starts at N(0, 1)
without it. Position encodings are added in all of them. C58 trains a GPT whose output matrix is a parameter of its own
and starts as an exact copy of the embedding table; if it is the transposed table by nature, the two stay alike. The
measure is the mean cosine of corresponding rows, over words that occur.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.small_language_models import SPECIAL, gpt, train, valid_loss, with_embedding
from seq2see.labs.verdicts import Effect, Equivalence, Verdict
from seq2see.models.gpt import GPTDecoder
from seq2see.models.language_model import LanguageModel
from seq2see.models.transformer import TransformerSettings


def gpt_with_table(width: int, scaled: bool, deviation: float) -> LanguageModel:
    """A GPT whose embedding table has this standard deviation, with or without the factor √d."""
    decoder = GPTDecoder(TransformerSettings(width=width, depth=2, heads=4, dropout=0.0))
    model = with_embedding(decoder, width, "sinusoidal", "untied-no-bias", scaled)
    with torch.no_grad():
        model.target.table.weight.mul_(deviation * width**0.5)
    return model


def mean_norm(model: LanguageModel) -> float:
    """The mean norm of the embeddings of words."""
    return model.target.table.weight[SPECIAL:].norm(dim=1).mean().item()


def measure_scale(seed: int, steps: int, width: int) -> Measurement:
    """The loss without the factor minus with it, and the change of the norm in training."""
    small, large = width**-0.5, 1.0
    scaled, unscaled, wide = (
        train(lambda scaled=scaled, deviation=deviation: gpt_with_table(width, scaled, deviation), seed, steps)  # type: ignore[misc]
        for scaled, deviation in ((True, small), (False, small), (False, large))
    )
    with torch.no_grad():
        positions = unscaled.target.positions(torch.arange(12)[None])[0].norm(dim=1).mean().item()
    shrinkage = torch.tensor(width**0.5 / mean_norm(wide)).log2().item()
    losses = [valid_loss(each) for each in (scaled, unscaled, wide)]
    return Measurement(
        {
            "factor": losses[1] - losses[0],
            "shrinkage": shrinkage,
            "large table": losses[2] - losses[0],
            "ratio": mean_norm(unscaled) / positions,
        }
    )


def similarity(model: LanguageModel) -> float:
    """The mean cosine of the rows of the table and of the output matrix."""
    weight = model.head.weight_and_bias()[0]  # type: ignore[operator]
    return functional.cosine_similarity(model.target.table.weight, weight)[SPECIAL:].mean().item()


def equal_start(width: int) -> LanguageModel:
    """A GPT with an output matrix of its own that starts as a copy of the table."""
    model = gpt(width, 2, head="untied-no-bias")
    with torch.no_grad():
        model.head.weight_and_bias()[0].copy_(model.target.table.weight)  # type: ignore[operator]
    return model


def measure_transpose(seed: int, steps: int, width: int) -> Measurement:
    """The similarity of both matrices after training, and the losses of tied and untied models."""
    tied, copied, untied = (
        train(build, seed, steps)
        for build in (lambda: gpt(width, 2), lambda: equal_start(width), lambda: gpt(width, 2, head="untied-no-bias"))
    )
    return Measurement(
        {
            "copied": similarity(copied),
            "untied": similarity(untied),
            "loss": valid_loss(untied) - valid_loss(tied),
        }
    )


LABS = {
    "C56": Experiment(
        claim="C56",
        prediction=(
            "From N(0, 1/d) the factor helps, because the position encodings are much longer than the words without "
            "it. "
            "But embeddings do not learn a small norm: from N(0, 1) it stays about the same.",
            "从 N(0, 1/d) 出发，乘 √d 有好处，否则位置编码比词长得多；但嵌入并不会学成小范数：从 N(0, 1) "
            "出发时范数几乎不变。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "factor",
                ("table from N(0, 1/d): loss without √d minus with it", "N(0, 1/d) 初始化：不乘减乘 √d 的损失"),
                0.02,
            ),
            Effect(
                "shrinkage",
                (
                    "table from N(0, 1): log₂ of the norm before over after training",
                    "N(0, 1) 初始化：训练前后范数之比的 log₂",
                ),
                0.1,
            ),
        ),
        additional=(
            Effect(
                "large table",
                ("loss of N(0, 1) without √d minus N(0, 1/d) with it", "损失之差：N(0, 1) 不乘减 N(0, 1/d) 乘 √d"),
                0.02,
            ),
            Effect(
                "ratio",
                (
                    "N(0, 1/d) without √d: norm of words over positions, after training",
                    "N(0, 1/d) 不乘：训练后词与位置的范数之比",
                ),
                1.0,
            ),
        ),
        measure=measure_scale,
        seeds=5,
        size={"steps": 120, "width": 64},
        tiny={"steps": 2, "width": 8},
        would_change=(
            "weight decay, which does make norms smaller; much longer training",
            "权重衰减（它确实会使范数变小）；训练久得多",
        ),
    ),
    "C58": Experiment(
        claim="C58",
        prediction=(
            "The matrices become different although they start equal: one is read, the other predicts. That they are "
            "one "
            "matrix is a decision of the designer.",
            "即使从相同的矩阵出发，两者也会变得不同：一个用来读，一个用来预测。共用一个矩阵是设计上的选择。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "copied",
                ("equal start: mean cosine of both matrices after training", "相同起点：训练后两个矩阵的平均余弦"),
                0.9,
            ),
        ),
        additional=(
            Effect("untied", ("independent start: mean cosine after training", "独立起点：训练后的平均余弦"), 0.9),
            Equivalence("loss", ("loss of untied minus tied", "损失之差：不共用减共用"), 0.05),
        ),
        measure=measure_transpose,
        seeds=5,
        size={"steps": 120, "width": 64},
        tiny={"steps": 2, "width": 8},
        would_change=(
            "a model that is defined with one shared matrix, as GPT-2 is",
            "模型定义里就共用一个矩阵，例如 GPT-2",
        ),
    ),
}
