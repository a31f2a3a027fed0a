"""C64, C65, C66 and C81: what do the norms and the other parts of a Transformer contribute?

The models are small GPTs that differ in one respect: where the norm stands (C65), which norm it is (C66), what it
averages over (C64), or which part of the block is left out (C81). All have the same sentences in the same order, the
same steps and the same learning rate.

C64 measures the loss in two ways. With the whole sentence as input, a norm over time lets later words leak into
earlier positions. With the words so far as input, as in generation, nothing can leak.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seq2see.data.tokenizers.tokenizer import PAD
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.small_language_models import (
    LEARNING_RATE,
    batch_of,
    english_sentences,
    gpt,
    losses_by_step,
    train,
    valid_loss,
)
from seq2see.labs.verdicts import Effect, Verdict
from seq2see.models.language_model import LanguageModel

WARMUP = 30


class SentenceNorm(nn.Module):
    """Mean 0 and variance 1 over time and width of each sentence, then a learned scale and shift."""

    def __init__(self, width: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, vectors: Tensor, valid: Tensor) -> Tensor:
        """Padding is left out of mean and variance."""
        real = valid[..., None].expand_as(vectors).double()
        count = real.sum((1, 2), keepdim=True)
        mean = (vectors * real).sum((1, 2), keepdim=True) / count
        variance = ((vectors - mean).square() * real).sum((1, 2), keepdim=True) / count
        return ((vectors - mean) / (variance + 1e-5).sqrt()).to(vectors.dtype) * self.weight + self.bias


class IdentityNorm(nn.Module):
    """No normalization."""

    def forward(self, vectors: Tensor, valid: Tensor) -> Tensor:
        """The vectors themselves."""
        return vectors


class WithoutResidual(nn.Module):
    """f(norm(x)) in place of x + f(norm(x))."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, vectors: Tensor, valid: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The sublayer alone."""
        return sublayer(self.norm(vectors, valid))


