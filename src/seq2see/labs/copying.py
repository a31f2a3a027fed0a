"""C24, C25, C26, C30, C31, C32 and C37: copying letters through one context vector, and with attention.

A GRU encoder and a GRU decoder copy sequences of 2 to 10 of ten letters: the identity function of the notes. In one
model the decoder has the last state of the encoder as its initial state, one vector for the whole source. In the other
it also attends to all states of the encoder (dot-product attention); nothing else differs. Longer sequences, 11 to 20
letters, do not occur in training.

Accuracy is the share of letters that are predicted correctly with the correct letters before them as input. If all
letters of a sequence are, generation gives the same sequence; so the share of such sequences is the exact match of
greedy generation as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from seq2see.core.batch import Batch, Sequences
from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.data.tokenizers.tokenizer import BOS, EOS, PAD
from seq2see.labs.experiment import Axes, Experiment, Measurement
from seq2see.labs.verdicts import Effect, Text, Verdict
from seq2see.layers.initialization import initialize
from seq2see.layers.positions import NoPositions
from seq2see.models.embeddings_and_heads import HEADS, TOKEN_EMBEDDINGS
from seq2see.models.recurrent import (
    RecurrentDecoder,
    RecurrentDecoderSettings,
    RecurrentEncoder,
    RecurrentEncoderSettings,
)
from seq2see.models.seq2seq import Seq2Seq

FIRST_LETTER, LETTERS = 4, 10
MIN_LENGTH, MAX_LENGTH, LONG_LENGTH = 2, 10, 20


def build(attention: str, width: int) -> Seq2Seq:
    """The model without attention (`none`) or with dot-product attention (`dot`)."""
    encoder = RecurrentEncoderSettings(width=width, bidirectional=False, dropout=0.0)
    decoder = RecurrentDecoderSettings.model_validate({"width": width, "attention": attention, "dropout": 0.0})
    tables = [nn.Embedding(FIRST_LETTER + LETTERS, width, padding_idx=PAD) for _ in range(2)]
    source, target = (TOKEN_EMBEDDINGS[True](table, NoPositions(width), 0.0) for table in tables)
    model = Seq2Seq(
        source,
        RecurrentEncoder.from_settings(encoder),
        target,
        RecurrentDecoder.from_settings(decoder, width),
        HEADS["untied"](tables[1]),
    )
    initialize(model, "xavier")
    return model


def letters(count: int, shortest: int, longest: int, rng: torch.Generator) -> Batch:
    """Random letters; the target is <bos> and the same letters, the labels are the letters and <eos>."""
    lengths = torch.randint(shortest, longest + 1, (count,), generator=rng)
    rows = torch.randint(FIRST_LETTER, FIRST_LETTER + LETTERS, (count, longest), generator=rng)
    rows[torch.arange(longest) >= lengths[:, None]] = PAD
    target = torch.cat([torch.full((count, 1), BOS), rows], 1)
    labels = torch.cat([rows, torch.full((count, 1), PAD)], 1)
    labels[torch.arange(count), lengths] = EOS
    return Batch(Sequences(rows, lengths), Sequences(target, lengths + 1), labels, torch.arange(count))


def forced_logits(model: Seq2Seq, batch: Batch) -> Tensor:
    """Teacher forcing: the inputs are the correct letters."""
    return model(batch)


def free_logits(model: Seq2Seq, batch: Batch) -> Tensor:
    """Free running: the inputs are the model's own predictions."""
    assert batch.source is not None
    assert batch.target is not None
    rows, steps = batch.target.values.shape
    state, tokens, logits = model.start(batch.source, rows, steps), torch.full((rows, 1), BOS), []
    for _ in range(steps):
        output, state = model.step(tokens, state)
        logits.append(output)
        tokens = output.detach().argmax(-1)
    return torch.cat(logits, 1)


Logits = Callable[[Seq2Seq, Batch], Tensor]


