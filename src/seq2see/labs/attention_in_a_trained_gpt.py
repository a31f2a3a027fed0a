"""C38, C43, C47, C48 and C61: attention in a small GPT after training.

C38 compares a GPT, which has no encoder, with the best prediction that ignores the context. C43 trains on 200 sentences
with and without the division by √d, and compares the gap between validation and training loss; a regularizer makes it
smaller. C47 reads the attention weights on new sentences: a query with at least two keys counts if its own key has the
largest weight. C48 compares one head of width 64 with four heads of width 16. C61 replaces the final vectors of all
other positions, and, in a second test, lets every position attend to itself alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor, nn

from seq2see.data.tokenizers.tokenizer import PAD
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.small_language_models import batch_of, english_sentences, gpt, loss_of, train, valid_loss
from seq2see.labs.verdicts import AtMost, Effect, Verdict
from seq2see.layers.attention import AttentionRecord, GroupedKeys, Queries, SelfAttention
from seq2see.layers.masks import AttentionMask
from seq2see.models.language_model import LanguageModel


class UnscaledSelfAttention(SelfAttention):
    """Self-attention without the division by √d: its queries are multiplied by √d first."""

    def project(self, vectors: Tensor) -> tuple[Queries, GroupedKeys, GroupedKeys]:
        """The projections, with longer queries."""
        queries, keys, values = super().project(vectors)
        return queries * queries.size(-1) ** 0.5, keys, values


def unscaled(model: LanguageModel) -> LanguageModel:
    """The same model and weights without the division by √d."""
    for block in model.decoder.blocks:
        block.self_attention.__class__ = UnscaledSelfAttention
    return model


@torch.no_grad()
def weights_of_layers(model: LanguageModel, rows: Tensor) -> Iterator[Tensor]:
    """The attention weights of each layer (row, head, query, key)."""
    records: list[AttentionRecord] = []
    for block in model.decoder.blocks:
        block.self_attention.hook = records.append
    model(batch_of(rows)[0])
    for block in model.decoder.blocks:
        block.self_attention.hook = None
    return (record.weights for record in records)


def diagonal_share(model: LanguageModel) -> tuple[float, float]:
    """How often the own key has the largest weight, over all heads; and in the head in which it is most frequent."""
    rows = english_sentences().valid[:200]
    inputs = rows[:, : int((rows != PAD).sum(1).max())][:, :-1]
    valid = inputs != PAD
    valid[:, 0] = False  # the first query has a single key
    shares = []
    for weights in weights_of_layers(model, rows):
        own = weights.argmax(-1) == torch.arange(weights.size(-1))
        shares += [own[:, head][valid].float().mean().item() for head in range(weights.size(1))]
    return sum(shares) / len(shares), max(shares)


def unigram_loss() -> float:
    """The loss of the best prediction that ignores the context: the frequencies of the validation tokens."""
    labels = english_sentences().valid[:500, 1:]
    counts = torch.bincount(labels[labels != PAD]).double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum())


def measure_without_encoder(seed: int, steps: int, width: int) -> Measurement:
    """How much the loss of a GPT is below that of a prediction without context."""
    return Measurement({"gain": unigram_loss() - valid_loss(train(lambda: gpt(width, 2), seed, steps))})


def measure_regularization(seed: int, steps: int, width: int, sentences: int) -> Measurement:
    """The gap between validation and training loss, with and without the division."""
    values = {}
    for name, change in (("scaled", lambda model: model), ("unscaled", unscaled)):
        model = train(lambda change=change: change(gpt(width, 2, heads=1)), seed, steps, sentences)  # type: ignore[misc]
        with torch.no_grad():
            train_loss = loss_of(model, english_sentences().train[:sentences]).item()
        values[name] = valid_loss(model)
        values[f"gap {name}"] = values[name] - train_loss
    return Measurement(
        {"gap": values["gap unscaled"] - values["gap scaled"], "loss": values["unscaled"] - values["scaled"]}
    )


def measure_diagonal(seed: int, steps: int, width: int) -> Measurement:
    """How often a token attends most to itself, before and after training."""
    (initial, _), (trained, highest) = (
        diagonal_share(train(lambda: gpt(width, 2), seed, count)) for count in (0, steps)
    )
    return Measurement({"trained": trained, "initial": initial, "highest": highest})


def measure_heads(seed: int, steps: int, width: int) -> Measurement:
    """The loss of one head minus that of four, and how different the four heads are."""
    one, four = (train(lambda heads=heads: gpt(width, 2, heads=heads), seed, steps) for heads in (1, 4))  # type: ignore[misc]
    distances = []
    for weights in weights_of_layers(four, english_sentences().valid[:200]):
        for first, second in combinations(range(weights.size(1)), 2):
            halves = (weights[:, first] - weights[:, second]).abs().sum(-1) / 2  # total variation
            distances.append(halves[:, 1:].mean().item())
    return Measurement({"gain": valid_loss(one) - valid_loss(four), "distance": sum(distances) / len(distances)})


@torch.no_grad()
def measure_last_vector(seed: int, steps: int, width: int) -> Measurement:
    """The change of the last logits if the other final vectors are replaced; and the loss without the context."""
    with torch.enable_grad():
        model = train(lambda: gpt(width, 2), seed, steps)
    rows = english_sentences().valid[:200]
    batch, labels = batch_of(rows)
    hidden = model.hidden(batch).values
    other = torch.cat([torch.randn_like(hidden[:, :-1]), hidden[:, -1:]], 1)
    change = (model.head(hidden)[:, -1] - model.head(other)[:, -1]).abs().max().item()
    embedded = model.target(batch.target)
    itself = AttentionMask(torch.eye(embedded.values.size(1), dtype=torch.bool)[None, None])
    alone = model.head(model.decoder.run_blocks(embedded, itself))
    loss = nn.functional.cross_entropy(alone.flatten(0, 1), labels.flatten(), ignore_index=PAD).item()
    assert math.isfinite(loss)
    return Measurement({"change": change, "context": loss - loss_of(model, rows).item()})


TINY = {"steps": 2, "width": 8}
LABS = {
    "C38": Experiment(
        claim="C38",
        prediction=(
            "A GPT has attention and no encoder, and predicts words far better than a prediction without context.",
            "GPT 有注意力而没有编码器，预测下一个词比不看上下文好得多。",
        ),
        expected=Verdict.HOLDS,
        decisive=(Effect("gain", ("loss without context minus loss of a GPT", "损失之差：不看上下文减 GPT"), 0.5),),
        measure=measure_without_encoder,
        seeds=5,
        size={"steps": 120, "width": 64},
        tiny=TINY,
        would_change=(
            "nothing: one working model without an encoder is enough",
            "没有什么能改变：一个没有编码器而有效的模型就足够了",
        ),
    ),
    "C43": Experiment(
        claim="C43",
        prediction=(
            "The division changes the size of the scores at the start, not the capacity of the model; the gap between "
            "training and validation hardly changes.",
            "除以 √d 改变的是开始时得分的大小，而不是模型的容量；训练与验证之间的差距几乎不变。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "gap",
                ("gap of validation and training loss, without minus with √d", "验证与训练损失的差距：不除减除"),
                0.1,
            ),
        ),
        additional=(Effect("loss", ("validation loss, without minus with √d", "验证集损失：不除减除"), 0.05),),
        measure=measure_regularization,
        seeds=5,
        size={"steps": 150, "width": 64, "sentences": 200},
        tiny={"steps": 2, "width": 8, "sentences": 10},
        would_change=(
            "wider heads, whose unscaled scores saturate the softmax from the start",
            "更宽的头：不缩放时 softmax 一开始就饱和",
        ),
    ),
    "C47": Experiment(
        claim="C47",
        prediction=(
            "W_Q and W_K are different, so nothing makes the own key the largest. Trained heads often attend to the "
            "previous token or to the first one.",
            "W_Q 与 W_K 不同，没有什么保证自己的键得分最高。训练后的头常常关注前一个词元或第一个词元。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "trained",
                ("share of queries whose own key has the largest weight", "自己的键权重最大的查询所占比例"),
                0.9,
            ),
        ),
        additional=(
            Effect("initial", ("the same before training", "训练之前的同一比例"), 0.9),
            Effect("highest", ("the same in the head in which it is largest", "比例最高的那个头"), 0.9),
        ),
        measure=measure_diagonal,
        seeds=5,
        size={"steps": 200, "width": 64},
        tiny=TINY,
        would_change=("queries equal to keys, and vectors of equal norm", "查询等于键，并且向量模长相等"),
    ),
    "C48": Experiment(
        claim="C48",
        prediction=(
            "Heads attend to different tokens. On such short sentences four heads are better than one by little.",
            "各个头关注的词元不同；在这样短的句子上，四个头只比一个头好一点。",
        ),
        expected=Verdict.UNDECIDED,
        decisive=(
            Effect("gain", ("loss of one head minus four heads", "损失之差：一个头减四个头"), 0.02),
            Effect(
                "distance",
                ("mean distance of two heads (0: equal, 1: disjoint)", "两个头的平均距离（0 相同，1 不相交）"),
                0.1,
            ),
        ),
        measure=measure_heads,
        seeds=6,
        size={"steps": 150, "width": 64},
        tiny=TINY,
        would_change=(
            "translation or longer texts, in which a word depends on several others at once",
            "翻译或更长的文本：一个词同时依赖多个词",
        ),
    ),
    "C61": Experiment(
        claim="C61",
        prediction=(
            "The head reads one vector at a time, so the others change nothing. But attention has put the context into "
            "that vector: without it the loss rises by more than 0.3.",
            "输出头每次只读一个向量，其余向量改变不了什么；但注意力已把上下文放进这个向量：去掉上下文，损失上升 0.3 "
            "以上。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            AtMost(
                "change",
                ("change of the last logits by other final vectors", "其他位置的最终向量对末位 logits 的影响"),
                0.0,
            ),
        ),
        additional=(
            Effect(
                "context",
                ("loss if each position attends to itself alone, minus the loss", "每个位置只看自己时损失的上升"),
                0.3,
            ),
        ),
        measure=measure_last_vector,
        seeds=5,
        size={"steps": 120, "width": 64},
        tiny=TINY,
        would_change=(
            "a head that reads several positions, as in n-gram features or pointer networks",
            "同时读取多个位置的输出头，例如指针网络",
        ),
    ),
}