class WithoutSublayer(nn.Module):
    """x in place of x + f(norm(x))."""

    def forward(self, vectors: Tensor, valid: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The input."""
        return vectors


def change_norms(model: LanguageModel, build: Callable[[], nn.Module]) -> LanguageModel:
    """Replace every norm of a GPT."""
    for block in model.decoder.blocks:
        block.self_attention_residual.norm, block.feed_forward_residual.norm = build(), build()
    model.decoder.final_norm = build()
    return model


def without(parts: tuple[str, ...], width: int, depth: int) -> LanguageModel:
    """A GPT in which some of these are left out: feed-forward, residual, norm."""
    model = gpt(width, depth)
    if "norm" in parts:
        change_norms(model, IdentityNorm)
    for block in model.decoder.blocks:
        if "residual" in parts:
            block.self_attention_residual = WithoutResidual(block.self_attention_residual.norm)
            block.feed_forward_residual = WithoutResidual(block.feed_forward_residual.norm)
        if "feed-forward" in parts:
            block.feed_forward_residual = WithoutSublayer()
    return model


@torch.no_grad()
def prefix_loss(model: LanguageModel, rows: Tensor) -> float:
    """The mean loss if the input ends at the position of the prediction, as in generation."""
    total, count = 0.0, 0
    for end in range(1, rows.size(1)):
        present = rows[rows[:, end] != PAD][:, : end + 1]
        if len(present):
            logits = model(batch_of(present)[0])[:, -1]
            total += nn.functional.cross_entropy(logits, present[:, end], reduction="sum").item()
            count += len(present)
    return total / count


def measure_sentence_norm(seed: int, steps: int, width: int) -> Measurement:
    """Losses of a norm for each token and of a norm for each sentence."""
    models = {
        "token": train(lambda: gpt(width, 2), seed, steps),
        "sentence": train(lambda: change_norms(gpt(width, 2), lambda: SentenceNorm(width)), seed, steps),
    }
    rows = english_sentences().valid[:200]
    losses = {name: prefix_loss(model.eval(), rows) for name, model in models.items()}
    with torch.no_grad():
        batch, labels = batch_of(rows)
        logits = models["sentence"](batch)
        whole = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD).item()
    return Measurement({"gain": losses["token"] - losses["sentence"], "leak": losses["sentence"] - whole})


def measure_order(seed: int, steps: int, width: int, depth: int) -> Measurement:
    """Losses of pre-norm and post-norm, with a constant learning rate and with warmup."""
    losses = {}
    for order in ("pre", "post"):
        for warmup in (1, WARMUP):
            losses[order, warmup] = valid_loss(
                train(
                    lambda order=order: gpt(width, depth, norm_order=order),  # type: ignore[misc]
                    seed,
                    steps,
                    learning_rate=lambda step, warmup=warmup: LEARNING_RATE * min(1.0, step / warmup),  # type: ignore[misc]
                )
            )
    values = {
        "constant": losses["pre", 1] - losses["post", 1],
        "warmup": losses["pre", WARMUP] - losses["post", WARMUP],
    }
    return Measurement(values | {"interaction": values["warmup"] - values["constant"]})


def measure_norms(seed: int, steps: int, width: int) -> Measurement:
    """The loss of layer norm minus that of each other norm."""
    losses = {
        name: valid_loss(train(lambda name=name: gpt(width, 2, norm=name), seed, steps))  # type: ignore[misc]
        for name in ("layer", "rms", "batch")
    }
    return Measurement({name: losses["layer"] - losses[name] for name in ("rms", "batch")})


LEFT_OUT = {
    "alone": ("feed-forward", "residual", "norm"),
    "feed-forward": ("feed-forward",),
    "residual": ("residual",),
    "norm": ("norm",),
}


def measure_parts(seed: int, steps: int, width: int) -> Measurement:
    """The loss of the whole model minus that without some parts."""
    curves = {
        name: losses_by_step(lambda parts=parts: without(parts, width, 2), seed, steps, points=2)  # type: ignore[misc]
        for name, parts in ({"whole": ()} | LEFT_OUT).items()
    }
    whole = curves["whole"][1][-1]
    return Measurement({name: whole - curves[name][1][-1] for name in LEFT_OUT}, curves)


def _other_norm(name: str, english: str, chinese: str) -> Effect:
    return Effect(name, (f"loss of layer norm minus {english}", f"损失之差：层归一化减{chinese}"), -0.05)


def _without(name: str, english: str, chinese: str) -> Effect:
    return Effect(
        name, (f"loss of the whole model minus without {english}", f"损失之差：完整模型减去掉{chinese}的模型"), -0.1
    )


LABS = {
    "C64": Experiment(
        claim="C64",
        prediction=(
            "In training, a norm over the sentence lets later words leak, and the loss is low. With the words so far "
            "as "
            "input, as in generation, the loss is higher than with a norm for each token.",
            "训练时，按整句归一化会让后面的词泄漏，损失很低；只给已有的词（与生成时一样）时，损失比逐词元归一化更高。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "gain",
                (
                    "words so far: loss of the token norm minus the sentence norm",
                    "只给已有的词：逐词元减整句归一化的损失",
                ),
                0.02,
            ),
        ),
        additional=(
            Effect(
                "leak",
                (
                    "sentence norm: loss with the words so far minus with the whole sentence",
                    "整句归一化：只给已有的词减给整句的损失",
                ),
                0.02,
            ),
        ),
        measure=measure_sentence_norm,
        seeds=5,
        size={"steps": 100, "width": 64},
        tiny={"steps": 2, "width": 8},
        would_change=("an encoder, which may use the whole sentence anyway", "换成编码器：它本来就可以看整句"),
    ),
    "C65": Experiment(
        claim="C65",
        prediction=(
            "With a constant learning rate, a post-norm model of four blocks learns less than a pre-norm model; warmup "
            "makes the difference smaller (Xiong et al. 2020).",
            "学习率不变时，四个块的后置归一化模型学得比前置归一化差；预热会缩小差距（Xiong 等 2020）。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "constant",
                ("constant rate: loss of pre-norm minus post-norm", "学习率不变：前置减后置归一化的损失"),
                -0.02,
            ),
        ),
        additional=(
            Effect("warmup", ("with warmup: the same", "有预热：同样的差"), -0.02),
            Effect(
                "interaction",
                ("how much post-norm gains more from warmup than pre-norm", "后置归一化比前置多从预热中得到的好处"),
                0.05,
            ),
        ),
        measure=measure_order,
        seeds=5,
        size={"steps": 80, "width": 64, "depth": 4},
        tiny={"steps": 2, "width": 8, "depth": 1},
        would_change=("a smaller learning rate, longer warmup, fewer blocks", "更小的学习率、更长的预热、更少的块"),
    ),
    "C66": Experiment(
        claim="C66",
        prediction=(
            "RMS norm is as good as layer norm. Batch norm comes close on such short sentences.",
            "RMS 归一化与层归一化一样好；在这样短的句子上，批归一化也相差不多。",
        ),
        expected=Verdict.HOLDS,
        decisive=(_other_norm("rms", "RMS norm", " RMS 归一化"),),
        additional=(_other_norm("batch", "batch norm", "批归一化"),),
        measure=measure_norms,
        seeds=5,
        size={"steps": 100, "width": 64},
        tiny={"steps": 2, "width": 8},
        would_change=(
            "longer texts of unequal length and larger models, on which batch norm is known to be worse",
            "更长且长短不一的文本和更大的模型：那里批归一化更差",
        ),
    ),
    "C81": Experiment(
        claim="C81",
        prediction=(
            "Attention alone, without feed-forward layers, residual connections and norms, is worse by far more than "
            "0.1. “But not quite”, as the notes add, is right.",
            "只剩注意力（没有前馈层、残差连接和归一化）时，损失差得远不止 0.1。笔记补充的“也不尽然”是对的。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(_without("alone", "all but attention", "注意力之外一切"),),
        additional=(
            _without("feed-forward", "feed-forward layers", "前馈层"),
            _without("residual", "residual connections", "残差连接"),
            _without("norm", "norms", "归一化"),
        ),
        measure=measure_parts,
        seeds=5,
        size={"steps": 100, "width": 64},
        tiny={"steps": 2, "width": 8},
        would_change=(
            "more steps: parts that only make training faster lose their effect",
            "训练更久：只是加快训练的部分会失去作用",
        ),
        axes=Axes(("step", "步"), ("validation loss", "验证集损失")),
    ),
}