@lru_cache(maxsize=32)
def trained(attention: str, seed: int, steps: int, width: int, logits_of: Logits = forced_logits) -> Seq2Seq:
    """A trained model; experiments that need the same one share it."""
    seed_torch(seed, "weights")
    model, rng = build(attention, width), torch.Generator().manual_seed(derive_seed(seed, "letters"))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with torch.enable_grad():
        for _ in range(steps):
            batch = letters(64, MIN_LENGTH, MAX_LENGTH, rng)
            optimizer.zero_grad()
            logits = logits_of(model, batch)
            nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracies(model: Seq2Seq, seed: int, shortest: int, longest: int) -> tuple[float, float]:
    """The share of correct letters, and of sequences without an error, on new sequences of some lengths."""
    batch = letters(400, shortest, longest, torch.Generator().manual_seed(derive_seed(seed, "test")))
    correct = (model(batch).argmax(-1) == batch.labels) | (batch.labels == PAD)
    counted = batch.labels != PAD
    return (correct & counted).sum().item() / counted.sum().item(), correct.all(1).float().mean().item()


@lru_cache(maxsize=32)
def measure(seed: int, steps: int, width: int) -> Measurement:
    """Accuracies of both models for short, long and longer sequences."""
    values: dict[str, float] = {}
    lines = {}
    lengths = (2, 4, 6, 8, 10, 13, 16, 20)
    for name, attention in (("vector", "none"), ("attention", "dot")):
        model = trained(attention, seed, steps, width)
        by_length = {length: accuracies(model, seed, length, length)[0] for length in lengths}
        values |= {f"{name} {length}": by_length[length] for length in (2, 10, 20)}
        values[f"{name} error"] = 1 - accuracies(model, seed, MIN_LENGTH, MAX_LENGTH)[1]
        values[f"{name} longer error"] = 1 - accuracies(model, seed, MAX_LENGTH + 1, LONG_LENGTH)[1]
        values[f"{name} decrease"] = by_length[2] - by_length[10]
        lines[{"vector": "one vector", "attention": "attention"}[name]] = (lengths, list(by_length.values()))
    values["help"] = values["vector decrease"] - values["attention decrease"]
    return Measurement(values, lines)


@torch.no_grad()
def measure_probe(seed: int, steps: int, width: int) -> Measurement:
    """The accuracy of linear classifiers that read each letter from the context vector."""
    model = trained("none", seed, steps, width)
    rng = torch.Generator().manual_seed(derive_seed(seed, "probe"))
    train, test = letters(4000, MAX_LENGTH, MAX_LENGTH, rng), letters(1000, MAX_LENGTH, MAX_LENGTH, rng)
    assert train.source is not None
    assert test.source is not None
    vectors = [
        torch.cat([each, torch.ones(len(each), 1)], 1).double()
        for each in (model.encode(train.source).pooled, model.encode(test.source).pooled)
    ]
    gram = vectors[0].T @ vectors[0] + 1e-3 * torch.eye(width + 1, dtype=torch.float64)
    shares = []
    for position in range(MAX_LENGTH):
        targets = nn.functional.one_hot(train.source.values[:, position] - FIRST_LETTER, LETTERS).double()
        weights = torch.linalg.solve(gram, vectors[0].T @ targets)
        predicted = (vectors[1] @ weights).argmax(1) + FIRST_LETTER
        shares.append((predicted == test.source.values[:, position]).float().mean().item())
    return Measurement({"worst": min(shares), "last": shares[-1]}, {"probe": (range(1, MAX_LENGTH + 1), shares)})


def measure_forcing(seed: int, steps: int, width: int) -> Measurement:
    """The exact match of training with teacher forcing minus with free running."""
    exact = {
        name: accuracies(trained("dot", seed, steps, width, logits), seed, MIN_LENGTH, MAX_LENGTH)
        for name, logits in (("forced", forced_logits), ("free", free_logits))
    }
    return Measurement({"gain": exact["forced"][1] - exact["free"][1], "free": exact["free"][0] - 1 / LETTERS})


