"""Reading a given target: how probable each of its tokens is behind those before it."""

from __future__ import annotations

import math

import torch

from seq2see.runs.model import Model, ScoredText
from seq2see.runs.tracing import NamedBatch


@torch.inference_mode()
def score_target(model: Model, reading: NamedBatch) -> list[ScoredText]:
    """Each token of the target of a reading (`model.named_batch`), and how probable it is; who only reads has none."""
    if "labels" not in reading.tokens:
        return []
    labels = reading.batch.labels[0]
    scores = model.module(reading.batch)[0].float().log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    chances = zip(reading.tokens["labels"], scores.tolist(), strict=False)  # nothing is known to follow running text
    return [ScoredText(piece, math.exp(score)) for piece, score in chances]
