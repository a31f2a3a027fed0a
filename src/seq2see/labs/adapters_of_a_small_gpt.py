"""C80: does singular value fine-tuning adapt a trained model better than LoRA, with fewer weights?

A small GPT is trained on English sentences. Then it learns the same sentences backwards, by an adapter on all matrices
of its blocks: by SVF, which scales singular values (Transformer²), or by LoRA, which adds a matrix of low rank. Both
have the same base, the same sentences in the same order, the same steps and optimizer. The learning rate of each is the
best of one grid on one half of the held-out sentences; what is compared is the loss on the other half.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from seq2see.adapters.adapt import adapt, adapter_weights
from seq2see.adapters.settings import SVF, LoRA
from seq2see.core.seeds import derive_seed
from seq2see.data.tokenizers.tokenizer import PAD
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.small_language_models import ROWS, english_sentences, gpt, loss_of, train
from seq2see.labs.verdicts import Effect, Verdict
from seq2see.models.language_model import LanguageModel

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
HELD_OUT = 250
"""The number of held-out sentences that choose a rate, and of those that are compared."""


def backwards(rows: Tensor) -> Tensor:
    """The words of each sentence in the opposite order, between <bos> and <eos>."""
    turned = rows.clone()
    for row, length in zip(turned, (rows != PAD).sum(1).tolist(), strict=True):
        row[1 : length - 1] = row[1 : length - 1].flip(0)
    return turned


def fine_tune(base: LanguageModel, settings: SVF | LoRA, rate: float, seed: int, steps: int) -> LanguageModel:
    """A copy of the base with an adapter that is trained on reversed sentences."""
    model, rng = copy.deepcopy(base), torch.Generator().manual_seed(derive_seed(seed, "adapter batches"))
    adapt(model, settings, seed)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=rate)
    rows = english_sentences().train
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, backwards(rows[torch.randint(len(rows), (ROWS,), generator=rng)])).backward()
        optimizer.step()
    return model


@torch.no_grad()
def held_out_loss(model: LanguageModel, rows: Tensor) -> float:
    """The loss on some sentences."""
    return loss_of(model, rows).item()


def measure_adapters(seed: int, base_steps: int, steps: int, width: int, rank: int) -> Measurement:
    """The losses of both adapters on reversed sentences, and on the sentences that the base was trained on."""
    base, rows = train(lambda: gpt(width, 2), seed, base_steps), english_sentences().valid[: 2 * HELD_OUT]
    choosing, compared = backwards(rows[:HELD_OUT]), backwards(rows[HELD_OUT:])
    best = {}
    adapters: dict[str, SVF | LoRA] = {"svf": SVF(), "lora": LoRA(rank=rank)}
    for name, settings in adapters.items():
        models = [fine_tune(base, settings, rate, seed, steps) for rate in RATES]
        best[name] = min(models, key=lambda model: held_out_loss(model, choosing))
    weights = {name: sum(each.numel() for each in adapter_weights(model).values()) for name, model in best.items()}
    loss = {name: held_out_loss(model, compared) for name, model in best.items()}
    before = {name: held_out_loss(model, rows[HELD_OUT:]) for name, model in best.items()}
    return Measurement(
        {
            "gain": loss["lora"] - loss["svf"],
            "ratio": weights["lora"] / weights["svf"],
            "learned": held_out_loss(base, compared) - loss["svf"],
            "forgetting": before["lora"] - before["svf"],
        }
    )


LABS = {
    "C80": Experiment(
        claim="C80",
        prediction=(
            "SVF has a fraction of the weights and learns something, but a new order of the words is not a matter of "
            "scaling what the model does already: LoRA ends with the lower loss.",
            "SVF 的权重只有几分之一，也能学到一些东西；但新的词序不是缩放已有的成分就能得到的，所以 LoRA 的损失更低。",
        ),
        expected=Verdict.DOES_NOT_HOLD,
        decisive=(
            Effect("gain", ("loss on reversed sentences: LoRA minus SVF", "倒序句子上的损失：LoRA 减 SVF"), 0.02),
            Effect("ratio", ("weights of LoRA over weights of SVF", "LoRA 与 SVF 的权重数之比"), 1.0),
        ),
        additional=(
            Effect("learned", ("loss on reversed sentences: base minus SVF", "倒序句子上的损失：基座减 SVF"), 0.02),
            Effect(
                "forgetting", ("loss on the first sentences: LoRA minus SVF", "原来句子上的损失：LoRA 减 SVF"), 0.02
            ),
        ),
        measure=measure_adapters,
        seeds=5,
        size={"base_steps": 200, "steps": 60, "width": 64, "rank": 8},
        tiny={"base_steps": 2, "steps": 1, "width": 8, "rank": 2},
        would_change=(
            "a task that the base can nearly do, a large pretrained model, or rewards in place of right answers; "
            "`docs/transformer2.md` has such rows",
            "基座几乎已经会的任务、大的预训练模型，或者用奖励代替正确答案；`docs/transformer2.zh.md` 有这样的结果",
        ),
    ),
}