@torch.no_grad()
def measure_errors(seed: int, steps: int, width: int) -> Measurement:
    """The accuracy of the letters after one wrong input, next to that of the same letters without it."""
    values: dict[str, float] = {}
    lines, wrong_at = {}, 3
    for name, attention in (("vector", "none"), ("attention", "dot")):
        model = trained(attention, seed, steps, width)
        batch = letters(400, MAX_LENGTH, MAX_LENGTH, torch.Generator().manual_seed(derive_seed(seed, "errors")))
        assert batch.target is not None
        clean = (model(batch).argmax(-1) == batch.labels).float().mean(0)
        batch.target.values[:, wrong_at] = (
            FIRST_LETTER + (batch.target.values[:, wrong_at] - FIRST_LETTER + 3) % LETTERS
        )
        after = (model(batch).argmax(-1) == batch.labels).float().mean(0)
        lost = (clean - after)[wrong_at:MAX_LENGTH]
        values[name], values[f"{name} last"] = lost.mean().item(), lost[-1].item()
        lines[{"vector": "one vector", "attention": "attention"}[name]] = (range(1, len(lost) + 1), lost.tolist())
    return Measurement(values, lines)


SIZE, TINY, SEEDS = {"steps": 400, "width": 64}, {"steps": 2, "width": 8}, 5
BY_LENGTH = Axes(("length of the source", "源序列的长度"), ("share of correct letters", "正确字母的比例"))


def _experiment(
    claim: str,
    prediction: Text,
    expected: Verdict,
    decisive: tuple[Effect, ...],
    additional: tuple[Effect, ...],
    would_change: Text,
) -> Experiment:
    """An experiment on accuracy by length."""
    return Experiment(
        claim=claim, prediction=prediction, expected=expected, decisive=decisive, additional=additional,
        measure=measure, seeds=SEEDS, size=SIZE, tiny=TINY, would_change=would_change, axes=BY_LENGTH,
    )  # fmt: skip


