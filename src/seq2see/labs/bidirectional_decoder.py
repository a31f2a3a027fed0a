"""C23: can a decoder be bidirectional?

A bidirectional GRU and a unidirectional one learn the next word; their outputs have the same width. With the whole
sentence as input, the backward direction contains the next word itself. In generation only the words so far exist, so
accuracy is measured with these as well.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2see.core.seeds import derive_seed, seed_torch
from seq2see.data.tokenizers.tokenizer import PAD
from seq2see.labs.experiment import Experiment, Measurement
from seq2see.labs.small_language_models import LEARNING_RATE, ROWS, english_sentences
from seq2see.labs.verdicts import Effect, Verdict


class WordGRU(nn.Module):
    """Embedding, GRU in one or both directions, and a linear layer for the next word."""

    def __init__(self, width: int, directions: int):
        super().__init__()
        vocabulary = english_sentences().vocabulary
        self.table = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.rnn = nn.GRU(width, width // directions, batch_first=True, bidirectional=directions == 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of the next word at every position."""
        return self.head(self.rnn(self.table(tokens))[0])


@torch.no_grad()
def accuracy(model: WordGRU, rows: Tensor, prefix_only: bool) -> float:
    """The share of next words that are predicted correctly, from the whole sentence or from the words so far."""
    correct = count = 0
    for end in range(1, rows.size(1)):
        present = rows[rows[:, end] != PAD]
        if len(present):
            logits = model(present[:, :end])[:, -1] if prefix_only else model(present)[:, end - 1]
            correct += int((logits.argmax(1) == present[:, end]).sum())
            count += len(present)
    return correct / count


def train(seed: int, directions: int, steps: int, width: int) -> WordGRU:
    """Teacher forcing: the input is the whole sentence."""
    seed_torch(seed, "weights")
    model, rng = WordGRU(width, directions), torch.Generator().manual_seed(derive_seed(seed, "batches"))
    optimizer, rows = torch.optim.Adam(model.parameters(), lr=2 * LEARNING_RATE), english_sentences().train
    for _ in range(steps):
        batch = rows[torch.randint(len(rows), (ROWS,), generator=rng)]
        optimizer.zero_grad()
        logits = model(batch)[:, :-1]
        nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=PAD).backward()
        optimizer.step()
    return model


def measure(seed: int, steps: int, width: int) -> Measurement:
    """Accuracies of both models, with the whole sentence and with the words so far."""
    rows, (one, both) = english_sentences().valid[:300], (train(seed, count, steps, width) for count in (1, 2))
    whole, prefix = accuracy(both, rows, False), accuracy(both, rows, True)
    forward = accuracy(one, rows, True)
    return Measurement(
        {"whole": whole - prefix, "prefix": forward - prefix, "forward": forward - accuracy(one, rows, False)}
    )


LABS = {
    "C23": Experiment(
        claim="C23",
        prediction=(
            "In training the bidirectional model copies the next word, which it has as an input. With the words so far "
            "alone it predicts far worse, and worse than a unidirectional model.",
            "训练时，双向模型直接抄下一个词，因为那就在输入里；只给已有的词时，它差得多，也不如单向模型。",
        ),
        expected=Verdict.HOLDS,
        decisive=(
            Effect(
                "whole",
                (
                    "bidirectional: accuracy with the whole sentence minus with the words so far",
                    "双向：给整句减只给已有的词的准确率",
                ),
                0.3,
            ),
            Effect(
                "prefix",
                ("words so far: accuracy of unidirectional minus bidirectional", "只给已有的词：单向减双向的准确率"),
                0.05,
            ),
        ),
        additional=(
            Effect(
                "forward",
                ("unidirectional: words so far minus whole sentence", "单向：只给已有的词减给整句的准确率"),
                0.01,
            ),
        ),
        measure=measure,
        seeds=5,
        size={"steps": 200, "width": 64},
        tiny={"steps": 2, "width": 8},
        would_change=(
            "a decoder that does not generate from left to right, such as one for masked words",
            "不是从左到右生成的解码器，例如预测被遮住的词",
        ),
    )
}
