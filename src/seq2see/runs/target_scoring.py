"""The probability of each token of a given target, with teacher forcing."""

from __future__ import annotations

import math

import torch

from seq2see.tasks.model import Model, ScoredText
from seq2see.tasks.tracing import NamedBatch


@torch.inference_mode()
def score_target(model: Model, named_batch: NamedBatch) -> list[ScoredText]:
    """The target tokens of a `named_batch` with their probabilities; empty for a model that generates no text."""
    if not model.task.generates or "labels" not in named_batch.tokens:
        return []
    labels = named_batch.batch.labels[0]
    scores = model.module(named_batch.batch)[0].float().log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    rows = zip(
        named_batch.tokens["labels"], scores.tolist(), strict=False
    )  # the last token of running text has no label
    return [ScoredText(token, math.exp(score)) for token, score in rows]