DECREASE = ("accuracy at length 2 minus at length 10", "长度 2 与长度 10 的准确率之差")
LONGER = ("lengths 11 to 20: share of sequences with an error", "长度 11 到 20：有错的序列所占比例")
ERROR = ("lengths 2 to 10: share of sequences with an error", "长度 2 到 10：有错的序列所占比例")
LABS = {
    "C24": _experiment(
        "C24",
        (
            "After equal training, the model with one vector predicts fewer letters of ten correctly than of two.",
            "同样的训练之后，只有一个向量的模型，长度为 10 时的准确率低于长度为 2 时。",
        ),
        Verdict.HOLDS,
        (Effect("vector decrease", (f"one vector: {DECREASE[0]}", f"一个向量：{DECREASE[1]}"), 0.1),),
        (Effect("attention decrease", (f"attention: {DECREASE[0]}", f"注意力：{DECREASE[1]}"), 0.1),),
        (
            "a wider vector or more training; ten letters of ten have 33 bits, which 64 numbers can hold",
            "更宽的向量或更多训练：十个字母共 33 比特，64 个数装得下",
        ),
    ),
    "C26": _experiment(
        "C26",
        (
            "With attention, accuracy decreases less with the length, within the lengths of training.",
            "有注意力时，在训练长度之内，准确率随长度的下降更小。",
        ),
        Verdict.HOLDS,
        (
            Effect(
                "help",
                ("decrease from length 2 to 10: one vector minus attention", "从长度 2 到 10 的下降：一个向量减注意力"),
                0.1,
            ),
        ),
        (),
        ("lengths that did not occur in training", "训练中没有出现过的长度"),
    ),
    "C32": _experiment(
        "C32",
        (
            "With one vector, most sequences have an error after 400 steps; with attention few do. Longer sequences "
            "are "
            "hard for both.",
            "只有一个向量时，400 步之后多数序列有错；有注意力时很少。更长的序列对两者都难。",
        ),
        Verdict.HOLDS,
        (Effect("vector error", (f"one vector: {ERROR[0]}", f"一个向量：{ERROR[1]}"), 0.5),),
        (
            Effect("attention error", (f"attention: {ERROR[0]}", f"注意力：{ERROR[1]}"), 0.5),
            Effect("vector longer error", (f"one vector: {LONGER[0]}", f"一个向量：{LONGER[1]}"), 0.5),
            Effect("attention longer error", (f"attention: {LONGER[0]}", f"注意力：{LONGER[1]}"), 0.5),
        ),
        (
            "more steps, or attention: then the identity function is simple, within the lengths of training",
            "训练更久，或者加注意力：在训练长度之内恒等映射就简单了",
        ),
    ),
    "C37": _experiment(
        "C37",
        (
            "Within the lengths of training, attention loses almost nothing; at twice that length it does.",
            "在训练长度之内，注意力几乎不丢信息；长度翻倍时就会丢。",
        ),
        Verdict.DOES_NOT_HOLD,
        (
            Effect(
                "attention 10",
                ("attention, length 10: share of correct letters", "注意力，长度 10：正确字母的比例"),
                0.95,
            ),
            Effect(
                "attention 20",
                ("attention, length 20: share of correct letters", "注意力，长度 20：正确字母的比例"),
                0.95,
            ),
        ),
        (
            Effect(
                "vector 20",
                ("one vector, length 20: share of correct letters", "一个向量，长度 20：正确字母的比例"),
                0.95,
            ),
        ),
        ("training on such lengths; another position encoding", "在这样的长度上训练；换一种位置编码"),
    ),
    "C25": Experiment(
        claim="C25",
        prediction=(
            "The letters read last are easy to find in the state; the worst position is below 90 %.",
            "最后读到的字母容易从状态里找回；最差的位置低于 90 %。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect(
                "worst",
                ("linear classifier: accuracy of the worst position of ten", "线性分类器：十个位置中最低的准确率"),
                0.9,
            ),
        ),
        additional=(Effect("last", ("accuracy of the last position", "最后一个位置的准确率"), 0.9),),
        measure=measure_probe,
        seeds=SEEDS,
        size=SIZE,
        tiny=TINY,
        would_change=("a nonlinear classifier, more training, a wider state", "非线性的分类器、更多训练、更宽的状态"),
        axes=Axes(("position of the letter", "字母的位置"), ("accuracy of a linear classifier", "线性分类器的准确率")),
    ),
    "C30": Experiment(
        claim="C30",
        prediction=(
            "Without teacher forcing training is slower, but it does converge on this task: letters are predicted far "
            "above chance.",
            "没有教师强制时训练更慢，但在这个任务上会收敛：字母的准确率远高于随机。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect("gain", ("exact match: teacher forcing minus free running", "整句正确率：教师强制减自由运行"), 0.5),
        ),
        additional=(
            Effect("free", ("free running: accuracy of letters above chance", "自由运行：高出随机的字母准确率"), 0.3),
        ),
        measure=measure_forcing,
        seeds=SEEDS,
        size={"steps": 300, "width": 64},
        tiny=TINY,
        would_change=(
            "longer targets, where an early error leaves more letters without correct inputs",
            "目标更长：早期的错误会让更多字母得不到正确输入",
        ),
    ),
    "C31": Experiment(
        claim="C31",
        prediction=(
            "After one wrong input the next letters are predicted worse in both models; copying recovers after some "
            "letters, so the loss at the end is smaller than in the mean.",
            "一个输入出错后，两种模型对后面字母的预测都变差；但复制任务过几个字母会恢复，末尾的损失小于平均。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect(
                "vector",
                (
                    "one vector: accuracy lost in the letters after a wrong input",
                    "一个向量：出错之后各字母损失的准确率",
                ),
                0.05,
            ),
            Effect("attention", ("attention: the same", "注意力：同上"), 0.05),
        ),
        additional=(
            Effect(
                "vector last",
                ("one vector: accuracy lost in the last letter", "一个向量：最后一个字母损失的准确率"),
                0.05,
            ),
            Effect("attention last", ("attention: the same", "注意力：同上"), 0.05),
        ),
        measure=measure_errors,
        seeds=SEEDS,
        size=SIZE,
        tiny=TINY,
        would_change=(
            "training with wrong inputs as well, as in scheduled sampling",
            "训练时也给错误的输入，例如计划采样",
        ),
        axes=Axes(("letters after the wrong input", "出错之后第几个字母"), ("accuracy lost", "损失的准确率")),
    ),
}
